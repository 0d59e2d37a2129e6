//! PlacementAPIs offline: `weft validate` and `weft render`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{fs, path::Path};

use common::{objects, root, title, weft_with_stdin};

const SECRETS: &str = "---
apiVersion: v1
kind: Secret
metadata: {name: placement-secret}
stringData: {PlacementPassword: 'a$b'}
---
apiVersion: v1
kind: Secret
metadata: {name: placement-db}
stringData: {username: placement, password: 'p@ss'}
---
apiVersion: v1
kind: Secret
metadata: {name: keystone-admin}
stringData: {username: admin, password: admin}
";

fn example(name: &str) -> String {
    fs::read_to_string(root().join("examples/placement").join(name)).unwrap()
}

#[test]
fn everything_is_shown_with_the_secrets_beside_it() {
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &(example("standalone.yaml") + SECRETS));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let titles: Vec<_> = objects(&run.stdout).iter().filter(|object| !object.is_null()).map(title).collect();
    for expected in ["Secret placement-config-data", "Service placement-public", "Deployment placement"] {
        assert!(titles.iter().any(|title| title == expected), "{expected}: {titles:?}");
    }
    assert!(titles.iter().any(|title| title.starts_with("Job placement-db-sync-")), "{titles:?}");
}

#[test]
fn what_is_missing_and_what_is_taken_for_granted_is_said() {
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &example("standalone.yaml"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("stdin: PlacementAPI placement: InputReady: Input data resources missing: secret/placement-secret; "),
        "{}",
        run.stderr
    );
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &(example("placement.yaml") + SECRETS));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("no KeystoneAPI is given: it is taken to be at http://keystone-internal.default.svc:5000"),
        "{}",
        run.stderr
    );
    let kinds: Vec<_> = objects(&run.stdout).iter().map(|object| object["kind"].as_str().unwrap_or_default().to_owned()).collect();
    for kind in ["MariaDBDatabase", "MariaDBAccount", "KeystoneService", "KeystoneEndpoint"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn mistakes_are_found_with_the_way_out() {
    let misspelt = example("additional-networks.yaml").replace("  networkAttachments:", "  networkAttachents:");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &misspelt);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("spec.networkAttachents: networkAttachents is misspelt: the field is networkAttachments"),
        "{}",
        run.stdout
    );

    let no_admin = example("standalone.yaml").replace("    adminSecret:\n      name: keystone-admin\n", "");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &no_admin);
    assert!(
        run.code == 1 && run.stdout.contains("adminSecret") && run.stdout.contains("name the Secret with its name and password"),
        "{}",
        run.stdout
    );

    let typed = example("standalone.yaml").replace("registration: Direct", "registration: direct");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &typed);
    assert!(run.code == 1 && run.stdout.contains("spec.keystone.registration") && run.stdout.contains("\"Direct\""), "{}", run.stdout);
}
