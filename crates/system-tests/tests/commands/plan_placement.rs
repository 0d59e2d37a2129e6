//! `weft plan` of a PlacementAPI: by the operator's own steps, and what others have in the
//! namespace.

use serde_json::{Value, json};
use weft_plan::{What, differences, kinds};

use crate::commands::{
    harness::*,
    plan::{done, planned},
    user::*,
};

const SPACE: &str = "openstack";
const PASSWORD: &str = "a-password-of-the-database";

fn file(namespace: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": {"name": "placement", "namespace": namespace}, "spec": spec
    })
    .to_string()
}

async fn plan(cluster: &Cluster, file: &str, code: i32) -> Value {
    weft_reading(cluster, &["plan", "-f", "-", "-o", "json"], file)
        .await
        .ended(code)
        .json()
}

fn notes(plan: &Value) -> String {
    plan["resources"][0]["notes"].to_string()
}

async fn ready(cluster: &Cluster) {
    wait_until("the PlacementAPI is Ready", async || {
        let live = cluster
            .get(kinds::PLACEMENT_API, SPACE, "placement")
            .await
            .ok_or("it is not there")?;
        let is_current = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        if is_current && condition(&live["status"], "Ready")["status"] == "True" {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;
}

#[tokio::test]
async fn the_operator_does_what_the_plan_of_a_placement_api_prints() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: SPACE,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let mut spec = json!({
        "auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}
    });

    // The plan names the objects that it waits for, and says if no operator would act.
    let waits = plan(&cluster, &file(SPACE, &spec), 1).await;
    assert!(
        notes(&waits).contains("InputReady: Input data resources missing: secret/placement-db; what comes after that is not shown"),
        "{waits:#}"
    );
    assert_eq!(
        planned(&waits),
        ["create ServiceAccount/openstack/placement-placement".to_owned()].into()
    );
    let unserved = plan(&cluster, &file("default", &spec), 1).await;
    assert!(
        notes(&unserved).contains("namespace default is not served"),
        "{unserved:#}"
    );

    let url = format!("mysql+pymysql://placement:{PASSWORD}@db.example/placement");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "placement-db", "namespace": SPACE}, "stringData": {"url": url}
    });
    cluster.apply(&secret.to_string()).await;
    let edits = [
        ("first", json!({})),
        (
            "another Service",
            json!({"override": {"service": {"public": {"spec": {"sessionAffinity": "ClientIP"}}}}}),
        ),
        (
            "another image, so another Job",
            json!({"containerImage": "registry.test/placement:2"}),
        ),
        (
            "other files",
            json!({"customServiceConfig": "[DEFAULT]\ndebug = true\n"}),
        ),
    ];
    for (what, edit) in edits {
        spec.as_object_mut()
            .unwrap()
            .extend(edit.as_object().unwrap().clone());
        let file = file(SPACE, &spec);
        let text = weft_reading(&cluster, &["plan", "-f", "-"], &file)
            .await
            .ended(1);
        assert!(!text.stdout.contains(PASSWORD), "{}", text.stdout);
        let planned = planned(&plan(&cluster, &file, 1).await);
        let before = cluster.audit().len();
        cluster.apply(&file).await;
        ready(&cluster).await;
        assert_eq!(planned, done(&cluster, before), "{what}");
        let after = weft_reading(&cluster, &["plan", "-f", "-"], &file)
            .await
            .ended(0);
        assert!(
            after.stdout.contains("nothing would change"),
            "{}",
            after.stdout
        );
    }

    // A second one has no effect: its namespace has one. A finalizer makes it no older.
    let mut second: Value = serde_json::from_str(&file(SPACE, &spec)).unwrap();
    second["metadata"]["name"] = "second".into();
    second["metadata"]["finalizers"] = json!(["weft.network/teardown"]);
    let second = plan(&cluster, &second.to_string(), 1).await;
    assert!(
        notes(&second).contains(
            "only the oldest PlacementAPI of a namespace counts, which is \\\"placement\\\""
        ),
        "{second:#}"
    );

    shows_what_each_tool_changes(&cluster).await;

    let deletion = weft_reading(&cluster, &["plan", "--delete", "-o", "json"], "")
        .await
        .ended(1)
        .json();
    let deleted = planned(&deletion);
    assert!(
        deleted.contains("delete Deployment.apps/openstack/placement")
            && !deleted.contains("delete Secret/openstack/placement-db"),
        "{deleted:?}"
    );
    cluster
        .delete(kinds::PLACEMENT_API, SPACE, "placement")
        .await;
    wait_until("nothing is left but the user's Secret", async || {
        let left = cluster.leftovers().await;
        if left == ["Secret openstack/placement-db".to_owned()].into() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
}

/// The plan shows of the resource itself what the tool changes that has applied its file before. The
/// resources are others than the oldest of the namespace, so that no operator acts on them.
async fn shows_what_each_tool_changes(cluster: &Cluster) {
    let all = json!({
        "auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}},
        "replicas": 2, "nodeSelector": {"disk": "ssd"}
    });
    let less = json!({"auth": all["auth"], "database": all["database"], "customServiceConfig": "[DEFAULT]\ndebug = true\n"});
    let flux = "--field-manager=kustomize-controller";
    let argo_cd = "--field-manager=argocd-controller";
    let tools: [(&str, &[&str], &[&str]); 5] = [
        ("client", &["apply"], &["apply"]),
        (
            "server",
            &["apply", "--server-side"],
            &["apply", "--server-side"],
        ),
        (
            "flux",
            &["apply", "--server-side", flux],
            &["apply", "--server-side", flux],
        ),
        (
            "argo-cd",
            &["apply", "--server-side", argo_cd],
            &["apply", "--server-side", argo_cd],
        ),
        ("replace", &["create"], &["replace"]),
    ];
    for (name, first, then) in tools {
        let file =
            |spec: &Value| file(SPACE, spec).replacen("\"placement\"", &format!("{name:?}"), 1);
        let run = async |command: &[&str], spec: &Value| {
            cluster
                .control_plane
                .kubectl_with_input(&[command, &["-f", "-"]].concat(), &file(spec))
                .await
                .unwrap();
            let live = cluster.get(kinds::PLACEMENT_API, SPACE, name).await;
            live.unwrap()["spec"].clone()
        };
        let mut live = run(first, &all).await;
        for (what, spec) in [
            ("the same", &all),
            ("the same, with a field of another user", &all),
            ("less", &less),
            ("less again", &less),
        ] {
            if what.contains("another user") {
                let field = json!({"spec": {"nodeSelector": {"rack": "r1"}}}).to_string();
                cluster
                    .kubectl(&[
                        "-n",
                        SPACE,
                        "patch",
                        "placementapi",
                        name,
                        "--type=merge",
                        "-p",
                        &field,
                    ])
                    .await;
                live["nodeSelector"]["rack"] = "r1".into();
            }
            let plan = weft_reading(cluster, &["plan", "-f", "-", "-o", "json"], &file(spec))
                .await
                .json();
            let after = run(then, spec).await;
            let changes: Vec<Value> = differences("spec", &live, &after)
                .iter()
                .map(|found| match &found.what {
                    What::Missing { desired } => {
                        json!({"path": found.path, "change": "add", "to": desired})
                    }
                    What::Changed { live, desired } => {
                        json!({"path": found.path, "change": "change", "from": live, "to": desired})
                    }
                    What::Dropped { live } => {
                        json!({"path": found.path, "change": "remove", "from": live})
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(
                plan["resources"][0]["differences"],
                json!(changes),
                "{name}: {what}"
            );
            let expected = what == "less" || what.contains("another user") && name == "replace";
            assert_eq!(!changes.is_empty(), expected, "{name}: {what}: {changes:?}");
            live = after;
        }
        cluster.delete(kinds::PLACEMENT_API, SPACE, name).await;
    }
}
