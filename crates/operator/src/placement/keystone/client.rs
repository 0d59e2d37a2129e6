//! Requests to Keystone as its administrator, with a token that is kept until Keystone wants
//! another one.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use weft_placement::registration::Access;
use weft_plan::secrets::without;
use weft_runtime::api_server::web::{Web, WebError};

use super::KeystoneError;

/// The domain of the administrator, as that of the service's user in placement.conf.
const DOMAIN: &str = "Default";

/// The way to a Keystone.
pub struct Keystone {
    web: Web,
    /// The address of the API, without a slash at its end.
    root: String,
    user: String,
    password: String,
    /// How messages call the user.
    called: String,
    session: Mutex<Option<Session>>,
}

/// The result of a login.
#[derive(Clone)]
pub(super) struct Session {
    token: String,
    /// The id of the domain of the user.
    pub domain: String,
}

/// For what a user logs in.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// To administer Keystone.
    System,
    /// To work in this project of the domain.
    Project(&'a str),
    /// For nothing: just to prove the password.
    None,
}

impl Keystone {
    /// Prepares requests. None is sent yet.
    ///
    /// # Errors
    /// The bundle has no certificates, or none is given and the system has none either.
    pub fn new(access: Access) -> Result<Self, KeystoneError> {
        let Access {
            keystone,
            bundle,
            user,
            password,
            called,
        } = access;
        // All requests go to what is below it: no address of the catalogue is used, and no
        // redirection is followed.
        let root = keystone.to().api();
        let web = Web::new(bundle.as_deref()).map_err(|error| {
            let why = match error {
                WebError::Bundle => "key tls-ca-bundle.pem of the Secret with its certificates holds none in PEM form".to_owned(),
                other => other.to_string(),
            };
            KeystoneError::Access { root: root.clone(), why }
        })?;
        Ok(Self {
            web,
            root,
            user,
            password,
            called,
            session: Mutex::new(None),
        })
    }

    /// The list that a path of the API gives under this name.
    pub(super) async fn list(
        &self,
        (path, field): (String, &str),
    ) -> Result<Vec<Value>, KeystoneError> {
        let answer = self.request("GET", &path, None, &[]).await?;
        let Some(Value::Array(list)) = answer.1.get(field) else {
            return Err(KeystoneError::NotKeystone {
                call: format!("GET {path}"),
                root: self.root.clone(),
                status: answer.0,
            });
        };
        Ok(list.clone())
    }

