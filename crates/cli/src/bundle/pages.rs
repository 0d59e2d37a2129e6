//! Lists of a cluster, page by page, so that no list is in memory as a whole.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use weft_plan::Kind;

/// How long the API server may take for one request.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A list that is read page by page.
pub struct Pages {
    api: Api<DynamicObject>,
    kind: Kind,
    params: ListParams,
    is_over: bool,
}

/// Why a part of the cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refuses the request, or cannot be reached.
    #[error("{0}")]
    Request(Box<kube::Error>),
    /// The API server does not answer.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Late,
}

impl Error {
    /// Reports whether the cluster does not serve the kind, or has no such object.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Reports whether the user lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(error) => match &**error {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Late => None,
        }
    }
}

/// Waits for the result of a request, and no longer than [`TIMEOUT`].
///
/// # Errors
/// The request fails, or takes too long.
pub async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    tokio::time::timeout(TIMEOUT, request)
        .await
        .map_err(|_| Error::Late)?
        .map_err(|error| Error::Request(Box::new(error)))
}

/// The API of a kind, in one namespace or everywhere.
pub fn api(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
        kind.plural,
    );
    match namespace {
        Some(namespace) if kind.namespaced => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    }
}

impl Pages {
    /// The objects of a kind, in one namespace or everywhere, that match a label selector.
    pub fn of(
        client: &Client,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
        size: u32,
    ) -> Self {
        Self {
            api: api(client, kind, namespace),
            kind,
            params: ListParams::default().labels(selector).limit(size),
            is_over: false,
        }
    }

    /// Reads the next page. `None` after the last one.
    ///
    /// # Errors
    /// The API server does not give it. The list is over then.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        self.is_over = true;
        let list = answered(self.api.list(&self.params)).await?;
        self.params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        self.is_over = self.params.continue_token.is_none();
        let items = list.items.into_iter().map(|item| {
            let mut object = serde_json::to_value(item).unwrap_or_default();
            // Objects in a list lack these.
            object["apiVersion"] = self.kind.api_version().into();
            object["kind"] = self.kind.kind.into();
            object
        });
        Ok(Some(items.collect()))
    }
}
