//! PlacementAPIs offline: `weft validate` and `weft render`.

use std::{fs, path::Path};

use super::common::{objects, root, title, weft_with_stdin};

const SECRETS: &str = "---
apiVersion: v1
kind: Secret
metadata: {name: placement-secret, annotations: {weft.network/keystone-url: 'https://keystone.example.com:5000'}}
stringData: {PlacementPassword: 'a$b'}
---
apiVersion: v1
kind: Secret
metadata: {name: placement-db}
stringData: {username: placement, password: 'p@ss'}
---
apiVersion: v1
kind: Secret
metadata: {name: keystone-admin, annotations: {weft.network/keystone-url: 'https://keystone.example.com:5000'}}
stringData: {username: admin, password: admin}
";

fn example(name: &str) -> String {
    fs::read_to_string(root().join("examples/placement").join(name)).unwrap()
}

#[test]
fn everything_is_shown_with_the_secrets_beside_it() {
    let run = weft_with_stdin(
        Path::new("."),
        &["render", "-f", "-"],
        &(example("standalone.yaml") + SECRETS),
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let titles: Vec<_> = objects(&run.stdout)
        .iter()
        .filter(|object| !object.is_null())
        .map(title)
        .collect();
    for expected in [
        "Secret placement-config-data",
        "Service placement-public",
        "Deployment placement",
    ] {
        assert!(
            titles.iter().any(|title| title == expected),
            "{expected}: {titles:?}"
        );
    }
    assert!(
        titles.iter().any(|title| title == "Job placement-db-sync"),
        "{titles:?}"
    );
}

#[test]
fn the_name_of_the_internal_endpoint_is_the_documented_one() {
    let network = example("isolated-network.yaml") + SECRETS;
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &network);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rendered = objects(&run.stdout);
    let service = rendered
        .iter()
        .find(|object| !object.is_null() && title(object) == "Service placement-internal")
        .unwrap();
    let name = service["metadata"]["annotations"]["dnsmasq.network.openstack.org/hostname"]
        .as_str()
        .unwrap();
    let page = fs::read_to_string(root().join("docs/placement.md")).unwrap();
    assert!(page.contains(&format!("`{name}`")), "{name}");
}

#[test]
fn missing_inputs_and_assumptions_are_reported() {
    let run = weft_with_stdin(
        Path::new("."),
        &["render", "-f", "-"],
        &example("standalone.yaml"),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("stdin: PlacementAPI openstack/placement: InputReady: Input data resources missing: secret/placement-secret; "),
        "{}",
        run.stderr
    );
    let run = weft_with_stdin(
        Path::new("."),
        &["render", "-f", "-"],
        &(example("placement.yaml") + SECRETS),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("no KeystoneAPI is given: it is taken to be at http://keystone-internal.openstack.svc:5000"),
        "{}",
        run.stderr
    );
    let kinds: Vec<_> = objects(&run.stdout)
        .iter()
        .map(|object| object["kind"].as_str().unwrap_or_default().to_owned())
        .collect();
    for kind in [
        "MariaDBDatabase",
        "MariaDBAccount",
        "KeystoneService",
        "KeystoneEndpoint",
    ] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn a_secret_that_may_not_be_sent_to_keystone_is_told_with_the_command() {
    let files = example("standalone.yaml") + &SECRETS.replace("keystone-url", "something-else");
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &files);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for secret in ["keystone-admin", "placement-secret"] {
        let command = format!(
            "kubectl -n openstack annotate secret {secret} weft.network/keystone-url=https://keystone.example.com:5000"
        );
        assert!(run.stderr.contains(&command), "{command}: {}", run.stderr);
    }
    let checked = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &files);
    assert_eq!(checked.code, 0, "it is no mistake: {}", checked.stderr);
    assert!(
        checked
            .stderr
            .contains("secret/keystone-admin: nothing of it may be sent to"),
        "{}",
        checked.stderr
    );
    let checked = weft_with_stdin(
        Path::new("."),
        &["validate", "-f", "-"],
        &(example("standalone.yaml") + SECRETS),
    );
    assert!(
        !checked.stderr.contains("may be sent"),
        "{}",
        checked.stderr
    );
    let kinds: Vec<_> = objects(&run.stdout)
        .iter()
        .map(|object| object["kind"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(
        !kinds.iter().any(|kind| kind == "Deployment"),
        "what comes after it is not shown: {kinds:?}"
    );
}

#[test]
fn mistakes_are_found_with_the_way_out() {
    let misspelt = example("additional-networks.yaml")
        .replace("  networkAttachments:", "  networkAttachents:");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &misspelt);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains(
            "spec.networkAttachents: networkAttachents is misspelt: the field is networkAttachments"
        ),
        "{}",
        run.stdout
    );

    let no_admin =
        example("standalone.yaml").replace("    adminSecret:\n      name: keystone-admin\n", "");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &no_admin);
    assert!(
        run.code == 1
            && run.stdout.contains("adminSecret")
            && run
                .stdout
                .contains("name the Secret with its name and password"),
        "{}",
        run.stdout
    );

    let typed = example("standalone.yaml").replace("registration: Direct", "registration: direct");
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &typed);
    assert!(
        run.code == 1
            && run.stdout.contains("spec.keystone.registration")
            && run.stdout.contains("\"Direct\""),
        "{}",
        run.stdout
    );
}

