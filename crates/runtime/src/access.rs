//! Who may read the metrics: the API server knows.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cluster::{Cluster, Error};

/// How long an answer counts. A token that is revoked, or a right that is taken away, works no longer than this.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a refusal counts: who has just been given the right need not wait long.
const REFUSED: Duration = Duration::from_secs(10);
/// How many answers are remembered.
const REMEMBERED: usize = 64;

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allowed,
    /// Nobody knows it.
    Unauthenticated,
    /// It is known, by this name, and may not.
    Denied(String),
}

/// Asks the API server who somebody is (TokenReview) and whether they may get a path (SubjectAccessReview), as the filter of
/// controller-runtime's metrics server does. Answers are remembered for a short time.
pub struct Access {
    cluster: Cluster,
    path: &'static str,
    known: Mutex<HashMap<[u8; 32], (Verdict, Instant)>>,
}

impl Access {
    /// To this path.
    pub fn new(cluster: Cluster, path: &'static str) -> Self {
        Self { cluster, path, known: Mutex::default() }
    }

    /// What whoever has this token may do.
    ///
    /// # Errors
    /// The API server does not answer, or does not let us ask.
    pub async fn check(&self, token: &str) -> Result<Verdict, Error> {
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(verdict) = self.remembered(&key) {
            return Ok(verdict);
        }
        let verdict = self.ask(token).await?;
        let until = Instant::now() + if verdict == Verdict::Allowed { ALLOWED } else { REFUSED };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, until)| Instant::now() < *until);
        if known.len() < REMEMBERED {
            known.insert(key, (verdict.clone(), until));
        }
        Ok(verdict)
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<Verdict> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(_, until)| Instant::now() < *until).map(|(verdict, _)| verdict.clone())
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Error> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let review = self.cluster.review("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
        if review["status"]["authenticated"] != true {
            return Ok(Verdict::Unauthenticated);
        }
        let user = &review["status"]["user"];
        let mut spec = json!({"user": user["username"], "nonResourceAttributes": {"path": self.path, "verb": "get"}});
        for field in ["uid", "groups", "extra"] {
            if !user[field].is_null() {
                spec[field] = user[field].clone();
            }
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let review = self.cluster.review("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
        Ok(match review["status"]["allowed"] {
            Value::Bool(true) => Verdict::Allowed,
            _ => Verdict::Denied(user["username"].as_str().unwrap_or_default().to_owned()),
        })
    }
}
