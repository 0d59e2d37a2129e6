//! Requests that are refused, cut, late or held.

use crate::testenv::proxy::*;

#[tokio::test]
async fn requests_go_wrong_as_told() {
    let Setup {
        direct,
        maps,
        proxy,
        control_plane,
    } = setup().await;

    // Answers that are not the API server's.
    for status in [409, 410, 500, 503, 504] {
        let fault = proxy.inject(
            Match::any().verb("create").resource("configmaps"),
            Fault::status(status),
        );
        let error = create(&maps, "refused").await.unwrap_err();
        assert_eq!(code(&error), Some(status), "{error}");
        assert_eq!(fault.hits(), 1);
        fault.remove();
    }
    let fault = proxy.inject(
        Match::any().resource("configmaps").verb("get").nth(2),
        Fault::status(500),
    );
    assert_eq!(code(&maps.get("no").await.unwrap_err()), Some(404));
    assert_eq!(code(&maps.get("no").await.unwrap_err()), Some(500));
    assert_eq!(code(&maps.get("no").await.unwrap_err()), Some(404));
    assert_eq!(fault.hits(), 1);
    // client-go obeys Retry-After by itself: kubectl succeeds at its second try.
    let fault = proxy.inject(
        Match::any().verb("create").resource("configmaps").times(1),
        Fault::too_many_requests(1),
    );
    let asked = Instant::now();
    control_plane
        .kubectl_as(proxy.kubeconfig(), &["create", "configmap", "patient"], "")
        .await
        .unwrap();
    assert_eq!(fault.hits(), 1);
    assert!(
        asked.elapsed() >= Duration::from_secs(1),
        "it waited as long as Retry-After says"
    );
    // The tests' own client does the same, and nothing more: without a time there is no other try.
    let fault = proxy.inject(
        Match::any().verb("list").resource("configmaps").times(1),
        Fault::too_many_requests(1),
    );
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(fault.hits(), 1);
    let fault = proxy.inject(
        Match::any().verb("list").resource("configmaps").times(1),
        Fault::status(429),
    );
    let error = maps.list(&ListParams::default()).await.unwrap_err();
    assert_eq!(code(&error), Some(429), "{error}");
    assert_eq!(fault.hits(), 1);
    assert!(
        direct.get_opt("refused").await.unwrap().is_none(),
        "none of these reached the API server"
    );

    // Cut connections.
    proxy.inject(
        Match::any().writes().name("before").times(1),
        Fault::CutBefore,
    );
    let error = create(&maps, "before").await.unwrap_err();
    assert_eq!(code(&error), None, "{error}");
    assert!(direct.get_opt("before").await.unwrap().is_none());
    proxy.inject(
        Match::any().writes().name("after").times(1),
        Fault::CutAfter,
    );
    let error = create(&maps, "after").await.unwrap_err();
    assert_eq!(code(&error), None, "{error}");
    assert!(
        direct.get_opt("after").await.unwrap().is_some(),
        "done, though its client does not know"
    );
    let lost = proxy
        .writes()
        .into_iter()
        .find(|write| write.info.name == "after")
        .unwrap();
    assert_eq!(
        (lost.forwarded, lost.code, lost.delivered),
        (true, Some(201), false)
    );
    let kubectl = control_plane
        .kubectl_as(proxy.kubeconfig(), &["create", "configmap", "after"], "")
        .await
        .unwrap_err()
        .to_string();
    assert!(kubectl.contains("already exists"), "{kubectl}");

    // Late ones.
    proxy.inject(
        Match::any().writes().name("late"),
        Fault::Delay(Duration::from_millis(300)),
    );
    let asked = Instant::now();
    create(&maps, "late").await.unwrap();
    assert!(asked.elapsed() >= Duration::from_millis(300));
    proxy.inject(
        Match::any().writes().name("unanswered"),
        Fault::DelayAnswer(Duration::from_secs(3600)),
    );
    let unanswered = tokio::spawn({
        let maps = maps.clone();
        async move { create(&maps, "unanswered").await }
    });
    wait_until("the unanswered request is carried out", async || {
        let there = direct.get_opt("unanswered").await.unwrap();
        there.map(drop).ok_or_else(|| "it is not".to_owned())
    })
    .await;
    assert!(!unanswered.is_finished(), "it is carried out at once");
    proxy.inject(
        Match::any().writes().name("answered-late"),
        Fault::DelayAnswer(Duration::from_millis(300)),
    );
    let asked = Instant::now();
    create(&maps, "answered-late").await.unwrap();
    assert!(asked.elapsed() >= Duration::from_millis(300));
    let hold = proxy.inject(Match::any().writes().name("held"), Fault::Hold);
    let held = tokio::spawn({
        let maps = maps.clone();
        async move { create(&maps, "held").await }
    });
    hold.wait_hits(1, PATIENCE).await.unwrap();
    assert!(direct.get_opt("held").await.unwrap().is_none());
    hold.remove();
    held.await.unwrap().unwrap();
    assert!(direct.get_opt("held").await.unwrap().is_some());

    // Healed, cleared, and an error that shows what was seen.
    proxy.inject(Match::any(), Fault::CutBefore);
    proxy.heal();
    proxy.clear();
    maps.list(&ListParams::default()).await.unwrap();
    proxy
        .wait_for(PATIENCE, |requests| {
            requests.len() == 1 && requests[0].info.verb == "list"
        })
        .await
        .unwrap();
    let error = proxy
        .wait_for(Duration::from_millis(10), |requests| requests.len() == 7)
        .await
        .unwrap_err();
    assert!(
        format!("{error:#}")
            .contains("kubernetes-admin list /api/v1/namespaces/default/configmaps"),
        "{error:#}"
    );
}
