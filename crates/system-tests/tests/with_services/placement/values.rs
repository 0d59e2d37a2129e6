//! Every value that people have in their Secrets comes out of the files as it went in, read by what
//! Placement reads them with: oslo.config, SQLAlchemy and keystoneauth.

use std::fs;

use weft_placement::{Config, Credentials, Database, Inputs, KeystoneEndpoints, files::files};
use weft_testenv::services::{Container, Site};

use crate::with_services::placement::{HOST, config_with, hazards::HAZARDS, inputs};

/// Prints a line of JSON for each file.
const READER: &str = r#"
import json, sys
from keystoneauth1 import loading
from oslo_config import cfg
from placement import conf
from sqlalchemy.engine import make_url

for path in sys.argv[1:]:
    config = cfg.ConfigOpts()
    conf.register_opts(config)
    loading.register_auth_conf_options(config, "keystone_authtoken")
    config([], project="placement", default_config_files=[path])
    url = make_url(config.placement_database.connection)
    auth = loading.load_auth_from_conf_options(config, "keystone_authtoken")
    if hasattr(auth, "auth_methods"):
        [method] = auth.auth_methods
        proof = [method.application_credential_id, method.application_credential_secret]
    else:
        proof = [auth._username, auth._password]
    print(json.dumps([url.username, url.password, url.host, url.database, dict(url.query), *proof]))
"#;

fn inputs_of(user: &str, password: &str, credentials: Credentials) -> Inputs {
    let database = Database::Parts {
        host: HOST.into(),
        port: None,
        name: "placement".into(),
        user: user.into(),
        password: password.into(),
    };
    let address = "http://keystone.cloud.svc:5000".to_owned();
    let keystone = KeystoneEndpoints {
        public: address.clone(),
        internal: address,
        region: Some("RegionOne".into()),
    };
    Inputs {
        database,
        keystone: Some((keystone, credentials)),
        ..inputs()
    }
}

#[tokio::test]
async fn every_hazardous_value_comes_out_as_it_went_in() {
    let config =
        config_with(&serde_json::json!({"auth": {"strategy": "keystone"}, "secret": "osp-secret"}));
    let site = Site::start(&[]).unwrap();
    let folder = site.dir().join("values");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("reader.py"), READER).unwrap();
    let mut expected = vec![];
    let mut write = |config: &Config, inputs: &Inputs, read: serde_json::Value| {
        fs::write(
            folder.join(format!("{}.conf", expected.len())),
            &files(config, inputs).unwrap()["placement.conf"],
        )
        .unwrap();
        expected.push(read);
    };
    for hazard in HAZARDS {
        // A user has a name.
        let user = if hazard.is_empty() {
            "placement"
        } else {
            hazard
        };
        let query = serde_json::json!({"read_default_file": "/etc/my.cnf"});
        let read =
            |name: &str| serde_json::json!([user, hazard, HOST, "placement", query, name, hazard]);
        write(
            &config,
            &inputs_of(user, hazard, Credentials::Password(hazard.into())),
            read("placement"),
        );
        // keystoneauth refuses a credential without a secret.
        if !hazard.is_empty() {
            let application = Credentials::Application {
                id: hazard.into(),
                secret: hazard.into(),
            };
            write(&config, &inputs_of(user, hazard, application), read(hazard));
        }
    }

    let container = Container::placement().unwrap().mount(&folder, "/values");
    let files: Vec<_> = (0..expected.len())
        .map(|number| format!("/values/{number}.conf"))
        .collect();
    let mut command = vec![
        "/opt/placement/bin/python3",
        "-W",
        "ignore",
        "/values/reader.py",
    ];
    command.extend(files.iter().map(String::as_str));
    let text = site.run(&container, &command).await.unwrap();
    let found: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}
