//! Secrets that the operator sends to Keystone: somebody who may write the Secret, or the
//! operator's administrator, permits it. The author of a PlacementAPI alone does not, and learns
//! nothing about other hosts from its status.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use weft_testenv::proxy::{Fault, Match, Proxy};

use super::{site::FINALIZER, *};

/// A refusal in the form of Keystone.
const REFUSAL: &str =
    r#"{"error": {"code": 401, "message": "The words of the server", "title": "Unauthorized"}}"#;
/// The answer to a login.
const SESSION: &str = r#"{"token": {"user": {"domain": {"id": "default"}}}}"#;
/// A part of the message that reveals nothing about the host.
const COARSE: &str = "does not answer as Keystone does";

/// A server of somebody's that keeps what it is sent: nothing for a connection without a whole
/// request.
struct Listener {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    async fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = request(&mut stream).await.unwrap_or_default();
                kept.lock().unwrap().push(request.clone());
                // A client that has gone needs no answer.
                let _ = stream.write_all(answer(&request).as_bytes()).await;
            }
        });
        Self { url, heard }
    }

    /// One that answers as a Keystone does that knows no such user.
    async fn refusing() -> Self {
        Self::start(|_| http("401 Unauthorized", "", REFUSAL)).await
    }

    /// All that it has heard.
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// A request over HTTP, with its body.
async fn request(stream: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse::<usize>()
                    .ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return Ok(text);
            }
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(text);
        }
    }
}

