//! The record of requests.

use crate::testenv::proxy::*;

/// The API server warns about its selector.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: old}
spec:
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec:
      nodeSelector: {beta.kubernetes.io/os: linux}
      containers: [{name: one, image: registry.test/one}]
";

#[tokio::test]
async fn the_record_is_what_the_audit_log_says() {
    let Setup {
        maps,
        proxy,
        control_plane,
        ..
    } = setup().await;
    create(&maps, "a").await.unwrap();
    create(&maps, "a").await.unwrap_err();
    maps.patch(
        "a",
        &PatchParams::apply("test").force(),
        &Patch::Apply(map("a", "2")),
    )
    .await
    .unwrap();
    maps.patch(
        "a",
        &PatchParams {
            dry_run: true,
            ..PatchParams::apply("test").force()
        },
        &Patch::Apply(map("a", "3")),
    )
    .await
    .unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    let watch: Pin<Box<_>> = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    maps.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    control_plane
        .kubectl(&["create", "serviceaccount", "reader"])
        .await
        .unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig_via(proxy.url(), "default", "reader")
        .await
        .unwrap();
    // A subresource.
    control_plane
        .kubectl_as(proxy.kubeconfig(), &["create", "token", "reader"], "")
        .await
        .unwrap();
    control_plane
        .kubectl_as(&kubeconfig, &["get", "configmaps"], "")
        .await
        .unwrap_err();
    control_plane
        .kubectl_as(
            proxy.kubeconfig(),
            &["apply", "-f", "-"],
            "{apiVersion: v1, kind: Namespace, metadata: {name: new}}",
        )
        .await
        .unwrap();
    assert_eq!(proxy.warnings(&Match::any()), [""; 0]);
    let apply = ["apply", "--warnings-as-errors", "-f", "-"];
    let warned = control_plane
        .kubectl_as(proxy.kubeconfig(), &apply, DEPLOYMENT)
        .await
        .unwrap_err();
    assert!(
        format!("{warned:#}").contains("error: 1 warning received"),
        "{warned:#}"
    );
    let warning = r#"create /apis/apps/v1/namespaces/default/deployments: 299 - "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead""#;
    assert_eq!(proxy.warnings(&Match::any()), [warning]);
    assert_eq!(proxy.warnings(&Match::any().verb("patch")), [""; 0]);
    drop(watch);

    let writes: Vec<_> = proxy
        .writes()
        .iter()
        .map(|write| {
            (
                write.info.verb.clone(),
                write.info.resource.clone(),
                write.code,
            )
        })
        .collect();
    let expected = [
        ("create", "configmaps", 201),
        ("create", "configmaps", 409),
        ("patch", "configmaps", 200),
        ("delete", "configmaps", 200),
        ("deletecollection", "configmaps", 200),
        ("create", "serviceaccounts", 201),
        ("create", "namespaces", 201),
        ("create", "deployments", 201),
    ];
    assert_eq!(
        writes,
        expected.map(|(verb, resource, code)| (verb.to_owned(), resource.to_owned(), Some(code)))
    );
    let first = &proxy.writes()[0];
    assert_eq!(first.request_size, first.body.len());
    assert_eq!(
        serde_json::from_slice::<ConfigMap>(&first.body).unwrap(),
        map("a", "1")
    );
    assert!(
        first.response_size > first.request_size as u64,
        "the answer has managedFields too"
    );
    assert!(proxy.requests().iter().any(|request| request.info.user
        == "system:serviceaccount:default:reader"
        && request.code == Some(403)));

    // An audit event is written when its request has ended, for the last one maybe a moment later
    // than we know its answer.
    let deadline = Instant::now() + PATIENCE;
    let audited = loop {
        let events = control_plane.audit_events().unwrap();
        let by_id: BTreeMap<_, _> = events
            .into_iter()
            .map(|event| (event.id.clone(), event))
            .collect();
        if proxy
            .requests()
            .iter()
            .all(|request| by_id.contains_key(&request.audit_id))
        {
            break by_id;
        }
        assert!(
            Instant::now() < deadline,
            "not everything that was recorded is audited"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for request in proxy.requests() {
        let event = &audited[&request.audit_id];
        let info = &request.info;
        let recorded = (
            &info.user,
            &info.verb,
            &info.group,
            &info.resource,
            &info.subresource,
            &info.namespace,
            &info.name,
            request.code,
        );
        let said = (
            &event.user,
            &event.verb,
            &event.group,
            &event.resource,
            &event.subresource,
            &event.namespace,
            &event.name,
            Some(event.code),
        );
        assert_eq!(recorded, said, "{}", event.uri);
        assert_eq!(info.is_write(), event.is_write());
        assert!(request.forwarded && request.delivered);
    }
    // And nothing went past it: what the audit log has more, was sent straight to the API server.
    let agent = |user: &str| audited.values().filter(|event| event.user == user).count();
    let reader = "system:serviceaccount:default:reader";
    assert_eq!(
        agent(reader),
        proxy
            .requests()
            .iter()
            .filter(|request| request.info.user == reader)
            .count()
    );
}
