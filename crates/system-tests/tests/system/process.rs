//! The process itself: probes, metrics and the end.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use weft_system_tests::*;

#[tokio::test]
async fn an_installation_ends_cleanly_by_sigterm_and_the_next_run_finishes_it() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    operator.wait_leading().await;
    cluster.play_kubemacpool().await;
    // The fifth write of work waits, so the installation is under way for sure.
    let held = proxy.inject(
        Match::any().user(OPERATOR_USER).writes().nth(5),
        Fault::Hold,
    );
    cluster.apply(&example("network-addons-config.yaml")).await;
    held.wait_hits(1, PATIENCE).await.unwrap();
    operator.signal(rustix::process::Signal::TERM);
    operator.wait_logged("stopping").await;
    held.remove();
    let status = operator.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let lease = cluster
        .get(kinds::LEASE, NAMESPACE, "weft-addons")
        .await
        .unwrap();
    assert_eq!(
        lease["spec"]["holderIdentity"], "",
        "the next one need not wait for the end of the lease"
    );
    // All requests in flight have ended, and none was cut off.
    let cut: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(|write| write.code.is_none() || !write.delivered)
        .map(|write| write.info.path)
        .collect();
    assert!(cut.is_empty(), "in flight at the end: {cut:?}");

    let _operator = Operator::start_default(&cluster).await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn probes_and_metrics_say_how_it_is() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    // An API server that cannot be reached.
    let cut = proxy.inject(Match::any(), Fault::CutBefore);
    let operator = Operator::start_via(&cluster, &proxy).await;
    cut.wait_hits(3, PATIENCE).await.unwrap();
    assert_eq!(
        operator.http("/healthz").await.0,
        200,
        "a restart would not help"
    );
    let (code, _, body) = operator.http("/readyz").await;
    assert_eq!((code, body.contains("addons")), (503, true), "{body}");
    assert_eq!(operator.metric("weft_leading").await, 0.0);
    // The requests that were cut may have been those for the lease.
    wait_until("failed watches are counted", async || {
        match operator.metric("weft_watch_failures_total").await {
            failures if failures > 0.0 => Ok(()),
            failures => Err(format!("{failures} failures")),
        }
    })
    .await;
    assert_eq!(operator.http("/nothing").await.0, 404);

    cut.remove();
    wait_until("it is ready", async || {
        match operator.http("/readyz").await {
            (200, ..) => Ok(()),
            (code, _, body) => Err(format!("{code} {body}")),
        }
    })
    .await;
    wait_until("the gauge is there before any resource", async || {
        let text = operator.http("/metrics").await.2;
        if text.contains("kubevirt_cnao_cr_ready") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    assert_eq!(operator.metric("kubevirt_cnao_cr_ready").await, 0.0);

    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    wait_until("the gauges follow status", async || {
        let (ready, pool) = (
            operator.metric("kubevirt_cnao_cr_ready").await,
            operator
                .metric("kubevirt_cnao_cr_kubemacpool_deployed")
                .await,
        );
        if (ready, pool) == (1.0, 1.0) {
            Ok(())
        } else {
            Err(format!("ready {ready}, KubeMacPool {pool}"))
        }
    })
    .await;
    let (code, head, text) = operator.http("/metrics").await;
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        text.contains("\nkubevirt_cnao_cr_ready 1\n"),
        "as the original writes it: {text}"
    );
    assert!(
        text.contains("\n# TYPE weft_writes_total counter\n") && !text.contains("# EOF"),
        "{text}"
    );
    let (_, head, text) = operator
        .http_with(
            "/metrics",
            "Accept: application/openmetrics-text; version=1.0.0\r\n",
        )
        .await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    is_open_metrics(&text);
    assert_eq!(operator.metric("weft_leading").await, 1.0);
    let applied = operator.metric("weft_writes_total").await;
    assert!(applied > 30.0, "{applied}");
    let healthy = operator.http("/healthz").await;
    assert_eq!((healthy.0, &*healthy.2), (200, "ok\n"));
}

#[tokio::test]
async fn the_log_level_follows_the_resource_without_a_restart() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply("{apiVersion: networkaddonsoperator.network.kubevirt.io/v1, kind: NetworkAddonsConfig, metadata: {name: cluster}, spec: {multus: {}}}").await;
    cluster.wait_available().await;
    assert!(!operator.log().contains(" DEBUG "), "it was not started so");
    let level = async |level: serde_json::Value| {
        cluster
            .patch_resource(json!({"spec": {"operatorLogLevel": level}}))
            .await;
        cluster.wait_available().await;
    };
    level(json!("Debug")).await;
    operator.wait_logged(" DEBUG ").await;

    level(json!("Error")).await;
    let quiet = operator.log().len();
    cluster.delete(kinds::CLUSTER_ROLE, "", "multus").await;
    wait_until("it is back", async || {
        cluster
            .get(kinds::CLUSTER_ROLE, "", "multus")
            .await
            .map(drop)
            .ok_or("it is gone".into())
    })
    .await;
    cluster.wait_available().await;
    assert_eq!(
        &operator.log()[quiet..],
        "",
        "that it was put back is no error"
    );

    level(serde_json::Value::Null).await;
    operator.wait_logged("level=\"as at the start\"").await;
    cluster.delete(kinds::CLUSTER_ROLE, "", "multus").await;
    wait_until("it is told that it is back", async || {
        operator.log()[quiet..]
            .contains("applied")
            .then_some(())
            .ok_or("not yet".into())
    })
    .await;
}

/// The text format of OpenMetrics 1.0: each sample belongs to a family with a type, and the end is
/// marked.
fn is_open_metrics(text: &str) {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut families = Vec::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.split_whitespace();
            let (keyword, family) = (words.next().unwrap(), words.next().unwrap());
            assert!(matches!(keyword, "HELP" | "TYPE" | "UNIT"), "{line}");
            if keyword == "TYPE" {
                families.push((family.to_owned(), words.next().unwrap().to_owned()));
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect(line);
        let name = name.split('{').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let known = families.iter().any(|(family, kind)| {
            match (kind.as_str(), name.strip_prefix(family.as_str())) {
                ("counter", rest) => rest == Some("_total"),
                ("histogram", rest) => matches!(rest, Some("_bucket" | "_sum" | "_count")),
                (_, rest) => rest == Some(""),
            }
        });
        assert!(known, "{line}: of no family in {families:?}");
    }
}
