//! With a Keystone, which takes half a minute to be there.

use serde_json::json;
use weft_testenv::services::{Keystone, Placement, Site};

use crate::with_services::testenv::least::{DATABASE, HTTPD, database, least_configuration};

const SERVICE: &str = "rotated:p@ss$word";

/// A user `placement` of project `service` with the role of an admin, as keystone-operator makes
/// it. Returns its id.
async fn register(keystone: &Keystone, token: &str) -> String {
    let create = async |kind: &str, path: &str, body: serde_json::Value| {
        let (status, answer) = keystone
            .request(token, "POST", path, Some(&json!({kind: body})))
            .await
            .unwrap();
        assert_eq!(status, 201, "{answer}");
        answer[kind]["id"].as_str().unwrap().to_owned()
    };
    let project = create(
        "project",
        "/projects",
        json!({"name": "service", "domain_id": "default"}),
    )
    .await;
    let user = json!({
        "name": "placement", "domain_id": "default", "password": SERVICE,
        "default_project_id": project
    });
    let user = create("user", "/users", user).await;
    let (_, roles) = keystone
        .request(token, "GET", "/roles?name=admin", None)
        .await
        .unwrap();
    let role = roles["roles"][0]["id"].as_str().unwrap();
    let (status, _) = keystone
        .request(
            token,
            "PUT",
            &format!("/projects/{project}/users/{user}/roles/{role}"),
            None,
        )
        .await
        .unwrap();
    assert_eq!(status, 204);
    user
}

#[tokio::test]
async fn placement_trusts_the_tokens_of_keystone() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = database(&site).await;
    let mut keystone = Keystone::start(&site, &database).await.unwrap();
    let admin = keystone.admin_token().await.unwrap();
    let (status, catalogue) = keystone
        .request(&admin, "GET", "/regions", None)
        .await
        .unwrap();
    assert_eq!(
        (status, &catalogue["regions"][0]["id"]),
        (200, &json!("RegionOne"))
    );
    // Its address is good on this machine, too.
    let answer = tokio::process::Command::new("curl")
        .args(["--silent", &keystone.url()])
        .output()
        .await
        .unwrap();
    assert!(
        String::from_utf8_lossy(&answer.stdout).contains("\"stable\""),
        "{answer:?}"
    );
    let user = register(&keystone, &admin).await;

    let url = keystone.url();
    let authtoken = format!(
        "[api]\nauth_strategy = keystone\n[keystone_authtoken]\nwww_authenticate_uri = {url}\nauth_url = {url}\nauth_type = password\n\
         username = placement\npassword = {}\nuser_domain_name = Default\nproject_domain_name = Default\nproject_name = service\n\
         interface = internal\n",
        SERVICE.replace('$', "$$")
    );
    let container = least_configuration(&site, "keystone-auth", &authtoken);
    site.run(&container, &["placement-manage", "db", "sync"])
        .await
        .unwrap();
    let placement = Placement::start(&site, &container, &HTTPD).await.unwrap();
    assert_eq!(
        placement.get("/resource_providers", &[]).await.unwrap().0,
        401
    );
    assert_eq!(
        placement
            .get("/resource_providers", &["x-auth-token: admin"])
            .await
            .unwrap()
            .0,
        401
    );
    let scope = json!({"project": {"name": "service", "domain": {"id": "default"}}});
    let header = async |password| {
        keystone
            .token("placement", password, &scope)
            .await
            .map(|token| format!("x-auth-token: {token}"))
    };
    let token = header(SERVICE).await.unwrap();
    let (status, body) = placement
        .get("/resource_providers", &[&token])
        .await
        .unwrap();
    assert_eq!(status, 200, "{body}");

    // The password changes in Keystone alone: the old one is refused.
    let changed = json!({"user": {"password": "another"}});
    assert_eq!(
        keystone
            .request(&admin, "PATCH", &format!("/users/{user}"), Some(&changed))
            .await
            .unwrap()
            .0,
        200
    );
    let error = header(SERVICE).await.unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
    let fresh = header("another").await.unwrap();
    assert_ne!(fresh, token);

    // Without Keystone nobody is let in whom Placement does not know yet.
    keystone.stop();
    assert_eq!(
        placement
            .get("/resource_providers", &[&fresh])
            .await
            .unwrap()
            .0,
        503
    );
    keystone.resume().await.unwrap();
    keystone.admin_token().await.unwrap();
}
