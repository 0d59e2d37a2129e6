//! The answers of a real API server.

use std::fmt::Display;

use super::table::Refused;
use kube::{Client, api::PostParams, core::Request};
use serde_json::Value;
use weft_testenv::wait::wait_until;

impl Refused {
    /// Fails unless the API server has said this of this field. A line each: field, value, message.
    #[track_caller]
    pub fn was_told(&self, error: &str) {
        let said = error
            .lines()
            .any(|line| line.contains(&self.field) && line.contains(&self.message));
        assert!(said, "{}: {error}", self.spec);
    }
}

/// Asks until there is an answer.
pub async fn eventually<T, E: Display>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    wait_until("there is an answer", async || {
        ask().await.map_err(|error| error.to_string())
    })
    .await
}

/// Creates a cluster-scoped object, with strict field validation. Returns the API server's answer.
/// Nothing is made. A refusal has a line for each field.
pub async fn create(client: &Client, object: &Value) -> Result<(), String> {
    let text = |field: &str| object[field].as_str().unwrap();
    let kind = text("kind").to_lowercase();
    let plural = kind
        .strip_suffix('y')
        .map_or_else(|| format!("{kind}s"), |kind| format!("{kind}ies"));
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let request = Request::new(format!("/apis/{}/{plural}", text("apiVersion")));
    let mut request = request
        .create(&dry_run, object.to_string().into_bytes())
        .unwrap();
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri())
        .parse()
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes: String = causes
                .map(|cause| format!("{}: {}\n", cause.field, cause.message))
                .collect();
            Err(if causes.is_empty() {
                status.message.clone()
            } else {
                causes
            })
        }
        Err(error) => panic!("{error}"),
    }
}