    /// Sends a request as the administrator, anew with a fresh token where the kept one counts no
    /// more. `secrets` are values in the body that must not be shown.
    pub(super) async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        secrets: &[&str],
    ) -> Result<(StatusCode, Value), KeystoneError> {
        let kept = self.session.lock().await.clone();
        let session = match kept.clone() {
            Some(session) => session,
            None => self.renew().await?,
        };
        let answer = self.send(method, path, body, Some(&session)).await?;
        if answer.0 == StatusCode::UNAUTHORIZED && kept.is_some() {
            let session = self.renew().await?;
            let answer = self.send(method, path, body, Some(&session)).await?;
            return self.accepted(method, path, answer, secrets);
        }
        self.accepted(method, path, answer, secrets)
    }

    /// The domain of the administrator: projects and users of services are in it too.
    pub(super) async fn domain(&self) -> Result<String, KeystoneError> {
        let kept = self.session.lock().await.clone();
        match kept {
            Some(session) => Ok(session.domain),
            None => Ok(self.renew().await?.domain),
        }
    }

    async fn renew(&self) -> Result<Session, KeystoneError> {
        // Held meanwhile, so that requests at once log in once.
        let mut kept = self.session.lock().await;
        *kept = None;
        let session = self
            .log_in(&self.called, &self.user, &self.password, Scope::System)
            .await?;
        *kept = Some(session.clone());
        Ok(session)
    }

    /// A token for a user of the domain whose name is no secret.
    pub(super) async fn login(
        &self,
        user: &str,
        password: &str,
        scope: Scope<'_>,
    ) -> Result<Session, KeystoneError> {
        self.log_in(&format!("user {user:?}"), user, password, scope)
            .await
    }

    async fn log_in(
        &self,
        called: &str,
        user: &str,
        password: &str,
        scope: Scope<'_>,
    ) -> Result<Session, KeystoneError> {
        const PATH: &str = "/auth/tokens";
        let domain = json!({"name": DOMAIN});
        let identity = json!({
            "methods": ["password"],
            "password": {"user": {"name": user, "domain": domain, "password": password}}
        });
        let (scope, told) = match scope {
            Scope::System => (
                json!({"system": {"all": true}}),
                " to administer it (scope system)",
            ),
            Scope::Project(name) => (
                json!({"project": {"name": name, "domain": domain}}),
                " to project service",
            ),
            Scope::None => (json!("unscoped"), ""),
        };
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let (status, answer, token) = self.exchange("POST", PATH, Some(&body), None).await?;
        let text = |path: &str| {
            answer
                .pointer(path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        match token.zip(text("/token/user/domain/id")) {
            Some((token, domain)) if status.is_success() => Ok(Session { token, domain }),
            // A value of any key may have been sent as the name.
            _ => Err(match message(&answer, &[password, user]) {
                Some(message) => KeystoneError::Login {
                    root: self.root.clone(),
                    called: called.to_owned(),
                    scope: told,
                    status,
                    message,
                },
                None => KeystoneError::NotKeystone {
                    call: format!("POST {PATH}"),
                    root: self.root.clone(),
                    status,
                },
            }),
        }
    }

    /// Sends a request as the user of a session.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        session: Option<&Session>,
    ) -> Result<(StatusCode, Value), KeystoneError> {
        self.exchange(method, path, body, session)
            .await
            .map(|(status, answer, _)| (status, answer))
    }

    /// The answer, unless Keystone refuses.
    pub(super) fn accepted(
        &self,
        method: &str,
        path: &str,
        (status, answer): (StatusCode, Value),
        secrets: &[&str],
    ) -> Result<(StatusCode, Value), KeystoneError> {
        if status.is_success() {
            return Ok((status, answer));
        }
        let (call, root) = (format!("{method} {path}"), self.root.clone());
        Err(match message(&answer, secrets) {
            Some(message) => KeystoneError::Refused {
                call,
                root,
                status,
                message,
            },
            None => KeystoneError::NotKeystone { call, root, status },
        })
    }

    /// Status and content of the answer, and the token that it has in its head.
    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        session: Option<&Session>,
    ) -> Result<(StatusCode, Value, Option<String>), KeystoneError> {
        let call = || format!("{method} {path}");
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.root))
            .header("accept", "application/json");
        if let Some(session) = session {
            request = request.header("x-auth-token", &session.token);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        let request = request.body(body).map_err(|error| KeystoneError::Access {
            root: self.root.clone(),
            why: error.to_string(),
        })?;
        let answer = self
            .web
            .send(request)
            .await
            .map_err(|web| KeystoneError::Web {
                call: call(),
                root: self.root.clone(),
                web,
            })?;
        let token = answer
            .headers()
            .get("x-subject-token")
            .and_then(|token| token.to_str().ok())
            .map(str::to_owned);
        // Text that is not JSON has none of the expected fields.
        let content = serde_json::from_slice(answer.body()).unwrap_or_default();
        Ok((answer.status(), content, token))
    }
}

/// Keystone's words, without the secrets that they may quote from a refused request.
fn message(answer: &Value, secrets: &[&str]) -> Option<String> {
    let message = answer["error"]["message"].as_str()?;
    Some(without(message.trim_end(), secrets))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::message;

    #[test]
    fn a_quoted_password_is_hidden() {
        let answer = json!({
            "error": {
                "code": 400,
                "message": "Invalid input for field 'password': 'geheim' is too short. "
            }
        });
        assert_eq!(
            message(&answer, &["", "geheim"]).as_deref(),
            Some("Invalid input for field 'password': '<hidden>' is too short.")
        );
        assert_eq!(
            message(&json!({"message": "not Keystone's form"}), &[]),
            None
        );
    }
}
