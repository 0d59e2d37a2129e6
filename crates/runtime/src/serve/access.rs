//! Authentication and authorization of clients that read the metrics, by the API server.

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::{
    api_server::cluster::{Cluster, Error},
    serve::access_limit::{Key, Look, Memory, Verdict},
};

/// Reviews of unknown tokens in flight at once: far fewer than there are connections, so that an
/// API server that answers slowly does not fill all places with strangers.
const IN_FLIGHT: usize = 8;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The API server was not asked: too many unknown tokens have come. The next one may come after
    /// this time.
    #[error("too many unknown tokens")]
    TooMany(Duration),
    /// The API server does not answer, or does not let us ask.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Asks the API server who somebody is (TokenReview) and whether they may get a path
/// (SubjectAccessReview), as the filter of controller-runtime's metrics server does. Answers are
/// remembered for a short time, and questions about unknown tokens are limited: nobody makes the
/// operator flood the API server.
///
/// No token is refused for its looks: API servers also know bootstrap tokens, static ones, and
/// whatever their webhooks know.
pub struct Access {
    cluster: Cluster,
    path: &'static str,
    memory: Mutex<Memory>,
    strangers: Semaphore,
}

impl Access {
    /// Returns a check of access to this path.
    pub fn new(cluster: Cluster, path: &'static str) -> Self {
        Self {
            cluster,
            path,
            memory: Mutex::default(),
            strangers: Semaphore::new(IN_FLIGHT),
        }
    }

    /// Returns the rights of a client with this token and this address.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn check(&self, token: &str, from: IpAddr) -> Result<Verdict, Unanswered> {
        let key: Key = Sha256::digest(token).into();
        let is_stranger = match self.memory().look(&key, Instant::now()) {
            Look::Known(verdict) => return Ok(verdict),
            Look::Ask => false,
            Look::Stranger => true,
        };
        let _in_flight = if is_stranger {
            // Before the limit by time: what is not asked does not count.
            let permit = self
                .strangers
                .try_acquire()
                .map_err(|_| Unanswered::TooMany(Duration::from_secs(1)))?;
            self.memory()
                .admit(from, Instant::now())
                .map_err(Unanswered::TooMany)?;
            Some(permit)
        } else {
            None
        };
        let verdict = self.ask(token).await?;
        self.memory().learn(key, &verdict, Instant::now());
        Ok(verdict)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Error> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token}
        });
        let review = self
            .cluster
            .review("/apis/authentication.k8s.io/v1/tokenreviews", &review)
            .await?;
        if review["status"]["authenticated"] != true {
            return Ok(Verdict::Unauthenticated);
        }
        let user = &review["status"]["user"];
        let mut spec = json!({
            "user": user["username"], "nonResourceAttributes": {"path": self.path, "verb": "get"}
        });
        for field in ["uid", "groups", "extra"] {
            if !user[field].is_null() {
                spec[field] = user[field].clone();
            }
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec
        });
        let review = self
            .cluster
            .review(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                &review,
            )
            .await?;
        Ok(match review["status"]["allowed"] {
            Value::Bool(true) => Verdict::Allowed,
            _ => Verdict::Denied(user["username"].as_str().unwrap_or_default().to_owned()),
        })
    }
}
