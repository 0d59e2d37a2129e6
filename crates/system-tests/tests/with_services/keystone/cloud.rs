//! A Keystone that others use too.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_operator::keystone::Keystone;
use weft_placement::registration::{Access, Address, Permitted, Wanted, permitted};
use weft_testenv::services::{self, MariaDb, Site};

pub const DATABASE: &str = "openstack.cloud.svc";
/// With what breaks JSON, an INI file and a URL.
pub const PASSWORD: &str = r#"p@ss/w\$r$${a}:"'%41"#;

pub struct Cloud {
    pub keystone: services::Keystone,
    pub database: MariaDb,
    pub site: Site,
}

impl Cloud {
    pub async fn start() -> Self {
        let site = Site::start(&[DATABASE]).unwrap();
        let database = MariaDb::start(&site).await.unwrap();
        let keystone = services::Keystone::start(&site, &database).await.unwrap();
        Self {
            keystone,
            database,
            site,
        }
    }

    pub fn access(&self) -> Access {
        let password = self.keystone.admin_password().to_owned();
        let called = "the administrator".to_owned();
        Access {
            keystone: at(&self.keystone.url()),
            bundle: None,
            user: "admin".to_owned(),
            password,
            called,
        }
    }

    pub fn client(&self) -> Keystone {
        Keystone::new(self.access()).unwrap()
    }

    /// Creates something as the administrator, and returns its id.
    pub async fn create(&self, kind: &str, path: &str, body: Value) -> String {
        let token = self.keystone.admin_token().await.unwrap();
        let (status, answer) = self
            .keystone
            .request(&token, "POST", path, Some(&json!({kind: body})))
            .await
            .unwrap();
        assert_eq!(status, 201, "{answer}");
        answer[kind]["id"].as_str().unwrap().to_owned()
    }

    /// Adds entries of other users: a service with an endpoint, another region, a user in the
    /// project of services.
    pub async fn others(&self) {
        let service = self
            .create(
                "service",
                "/services",
                json!({"name": "nova", "type": "compute"}),
            )
            .await;
        self.create("region", "/regions", json!({"id": "RegionTwo"}))
            .await;
        let endpoint = json!({
            "service_id": service, "interface": "public", "region_id": "RegionOne",
            "url": "http://nova"
        });
        self.create("endpoint", "/endpoints", endpoint).await;
        self.create(
            "user",
            "/users",
            json!({"name": "nova", "domain_id": "default", "password": "nova"}),
        )
        .await;
    }

    /// Everything that Keystone holds, each by its id.
    pub async fn everything(&self) -> BTreeMap<String, Value> {
        let token = self.keystone.admin_token().await.unwrap();
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
            let (status, answer) = self
                .keystone
                .request(&token, "GET", &format!("/{kind}"), None)
                .await
                .unwrap();
            assert_eq!(status, 200, "{answer}");
            for mut one in answer[kind].as_array().unwrap().iter().cloned() {
                one.as_object_mut().unwrap().remove("links");
                let id = one["id"]
                    .as_str()
                    .map_or_else(|| one.to_string(), str::to_owned);
                all.insert(format!("{kind}/{id}"), one);
            }
        }
        all
    }

    /// The requests that have changed something, by Keystone's own log. Tokens are not kept, so
    /// they are no change.
    pub fn writes(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.site.dir().join("keystone.log")).unwrap();
        let requests = log
            .lines()
            .filter_map(|line| line.split('"').nth(1))
            .filter(|request| request.contains(" /v3/"));
        requests
            .filter(|request| !request.starts_with("GET") && !request.contains("/auth/tokens"))
            .map(str::to_owned)
            .collect()
    }

    /// Reports whether a user is let in to the project of services.
    pub async fn lets_in(&self, user: &str, password: &str) -> bool {
        let scope = json!({"project": {"name": "service", "domain": {"id": "default"}}});
        self.keystone.token(user, password, &scope).await.is_ok()
    }
}

/// A Keystone that the operator's administrator lists.
pub fn at(url: &str) -> Permitted {
    let address: Address = url.parse().unwrap();
    permitted(&address, std::slice::from_ref(&address), &[]).unwrap()
}

pub fn wanted() -> Wanted {
    let urls = ["internal", "public"]
        .map(|endpoint| format!("http://placement-{endpoint}.cloud.svc:8778"));
    Wanted {
        user: "placement".into(),
        password: PASSWORD.into(),
        region: Some("RegionOne".into()),
        urls,
    }
}
