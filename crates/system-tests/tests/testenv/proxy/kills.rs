//! Processes that are killed at a write.

use crate::testenv::proxy::*;

/// Kills a real program before and after each of its writes: exactly so many writes are done.
#[tokio::test]
async fn a_process_is_killed_before_and_after_each_write() {
    let Setup {
        direct,
        proxy,
        control_plane,
        ..
    } = setup().await;
    let manifests: String = (1..=3)
        .map(|n| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{n}}}\n---\n"))
        .collect();
    let file = control_plane.dir().join("maps.yaml");
    std::fs::write(&file, manifests).unwrap();
    for (n, when) in (1..=3).flat_map(|n| [(n, When::Before), (n, When::After)]) {
        proxy.clear();
        let victim = Victim::new();
        proxy.on_write(Match::any().user(ADMIN), n, when, victim.kill());
        let mut kubectl = Command::new(control_plane.programs().get("kubectl").unwrap())
            .args(["apply", "--server-side", "-f"])
            .arg(&file)
            .env("KUBECONFIG", proxy.kubeconfig())
            .env("KUBECACHEDIR", control_plane.dir().join("kubectl-cache"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        victim.is(&kubectl);
        let status = kubectl.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "{n} {when:?}"
        );

        let written = direct
            .list(&ListParams::default().labels("!none"))
            .await
            .unwrap();
        let names: Vec<_> = written
            .items
            .iter()
            .filter_map(|map| map.metadata.name.clone())
            .filter(|name| name.starts_with("map-"))
            .collect();
        let done = if when == When::Before { n - 1 } else { n };
        assert_eq!(
            names,
            (1..=done).map(|n| format!("map-{n}")).collect::<Vec<_>>(),
            "{n} {when:?}"
        );
        let last = proxy.writes().pop().unwrap();
        assert_eq!(
            (last.forwarded, last.delivered),
            (when == When::After, false)
        );
        assert_eq!(proxy.writes().len(), n);
        // A new process of the same user is served.
        control_plane
            .kubectl_as(
                proxy.kubeconfig(),
                &["delete", "-f", file.to_str().unwrap(), "--ignore-not-found"],
                "",
            )
            .await
            .unwrap();
    }
}
