//! The entries of a Keystone, by names.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_testenv::services::Keystone;

/// Everything that it holds, a line each: what is there twice has two.
pub async fn registered(keystone: &Keystone) -> Vec<String> {
    let token = keystone.admin_token().await.unwrap();
    let mut all = BTreeMap::new();
    for kind in [
        "projects",
        "users",
        "roles",
        "services",
        "endpoints",
        "regions",
        "role_assignments",
    ] {
        let (status, answer) = keystone
            .request(&token, "GET", &format!("/{kind}"), None)
            .await
            .unwrap();
        assert_eq!(status, 200, "{answer}");
        all.insert(kind, answer[kind].as_array().unwrap().clone());
    }
    let names: BTreeMap<_, _> = all
        .values()
        .flatten()
        .filter_map(|one| Some((one["id"].as_str()?, one["name"].as_str()?)))
        .collect();
    let name = |id: &Value| {
        id.as_str()
            .and_then(|id| names.get(id).copied())
            .unwrap_or_default()
    };
    let line = |kind: &str, one: &Value| match kind {
        "users" => format!(
            "user {} of {}, enabled {}",
            one["name"],
            name(&one["default_project_id"]),
            one["enabled"]
        ),
        "services" => format!(
            "service {} {}, {}, enabled {}",
            one["name"], one["type"], one["description"], one["enabled"]
        ),
        "endpoints" => {
            format!(
                "endpoint {} {} {} {}, enabled {}",
                name(&one["service_id"]),
                one["interface"],
                one["region_id"],
                one["url"],
                one["enabled"]
            )
        }
        "role_assignments" => {
            let role = name(&one["role"]["id"]);
            format!(
                "role {role} of {}{} in {}",
                name(&one["user"]["id"]),
                name(&one["group"]["id"]),
                name(&one["scope"]["project"]["id"])
            )
        }
        "regions" => format!("region {}", one["id"]),
        _ => format!("{kind} {}", one["name"]),
    };
    let mut lines: Vec<_> = all
        .iter()
        .flat_map(|(kind, list)| list.iter().map(move |one| line(kind, one)))
        .collect();
    lines.sort();
    lines
}

/// Deletes the project of all services.
pub async fn delete_project(keystone: &Keystone) {
    let token = keystone.admin_token().await.unwrap();
    let (_, answer) = keystone
        .request(&token, "GET", "/projects?name=service", None)
        .await
        .unwrap();
    let id = answer["projects"][0]["id"].as_str().unwrap();
    assert_eq!(
        keystone
            .request(&token, "DELETE", &format!("/projects/{id}"), None)
            .await
            .unwrap()
            .0,
        204
    );
}

/// The endpoints of Placement, by interface.
pub async fn endpoints(keystone: &Keystone) -> Vec<(String, String)> {
    let token = keystone.admin_token().await.unwrap();
    let (_, services) = keystone
        .request(&token, "GET", "/services?type=placement", None)
        .await
        .unwrap();
    let Some(service) = services["services"][0]["id"].as_str() else {
        return vec![];
    };
    let (_, answer) = keystone
        .request(
            &token,
            "GET",
            &format!("/endpoints?service_id={service}"),
            None,
        )
        .await
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all: Vec<_> = answer["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["interface"]), text(&one["url"])))
        .collect();
    all.sort();
    all
}

/// Reports whether Placement's user is let in to the project of services.
pub async fn lets_in(keystone: &Keystone, password: &str) -> bool {
    as_placement(keystone, password).await.is_ok()
}

async fn as_placement(keystone: &Keystone, password: &str) -> anyhow::Result<String> {
    keystone
        .token(
            "placement",
            password,
            &json!({"project": {"name": "service", "domain": {"id": "default"}}}),
        )
        .await
}

/// An application credential of that user: id and secret.
pub async fn application_credential(keystone: &Keystone, password: &str) -> (String, String) {
    let (admin, own) = (
        keystone.admin_token().await.unwrap(),
        as_placement(keystone, password).await.unwrap(),
    );
    let (_, users) = keystone
        .request(&admin, "GET", "/users?name=placement", None)
        .await
        .unwrap();
    let path = format!(
        "/users/{}/application_credentials",
        users["users"][0]["id"].as_str().unwrap()
    );
    let body = json!({
        "application_credential": {
            "name": "pods", "roles": [{"name": "admin"}, {"name": "service"}]
        }
    });
    let (status, answer) = keystone
        .request(&own, "POST", &path, Some(&body))
        .await
        .unwrap();
    assert_eq!(status, 201, "{answer}");
    let text = |field: &str| {
        answer["application_credential"][field]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (text("id"), text("secret"))
}
