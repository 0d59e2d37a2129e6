//! `weft uninstall` on a terminal asks for each domain.

use weft_plan::kinds;

use crate::commands::{harness::*, user::*};

const ADDONS: &str = "Remove addons (NetworkAddonsConfig)? [y/N]";
const PLACEMENT: &str = "Remove placement (PlacementAPI)? [y/N]";

/// Two domains without resources, each with its operator.
async fn two_domains() -> Cluster {
    let cluster = Cluster::start_default().await;
    cluster
        .apply_manifests(&["--split", "--domains", "placement"])
        .await;
    cluster
}

fn start(cluster: &Cluster, arguments: &str) -> Terminal {
    let (kubeconfig, folder) = (
        cluster.control_plane.kubeconfig(),
        cluster.control_plane.dir(),
    );
    Terminal::start(kubeconfig, folder, arguments)
}

#[tokio::test]
async fn no_or_ctrl_c_at_a_question_changes_nothing() {
    let cluster = two_domains().await;
    let before = cluster.snapshot().await;

    let mut no = start(&cluster, "uninstall");
    no.wait(ADDONS).await;
    // Return alone is a no, too.
    no.press("\r");
    no.wait(PLACEMENT).await;
    no.press("n\r");
    no.wait("Nothing was changed.").await;
    assert_eq!(no.ended().await, Some(0));

    let mut interrupted = start(&cluster, "uninstall");
    interrupted.wait(ADDONS).await;
    interrupted.press("y\r");
    interrupted.wait(PLACEMENT).await;
    interrupted.press("\x03");
    // A shell adds 128 to the number of the signal.
    assert_eq!(interrupted.ended().await, Some(130));

    // A yes to one domain shows what that removes, and asks once more.
    let mut part = start(&cluster, "uninstall");
    part.wait(ADDONS).await;
    part.press("y\r");
    part.wait(PLACEMENT).await;
    part.press("n\r");
    part.wait("Remove this part? [y/N]").await;
    part.press("n\r");
    part.wait("Nothing was changed.").await;
    assert_eq!(part.ended().await, Some(0));
    assert_same(&before, &cluster.snapshot().await, "none of the answers");
}

#[tokio::test]
async fn yes_to_one_domain_removes_that_domain_alone() {
    let cluster = two_domains().await;
    let mut terminal = start(&cluster, "uninstall");
    terminal.wait(ADDONS).await;
    terminal.press("n\r");
    terminal.wait(PLACEMENT).await;
    terminal.press("yes\r");
    terminal.wait("Remove this part? [y/N]").await;
    let shown = terminal.shown();
    let (_, part) = shown.split_once(PLACEMENT).unwrap();
    assert!(
        part.contains("Deployment weft-placement/weft-placement-operator")
            && !part.contains(OPERATOR),
        "{part}"
    );
    terminal.press("Y\r");
    assert_eq!(terminal.ended().await, Some(0), "{}", terminal.shown());
    let (placement, addons) = ("weft-placement-operator", OPERATOR);
    for (namespace, name, is_there) in [
        ("weft-placement", placement, false),
        (NAMESPACE, addons, true),
    ] {
        let found = cluster.get(kinds::DEPLOYMENT, namespace, name).await;
        assert_eq!(found.is_some(), is_there, "{namespace}/{name}");
    }
}
