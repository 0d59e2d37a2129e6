//! Watches whose events are dropped or held back, and that end.

use crate::testenv::proxy::*;

pub type Watch = Pin<Box<dyn Stream<Item = Result<WatchEvent<ConfigMap>, kube::Error>> + Send>>;

pub async fn watch(maps: &Api<ConfigMap>) -> Watch {
    let now = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    Box::pin(
        maps.watch(&WatchParams::default().disable_bookmarks(), &now)
            .await
            .unwrap(),
    )
}

/// The next event as text. `end` if the stream ends.
pub async fn next(watch: &mut Watch) -> String {
    let event = tokio::time::timeout(PATIENCE, watch.try_next())
        .await
        .expect("an event");
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
    match event {
        Ok(Some(WatchEvent::Added(map))) => format!("added {}", name(&map)),
        Ok(Some(WatchEvent::Modified(map))) => format!("modified {}", name(&map)),
        Ok(Some(WatchEvent::Deleted(map))) => format!("deleted {}", name(&map)),
        Ok(Some(WatchEvent::Error(status))) => format!("error {} {}", status.code, status.reason),
        Ok(Some(WatchEvent::Bookmark(_))) => "bookmark".into(),
        Ok(None) => "end".into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn watches_go_wrong_as_told() {
    let Setup {
        direct,
        maps,
        proxy,
        control_plane,
    } = setup().await;
    let watches = Match::any().verb("watch").resource("configmaps");
    let mut stream = watch(&maps).await;
    create(&direct, "a").await.unwrap();
    assert_eq!(next(&mut stream).await, "added a");
    assert_eq!(proxy.open_watches(&watches), 1);

    // Dropped: by type, by name, a limited number.
    let fault = proxy.inject(watches.clone().times(1), Fault::DropEvents(Events::Deleted));
    direct.delete("a", &DeleteParams::default()).await.unwrap();
    fault.wait_hits(1, PATIENCE).await.unwrap();
    let by_name = proxy.inject(watches.clone().name("b"), Fault::DropEvents(Events::All));
    create(&direct, "b").await.unwrap();
    create(&direct, "c").await.unwrap();
    assert_eq!(next(&mut stream).await, "added c");
    assert_eq!(by_name.hits(), 1);
    by_name.remove();

    // Held back: the stream stands still, and then all comes in its order.
    let hold = proxy.inject(watches.clone(), Fault::HoldEvents(Events::Modified));
    direct
        .patch("c", &PatchParams::default(), &Patch::Merge(map("c", "2")))
        .await
        .unwrap();
    hold.wait_hits(1, PATIENCE).await.unwrap();
    create(&direct, "d").await.unwrap();
    // Another watch shows that the API server has sent it. The held one stands still.
    let mut control = watch(&direct).await;
    create(&direct, "e").await.unwrap();
    assert_eq!(next(&mut control).await, "added e");
    assert!(
        futures::FutureExt::now_or_never(stream.try_next()).is_none(),
        "nothing has come through"
    );
    hold.remove();
    assert_eq!(next(&mut stream).await, "modified c");
    assert_eq!(next(&mut stream).await, "added d");
    assert_eq!(next(&mut stream).await, "added e");

    // Late: an event comes after its time, and what follows comes after it.
    let late = proxy.inject(
        watches.clone().times(1),
        Fault::DelayEvents(Events::All, Duration::from_millis(300)),
    );
    let asked = Instant::now();
    create(&direct, "f").await.unwrap();
    create(&direct, "g").await.unwrap();
    assert_eq!(next(&mut stream).await, "added f");
    assert!(asked.elapsed() >= Duration::from_millis(300));
    assert_eq!(next(&mut stream).await, "added g");
    late.remove();

    // Ended.
    assert_eq!(proxy.expire_watches(&watches), 1);
    assert_eq!(next(&mut stream).await, "error 410 Expired");
    assert_eq!(next(&mut stream).await, "end");
    let mut stream = watch(&maps).await;
    assert_eq!(proxy.close_watches(&watches), 1);
    // (kube distinguishes a broken watch from one that ended only in its debug log.)
    assert_eq!(next(&mut stream).await, "end");
    assert_eq!(proxy.open_watches(&watches), 0);
    proxy.inject(watches.clone().times(1), Fault::WatchExpired);
    let mut stream = watch(&maps).await;
    assert_eq!(next(&mut stream).await, "error 410 Expired");
    drop(stream);

    // kubectl sees the same, and ends when its watch does.
    let kubectl = control_plane.kubectl_as(
        proxy.kubeconfig(),
        &["get", "configmaps", "--watch-only", "-o", "name"],
        "",
    );
    let close = async {
        // The direct changes need a watch that is there already.
        let deadline = Instant::now() + PATIENCE;
        while proxy.open_watches(&watches) == 0 {
            assert!(Instant::now() < deadline, "kubectl watches");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let drop_d = proxy.inject(watches.clone().name("d"), Fault::DropEvents(Events::All));
        direct.delete("d", &DeleteParams::default()).await.unwrap();
        direct.delete("e", &DeleteParams::default()).await.unwrap();
        let sizes = |requests: &[weft_testenv::proxy::Recorded]| {
            requests
                .iter()
                .rev()
                .find(|one| one.info.verb == "watch")
                .is_some_and(|one| one.response_size > 0)
        };
        proxy.wait_for(PATIENCE, sizes).await.unwrap();
        assert_eq!(proxy.expire_watches(&watches), 1);
        drop_d.hits()
    };
    let (kubectl, dropped) = tokio::join!(kubectl, close);
    let text = kubectl.unwrap_or_else(|error| error.to_string());
    assert_eq!(dropped, 1);
    assert!(
        text.contains("configmap/e") && !text.contains("configmap/d"),
        "{text}"
    );
}