fn http(status: &str, head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A PlacementAPI that is registered at this address with the values of the Secrets `somebodys` and
/// `osp`.
fn registered_at(url: &str) -> Value {
    json!({
        "secret": "osp",
        "database": {"urlSecret": {"name": "placement-db"}},
        "keystone": {
            "external": {"authURL": url}, "registration": "Direct",
            "adminSecret": {"name": "somebodys"}
        },
    })
}

async fn secrets(cluster: &Cluster) {
    database(cluster, "first").await;
    secret(
        cluster,
        "somebodys",
        &[
            ("username", "first-user"),
            ("password", "first-password"),
            ("api-key", "another-value"),
        ],
    )
    .await;
    secret(cluster, "osp", &[("PlacementPassword", "12345678")]).await;
}

async fn annotate(cluster: &Cluster, namespace: &str, secret: &str, annotation: &str) {
    cluster
        .kubectl(&["-n", namespace, "annotate", "secret", secret, annotation])
        .await;
}

fn message_of(live: &Value) -> String {
    condition(&live["status"], "KeystoneServiceReady")["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Waits until the condition says this, while the server hears nothing.
async fn refused(cluster: &Cluster, server: &Listener, said: &[&str]) {
    wait(
        cluster,
        "placement",
        &format!("nothing is sent: {said:?}"),
        |live| {
            assert_eq!(server.heard(), Vec::<String>::new(), "{live:#}");
            said.iter().all(|part| message_of(live).contains(part))
        },
    )
    .await;
    assert_eq!(server.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn a_secret_goes_to_a_keystone_only_once_it_permits_that() {
    let server = Listener::refusing().await;
    let cluster = start().await;
    let operator = Operator::start_default(&cluster).await;
    secrets(&cluster).await;
    let mut spec = registered_at(&server.url);
    spec["keystone"]["adminSecret"]["passwordKey"] = "api-key".into();
    cluster.apply(&placement_api("placement", &spec)).await;

    // The message has the commands that permit it.
    let (url, keys) = (
        format!("weft.network/keystone-url={}", server.url),
        "weft.network/keystone-keys=api-key",
    );
    let command = |secret: &str, annotations: &str| {
        format!("kubectl -n {NAMESPACE} annotate secret {secret} {annotations}")
    };
    let both = command("somebodys", &format!("{url} {keys}"));
    refused(
        &cluster,
        &server,
        &[
            &both,
            &command("osp", &url),
            &format!("--keystone-urls {}", server.url),
        ],
    )
    .await;
    annotate(
        &cluster,
        NAMESPACE,
        "somebodys",
        "weft.network/keystone-url=http://127.0.0.1:1",
    )
    .await;
    refused(&cluster, &server, &[&both]).await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "annotate",
            "secret",
            "somebodys",
            "--overwrite",
            &url,
        ])
        .await;
    refused(
        &cluster,
        &server,
        &[&command("somebodys", keys), &command("osp", &url)],
    )
    .await;
    annotate(&cluster, NAMESPACE, "somebodys", keys).await;
    wait(
        &cluster,
        "placement",
        "what is permitted is not asked for",
        |live| {
            let message = message_of(live);
            message.contains(&command("osp", &url)) && !message.contains("secret/somebodys")
        },
    )
    .await;
    assert_eq!(server.heard(), Vec::<String>::new());

    // Permitted, it is sent. Status has no word of the server's, and the log has all of them.
    annotate(&cluster, NAMESPACE, "osp", &url).await;
    let live = wait_condition(
        &cluster,
        "placement",
        "KeystoneServiceReady",
        "False",
        "does not let in",
    )
    .await;
    let message = message_of(&live);
    assert!(
        message.contains("the user of field 'username' of secret/somebodys")
            && message.contains("operator's log"),
        "{message}"
    );
    for hidden in ["first-user", "another-value", "The words of the server"] {
        assert!(!message.contains(hidden), "{message}");
    }
    let sent = server.heard().join("\n");
    assert!(
        sent.contains("first-user")
            && sent.contains("another-value")
            && !sent.contains("first-password"),
        "{sent}"
    );
    operator.wait_logged("The words of the server").await;
    assert!(
        !operator.log().contains("another-value"),
        "{}",
        operator.log()
    );

    // Another user than that of Placement would get another password, and be deleted at the end.
    cluster
        .patch(
            kinds::PLACEMENT_API,
            NAMESPACE,
            "placement",
            json!({"spec": {"serviceUser": "nova"}}),
        )
        .await;
    let users = command("somebodys", "weft.network/keystone-users=nova");
    wait_condition(
        &cluster,
        "placement",
        "KeystoneServiceReady",
        "False",
        &users,
    )
    .await;
}

#[tokio::test]
async fn a_listed_keystone_gets_the_usual_keys_and_no_token_follows_a_redirect() {
    let elsewhere = Listener::refusing().await;
    let to = format!("location: {}/v3/roles\r\n", elsewhere.url);
    let server = Listener::start(move |request| {
        if request.starts_with("POST /v3/auth/tokens ") {
            http("201 Created", "x-subject-token: the-token\r\n", SESSION)
        } else {
            http("307 Temporary Redirect", &to, "")
        }
    })
    .await;
    let cluster = start().await;
    let listed = format!("https://keystone.example:5000,{}/v3/", server.url);
    let environment: &[(&str, &str)] = &[("WEFT_KEYSTONE_URLS", &listed)];
    let _operator = Operator::start(
        &cluster,
        OperatorOptions {
            environment,
            ..Default::default()
        },
    )
    .await;
    secrets(&cluster).await;
    let mut spec = registered_at(&server.url);
    spec["keystone"]["adminSecret"]["passwordKey"] = "api-key".into();
    cluster.apply(&placement_api("placement", &spec)).await;
    refused(
        &cluster,
        &server,
        &["kubectl -n openstack annotate secret somebodys weft.network/keystone-keys=api-key"],
    )
    .await;

    let usual = json!({"spec": {"keystone": {"adminSecret": {"passwordKey": null}}}});
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", usual)
        .await;
    let told = wait_condition(
        &cluster,
        "placement",
        "KeystoneServiceReady",
        "False",
        "is answered by 307",
    )
    .await;
    assert!(
        server
            .heard()
            .iter()
            .any(|request| request.contains("x-auth-token: the-token")),
        "{told:#}"
    );
    assert!(!server.heard().join("\n").contains("another-value"));
    assert_eq!(elsewhere.heard(), Vec::<String>::new());
}

/// A deletion in between would leave in Keystone whatever the request has registered there.
#[tokio::test]
async fn no_request_goes_to_keystone_before_the_finalizer_is_there() {
    let server = Listener::refusing().await;
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    database(&cluster, "first").await;
    let values = [
        ("username", "admin"),
        ("password", "87654321"),
        ("PlacementPassword", "12345678"),
    ];
    secret(&cluster, "osp", &values).await;
    let permission = format!("weft.network/keystone-url={}", server.url);
    annotate(&cluster, NAMESPACE, "osp", &permission).await;
    // Registered by others: the PlacementAPI holds nothing, and the operator knows the Secret.
    let mut spec = registered_at(&server.url);
    spec["keystone"]["adminSecret"]["name"] = "osp".into();
    spec["keystone"]["registration"] = "None".into();
    cluster.apply(&placement_api("placement", &spec)).await;
    let ready = wait_ready(&cluster, "placement").await;
    assert_eq!(ready["metadata"]["finalizers"], Value::Null);

    // The operator has everything for the request at once, and may not write the finalizer.
    let finalizer = Match::any()
        .user(&cluster.operator_user())
        .verb("patch")
        .resource("placementapis")
        .subresource("");
    let refused = proxy.inject(finalizer, Fault::status(403));
    let direct = json!({"spec": {"keystone": {"registration": "Direct"}}});
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", direct)
        .await;
    let message = "the finalizer of PlacementAPI openstack/placement";
    wait_condition(&cluster, "placement", "InputReady", "False", message).await;
    assert_eq!(server.heard(), Vec::<String>::new());

    refused.remove();
    let live = wait_condition(
        &cluster,
        "placement",
        "KeystoneServiceReady",
        "False",
        "does not let in",
    )
    .await;
    assert_eq!(live["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(!server.heard().is_empty());
}

#[tokio::test]
async fn status_says_the_same_of_a_closed_a_silent_and_a_plain_port() {
    const HOSTS: [&str; 4] = ["closed", "silent", "plain", "web"];
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let plain = Listener::refusing().await;
    let web = Listener::start(|_| {
        http(
            "500 Internal Server Error",
            "",
            r#"{"error": {"message": "an internal server"}}"#,
        )
    })
    .await;
    let urls = [
        // Nobody listens on port 1 of loopback.
        "http://127.0.0.1:1".to_owned(),
        format!("http://{}", silent.local_addr().unwrap()),
        plain.url.replace("http:", "https:"),
        web.url.clone(),
    ];
    let manifests = &[
        "--domains",
        "placement",
        "--placement-namespaces",
        "closed,silent,plain,web",
    ];
    let cluster = Cluster::start(ClusterOptions {
        manifests,
        resource_namespace: "closed",
        ..options()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    for (namespace, url) in HOSTS.into_iter().zip(&urls) {
        for (name, data) in [
            (
                "placement-db",
                json!({"url": "mysql+pymysql://placement:p@db.example/placement"}),
            ),
            ("somebodys", json!({"username": "u", "password": "p"})),
            ("osp", json!({"PlacementPassword": "12345678"})),
        ] {
            let metadata = json!({
                "name": name, "namespace": namespace,
                "annotations": {"weft.network/keystone-url": url}
            });
            cluster.apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data
            }).to_string()).await;
        }
        let object = placement_api("placement", &registered_at(url))
            .replace("\"openstack\"", &format!("\"{namespace}\""));
        cluster.apply(&object).await;
    }
    let mut said = Vec::new();
    for (namespace, url) in HOSTS.into_iter().zip(&urls) {
        let message = wait_until(&format!("{namespace} is told"), async || {
            let live = cluster
                .get(kinds::PLACEMENT_API, namespace, "placement")
                .await
                .unwrap();
            let found = condition(&live["status"], "KeystoneServiceReady");
            if found["reason"] == "Error" {
                Ok(message_of(&live))
            } else {
                Err(found.to_string())
            }
        })
        .await;
        said.push(message.replace(url, "URL"));
    }
    assert!(said[0].contains(COARSE), "{said:#?}");
    assert!(said.iter().all(|message| *message == said[0]), "{said:#?}");
    assert!(!web.heard().is_empty(), "it was asked");
}

#[tokio::test]
async fn an_address_with_more_than_host_port_and_path_is_refused() {
    let cluster = start().await;
    for (url, said) in [
        (
            "https://keystone.example:5000/?a=b",
            "no query and no fragment",
        ),
        (
            "https://keystone.example:5000/#a",
            "no query and no fragment",
        ),
        (
            "https://admin:secret@keystone.example:5000",
            "no user and no password",
        ),
        (
            "https://keystone.example:5000/v3/..",
            "a path of plain segments",
        ),
    ] {
        let object = placement_api("placement", &registered_at(url));
        let refused = cluster
            .control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &object)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("spec.keystone.external.authURL") && refused.contains(said),
            "{url}: {refused}"
        );
    }
}
