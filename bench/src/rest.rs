//! Requests as administrator: disturbances, lower bounds and looks.

use anyhow::{Context, Result};
use futures::{TryStreamExt, stream};
use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};

/// Requests that a bare client has in flight.
pub const IN_FLIGHT: usize = 16;
/// The field manager of what is not Weft.
const MANAGER: &str = "somebody";

/// A bare client: no cache, no retries.
#[derive(Clone)]
pub struct Rest {
    client: Client,
}

impl Rest {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Opens as many connections as a bare client uses.
    pub async fn warm(&self) -> Result<()> {
        let looks = (0..IN_FLIGHT).map(|_| self.get("/api/v1/namespaces"));
        futures::future::try_join_all(looks).await.map(drop)
    }

    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        let mut answer = self.send(Method::GET, path, "application/json", None).await;
        if matches!(&answer, Err(error) if matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Service(_))))
        {
            // The API server closes a connection that was idle for 90 s, maybe just when it is used
            // again.
            answer = self.send(Method::GET, path, "application/json", None).await;
        }
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(error) if is(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, collection: &str, body: &Value) -> Result<Value> {
        self.send(
            Method::POST,
            &format!("{collection}?fieldManager={MANAGER}"),
            "application/json",
            Some(body),
        )
        .await
    }

    /// Has an object checked as if it were created.
    pub async fn dry_run(&self, collection: &str, body: &Value) -> Result<Value> {
        self.send(
            Method::POST,
            &format!("{collection}?dryRun=All"),
            "application/json",
            Some(body),
        )
        .await
    }

    /// Replaces an object. `None` if another user wrote in between.
    pub async fn replace(&self, path: &str, body: &Value) -> Result<Option<Value>> {
        match self
            .send(
                Method::PUT,
                &format!("{path}?fieldManager={MANAGER}"),
                "application/json",
                Some(body),
            )
            .await
        {
            Ok(object) => Ok(Some(object)),
            Err(error) if is(&error, 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(
            Method::PATCH,
            &format!("{path}?fieldManager={MANAGER}"),
            "application/merge-patch+json",
            Some(patch),
        )
        .await
    }

    /// Applies an object by server-side apply. Takes over fields of other managers.
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(
            Method::PATCH,
            &format!("{path}?fieldManager={MANAGER}&force=true"),
            "application/apply-patch+yaml",
            Some(body),
        )
        .await
    }

    /// Deletes an object. Its dependents follow in the background.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        self.send(Method::DELETE, path, "application/json", Some(&options))
            .await
    }

    /// Does something with each of these, as many at once as a bare client has requests in flight.
    pub async fn concurrently<T>(
        items: impl IntoIterator<Item = T>,
        act: impl AsyncFn(T) -> Result<()>,
    ) -> Result<()> {
        let act = &act;
        stream::iter(items.into_iter().map(Ok))
            .try_for_each_concurrent(IN_FLIGHT, |item| act(item))
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::CONTENT_TYPE, content);
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        self.client
            .request(request.body(body)?)
            .await
            .with_context(|| format!("{method} {path}"))
    }
}

fn is(error: &anyhow::Error, code: u16) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == code)
}