/// As `kubectl get placementapis --all-namespaces -o yaml` writes them.
#[test]
fn lists_are_checked_one_by_one_and_a_namespace_has_one() {
    let one = |namespace: &str, name: &str, secret: &str| {
        format!(
            "- apiVersion: placement.openstack.org/v1beta1\n  kind: PlacementAPI\n  metadata: {{name: {name}, namespace: {namespace}}}\n  spec: {{databaseInstance: openstack, {secret}: osp-secret}}\n"
        )
    };
    let list = [
        "apiVersion: v1\nkind: List\nitems:\n".to_owned(),
        one("a", "one", "secret"),
        one("a", "two", "secret"),
        one("b", "one", "secrett"),
    ]
    .concat();
    let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &list);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    for line in [
        "stdin:10:20: metadata.name: \"two\" would have no effect: of several PlacementAPIs in a namespace only the oldest counts, and \"one\" comes before it: keep one of them\n",
        "stdin:15:39: spec.secrett: unknown field \"secrett\"; did you mean \"secret\"?\n",
    ] {
        assert!(run.stdout.contains(line), "{line}{}", run.stdout);
    }
    assert!(!run.stdout.contains("stdin:6:"), "{}", run.stdout);
}

#[test]
fn each_mistake_is_told_once_with_field_value_rule_and_way_out() {
    for (spec, said) in [
        (
            "replicas: \"2\"",
            "stdin:7:13: spec.replicas: must be a whole number, not the string \"2\"\n",
        ),
        (
            "networkAttachments: storage",
            "stdin:7:23: spec.networkAttachments: must be a list, not the string \"storage\"\n",
        ),
        (
            "resources: {limits: {cpu: lots}}",
            "stdin:7:29: spec.resources.limits.cpu: \"lots\" is no quantity: write a number, with a unit if need be, for example 2, 500m or 1Gi\n",
        ),
        (
            "override: {probes: {livenessProbes: {type: x}}}",
            "stdin:7:46: spec.override.probes.livenessProbes.type: \"x\" is not allowed, only \"HTTP\", \"Exec\"\n",
        ),
        (
            "keystone: {external: {authURL: \"keystone:5000\"}}",
            "stdin:7:34: spec.keystone.external.authURL: \"keystone:5000\" must be a web address, for example https://keystone.example:5000, with a port from 1 to 65535 and a path of plain segments: letters, digits, '-', '.', '_' and '~' between single slashes, and no segment . or ..\n",
        ),
        (
            "keystone: {external: {authURL: \"https://keystone:5000/?a=b\"}}",
            "stdin:7:34: spec.keystone.external.authURL: \"https://keystone:5000/?a=b\" must have no query and no fragment: remove the ? or # and everything after it\n",
        ),
        (
            "keystone: {external: {authURL: \"https://a:b@keystone:5000\"}}",
            "stdin:7:34: spec.keystone.external.authURL: \"https://a:b@keystone:5000\" must have no user and no password: remove everything from // up to the @, the Secret of keystone.adminSecret holds both\n",
        ),
    ] {
        let head = "apiVersion: placement.openstack.org/v1beta1\nkind: PlacementAPI\nmetadata: {name: placement}\nspec:\n  databaseInstance: openstack\n  secret: osp-secret\n";
        let run = weft_with_stdin(
            Path::new("."),
            &["validate", "-f", "-"],
            &format!("{head}  {spec}\n"),
        );
        assert_eq!((run.code, run.stdout.as_str()), (1, said), "{}", run.stderr);
    }
    for (metadata, said) in [
        ("{}", "is missing: give it a name"),
        (
            "{name: Not_one}",
            "\"Not_one\" must have lower-case letters",
        ),
    ] {
        let text = format!(
            "apiVersion: placement.openstack.org/v1beta1\nkind: PlacementAPI\nmetadata: {metadata}\nspec: {{databaseInstance: a, secret: b}}\n"
        );
        let run = weft_with_stdin(Path::new("."), &["validate", "-f", "-"], &text);
        assert!(
            run.code == 1 && run.stdout.contains(&format!("metadata.name: {said}")),
            "{}",
            run.stdout
        );
    }
}
