//! OpenStack Keystone: real tokens, users, roles, catalogue and application credentials.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{process::free_port, program::Program, relay::Relay};

use super::{Container, MariaDb, Site};

const SERVER: &str = include_str!("keystone.py");
const PASSWORD: &str = "admin-of-tests";

/// A server with an account `admin`, region `RegionOne` and fernet tokens, its data in a database
/// `keystone`. Keystone, which is killed on drop.
#[derive(Debug)]
pub struct Keystone {
    site: Site,
    container: Container,
    port: u16,
    server: Option<Program>,
    _way: Relay,
}

impl Keystone {
    /// Makes its keys and its data, and starts it.
    ///
    /// # Errors
    /// A step failed: the error holds its stderr.
    pub async fn start(site: &Site, database: &MariaDb) -> Result<Self> {
        database.create("keystone", "keystone", "keystone").await?;
        let folder = site.dir().join("keystone");
        std::fs::create_dir_all(folder.join("keys"))?;
        // Their owner's alone, or Keystone complains.
        std::fs::set_permissions(
            folder.join("keys"),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )?;
        std::fs::write(
            folder.join("keystone.conf"),
            "[DEFAULT]\nuse_stderr = true\n\
             [database]\nconnection = mysql+pymysql://keystone:keystone@127.0.0.1/keystone\n\
             [fernet_tokens]\nkey_repository = /etc/keystone/keys/fernet\n[credential]\nkey_repository = /etc/keystone/keys/credential\n",
        )?;
        std::fs::write(folder.join("serve.py"), SERVER)?;
        let container = Container::keystone()?
            .mount(&folder, "/etc/keystone")
            .env("OS_KEYSTONE_CONFIG_DIR", "/etc/keystone")
            .env("OS_KEYSTONE_CONFIG_FILES", "keystone.conf");
        let port = free_port()?;
        let url = format!("http://127.0.0.1:{port}/v3");
        // One container for all: each start of Python takes a second.
        let steps = format!(
            "set -e; manage() {{ keystone-manage --config-file /etc/keystone/keystone.conf \"$@\"; }}
             manage fernet_setup --keystone-user root --keystone-group root & fernet=$!
             manage db_sync
             wait $fernet
             manage credential_setup --keystone-user root --keystone-group root
             manage bootstrap --bootstrap-password {PASSWORD} --bootstrap-region-id RegionOne \
               --bootstrap-public-url {url} --bootstrap-internal-url {url} --bootstrap-admin-url {url}"
        );
        site.run(&container, &["bash", "-c", &steps])
            .await
            .context("setting Keystone up")?;
        let mut keystone = Self {
            site: site.clone(),
            container,
            port,
            server: None,
            _way: site.expose(port)?,
        };
        keystone.resume().await?;
        Ok(keystone)
    }

    /// Starts it again after [`stop`](Self::stop).
    ///
    /// # Errors
    /// It does not answer: the error shows the end of its log.
    pub async fn resume(&mut self) -> Result<()> {
        let command = [
            "/opt/keystone/bin/python3",
            "/etc/keystone/serve.py",
            &self.port.to_string(),
        ];
        let server = self
            .server
            .insert(self.site.spawn("keystone", &self.container, &command)?);
        let url = format!("http://127.0.0.1:{}/v3", self.port);
        let site = &self.site;
        server
            .wait_ready(Duration::from_millis(50), async || {
                match site.curl(&[&url]).await {
                    Ok((200, _)) => Ok(()),
                    Ok((status, _)) => Err(format!("it answers with {status}")),
                    Err(error) => Err(format!("{error:#}")),
                }
            })
            .await
    }

    /// Ends it by SIGKILL. Its data stays.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Of the API, good in the site and on this machine.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v3", self.port)
    }

    /// Its port, in the site and on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How it has answered so far: a line for each request, which comes after its answer.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.site.dir().join("keystone.log")).unwrap_or_default()
    }

    /// The password of the account `admin`, of project `admin` in domain `Default`.
    pub fn admin_password(&self) -> &'static str {
        PASSWORD
    }

    /// A token of `admin`, for the whole system.
    ///
    /// # Errors
    /// It is refused.
    pub async fn admin_token(&self) -> Result<String> {
        self.token("admin", PASSWORD, &json!({"system": {"all": true}}))
            .await
    }

    /// A token of a user of domain `Default` for a scope
    /// (`{"project": {"name": "service", "domain": {"id": "default"}}}`).
    ///
    /// # Errors
    /// It is refused: the error holds the answer.
    pub async fn token(&self, user: &str, password: &str, scope: &Value) -> Result<String> {
        let user = json!({"name": user, "domain": {"id": "default"}, "password": password});
        let body = json!({
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope
            }
        });
        let url = format!("{}/auth/tokens", self.url());
        let args = [
            "--include",
            "--header",
            "content-type: application/json",
            "--data",
            &body.to_string(),
            &url,
        ];
        let (status, answer) = self.site.curl(&args).await?;
        let token = answer.lines().find_map(|line| {
            line.to_lowercase()
                .starts_with("x-subject-token:")
                .then(|| line[16..].trim().to_owned())
        });
        match token {
            Some(token) if status == 201 => Ok(token),
            _ => bail!(
                "Keystone answers {status}: {}",
                answer.lines().last().unwrap_or_default()
            ),
        }
    }

    /// A request with a token. Returns status and answer.
    ///
    /// # Errors
    /// No answer, or one that is no JSON.
    pub async fn request(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value)> {
        let (url, header) = (
            format!("{}{path}", self.url()),
            format!("x-auth-token: {token}"),
        );
        let body = body.map(Value::to_string);
        let mut args = vec!["--request", method, "--header", &header];
        if let Some(body) = &body {
            args.extend(["--header", "content-type: application/json", "--data", body]);
        }
        args.push(&url);
        let (status, answer) = self.site.curl(&args).await?;
        Ok((
            status,
            if answer.is_empty() {
                Value::Null
            } else {
                serde_json::from_str(&answer)?
            },
        ))
    }
}
