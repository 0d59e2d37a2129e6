//! The content of a cluster: all objects of a cluster, and a cluster that starts with such
//! objects.
//!
//! The objects go straight into etcd, before the API server starts. So they keep what the API
//! server would set anew: uid, status, managedFields and generation. etcd is asked through its
//! gateway for JSON (<https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/>). The API server reads
//! a stored object in any encoding that it serves, JSON too.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, verbs};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;

/// How many objects are written at the same time.
const AT_ONCE: usize = 16;

/// Where the API server keeps its objects in etcd (its flag `--etcd-prefix`).
const ROOT: &str = "/registry/";

/// Kinds that are served and not stored, or stored for an hour only.
const NOT_STORED: [&str; 2] = ["componentstatuses", "events"];

/// The definitions of kinds.
const DEFINITIONS: (&str, &str) = ("customresourcedefinitions", "apiextensions.k8s.io");

/// The objects of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredKind {
    /// `daemonsets`
    pub plural: String,
    /// `apps`. Empty for the core group.
    pub group: String,
    /// The objects, each whole but for its resourceVersion, in the order of namespace and name.
    pub objects: Vec<Value>,
}

impl StoredKind {
    /// `daemonsets.apps`, or `pods` in the core group.
    pub fn title(&self) -> String {
        match &*self.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The key of an object in etcd.
    ///
    /// The API server has a folder for each kind: its plural for the kinds of Kubernetes, with the
    /// exceptions of `SpecialDefaultResourcePrefixes` in `pkg/kubeapiserver`, and group and plural
    /// for those of a definition and of the API servers for extensions.
    fn key(&self, object: &Value, is_defined: bool) -> String {
        let folder = match (&*self.group, &*self.plural) {
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => {
                format!("{}/{}", self.group, self.plural)
            }
            _ if is_defined => format!("{}/{}", self.group, self.plural),
            ("", "nodes") => "minions".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            (_, plural) => plural.to_owned(),
        };
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        match metadata["namespace"].as_str() {
            Some(namespace) => format!("{ROOT}{folder}/{namespace}/{name}"),
            None => format!("{ROOT}{folder}/{name}"),
        }
    }
}

/// The keys of all these objects in etcd, each with its object.
fn keys(kinds: &[StoredKind]) -> Vec<(String, &Value)> {
    let defined: BTreeSet<_> = kinds
        .iter()
        .filter(|kind| (&*kind.plural, &*kind.group) == DEFINITIONS)
        .flat_map(|kind| &kind.objects)
        .filter_map(|definition| definition["metadata"]["name"].as_str())
        .collect();
    kinds
        .iter()
        .flat_map(|kind| {
            let is_defined = defined.contains(&*kind.title());
            let key = move |object| (kind.key(object, is_defined), object);
            kind.objects.iter().map(key)
        })
        .collect()
}

impl ControlPlane {
    /// All objects of the cluster but Events, kind by kind. A kind of a definition has the version
    /// that is stored.
    ///
    /// # Errors
    /// The API server does not answer, or etcd has an object elsewhere than
    /// [`Builder::stored`](crate::Builder::stored) would put it.
    pub async fn stored(&self) -> Result<Vec<StoredKind>> {
        let mut missing_before = BTreeSet::new();
        loop {
            let kinds = self.listed().await?;
            let there = self.etcd_keys().await?;
            let missing: BTreeSet<_> = keys(&kinds)
                .into_iter()
                .map(|(key, _)| key)
                .filter(|key| !there.contains(key))
                .collect();
            if missing.is_empty() {
                return Ok(kinds);
            }
            // An object may have gone in between. Then the next list does not have it.
            if let Some(key) = missing.intersection(&missing_before).next() {
                bail!("etcd has no {key}: StoredKind::key is wrong about this kind");
            }
            missing_before = missing;
        }
    }

    /// The same, without a look into etcd.
    async fn listed(&self) -> Result<Vec<StoredKind>> {
        let discovery = Discovery::new(self.client()).run_aggregated().await?;
        let recommended: Vec<_> = discovery
            .groups()
            .flat_map(|group| group.recommended_resources())
            .filter(|(_, can)| can.supports_operation(verbs::LIST))
            .map(|(kind, _)| kind)
            .filter(|kind| !NOT_STORED.contains(&&*kind.plural))
            .collect();
        let definitions = recommended
            .iter()
            .find(|kind| (&*kind.plural, &*kind.group) == DEFINITIONS)
            .context("the API server serves no definitions")?;
        let definitions = self.all_of(definitions).await?;
        let mut kinds = Vec::new();
        for kind in &recommended {
            let stored = stored_version(&definitions, kind);
            let objects = self.all_of(stored.as_ref().unwrap_or(kind)).await?;
            if !objects.is_empty() {
                kinds.push(StoredKind {
                    plural: kind.plural.clone(),
                    group: kind.group.clone(),
                    objects,
                });
            }
        }
        kinds.sort_by_key(StoredKind::title);
        Ok(kinds)
    }

    /// Writes objects into etcd while the API server runs, and so past every rule of it. Definitions
    /// must be among them for objects of defined kinds.
    ///
    /// # Errors
    /// etcd refuses, or is in a network namespace.
    pub async fn store(&self, kinds: &[StoredKind]) -> Result<()> {
        write(self.reachable_etcd()?.port, kinds).await
    }

    async fn all_of(&self, kind: &ApiResource) -> Result<Vec<Value>> {
        let api: Api<DynamicObject> = Api::all_with(self.client(), kind);
        let list = api
            .list(&ListParams::default())
            .await
            .with_context(|| format!("list {}", kind.plural))?;
        let whole = |object: DynamicObject| {
            let mut object = serde_json::to_value(object)?;
            object["apiVersion"] = kind.api_version.clone().into();
            object["kind"] = kind.kind.clone().into();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            anyhow::Ok(object)
        };
        let mut objects = list
            .items
            .into_iter()
            .map(whole)
            .collect::<Result<Vec<_>>>()?;
        objects.sort_by_key(|object| {
            ["namespace", "name"].map(|field| object["metadata"][field].to_string())
        });
        Ok(objects)
    }

    async fn etcd_keys(&self) -> Result<BTreeSet<String>> {
        let port = self.reachable_etcd()?.port;
        let mut range = all_keys();
        range["keys_only"] = true.into();
        let answer = ask(&Gateway::new(port), "range", &range).await?;
        pairs(&answer)?.map(key_of).collect()
    }
}

/// The version of a defined kind that is stored, if that is another one.
fn stored_version(definitions: &[Value], kind: &ApiResource) -> Option<ApiResource> {
    let definition = definitions.iter().find(|definition| {
        let spec = &definition["spec"];
        spec["group"] == *kind.group && spec["names"]["plural"] == *kind.plural
    })?;
    let mut versions = definition["spec"]["versions"].as_array()?.iter();
    let version = versions.find(|version| version["storage"] == true)?["name"].as_str()?;
    Some(ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&kind.group, version, &kind.kind),
        &kind.plural,
    ))
}

/// Writes these objects into etcd.
pub(crate) async fn write(port: u16, kinds: &[StoredKind]) -> Result<()> {
    let gateway = Gateway::new(port);
    let put = |(key, object): (String, &Value)| {
        let pair =
            json!({"key": STANDARD.encode(key), "value": STANDARD.encode(object.to_string())});
        let gateway = &gateway;
        async move { ask(gateway, "put", &pair).await.map(drop) }
    };
    stream::iter(keys(kinds).into_iter().map(put))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// The keys of the API server in etcd with their values, in the base64 of etcd's gateway.
pub(crate) type Content = BTreeMap<String, String>;

/// etcd's gateway for JSON.
pub(crate) struct Gateway {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
}

impl Gateway {
    pub(crate) fn new(port: u16) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, port }
    }

    /// All keys of the API server.
    pub(crate) async fn content(&self) -> Result<Content> {
        let answer = ask(self, "range", &all_keys()).await?;
        pairs(&answer)?
            .map(|pair| {
                let value = pair["value"].as_str().unwrap_or_default();
                Ok((key_of(pair)?, value.to_owned()))
            })
            .collect()
    }

    /// Writes each key with its value, or deletes it where there is none, past all rules of the API
    /// server. Each change is a request of its own: the API server never writes two objects at one
    /// revision, and a watch that it begins between two such changes does not show the second one.
    pub(crate) async fn change(&self, keys: Vec<(String, Option<String>)>) -> Result<()> {
        let change = |(key, value): (String, Option<String>)| async move {
            let key = STANDARD.encode(key);
            match value {
                Some(value) => ask(self, "put", &json!({"key": key, "value": value})).await,
                None => ask(self, "deleterange", &json!({"key": key})).await,
            }
            .map(drop)
        };
        stream::iter(keys.into_iter().map(change))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }
}

/// The range of all keys of the API server. `0` is the character after `/`.
fn all_keys() -> Value {
    json!({"key": STANDARD.encode(ROOT), "range_end": STANDARD.encode("/registry0")})
}

fn pairs(answer: &Value) -> Result<impl Iterator<Item = &Value>> {
    Ok(answer["kvs"].as_array().context("etcd has no keys")?.iter())
}

fn key_of(pair: &Value) -> Result<String> {
    let key = pair["key"].as_str().context("a key without a name")?;
    Ok(String::from_utf8(STANDARD.decode(key)?)?)
}

async fn ask(gateway: &Gateway, method: &str, body: &Value) -> Result<Value> {
    let uri = format!("http://127.0.0.1:{}/v3/kv/{method}", gateway.port);
    let request = Request::post(uri).body(Full::from(body.to_string()))?;
    let answer = gateway.client.request(request).await?;
    let status = answer.status();
    let text = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!(
            "etcd: {method}: {status}: {}",
            String::from_utf8_lossy(&text)
        );
    }
    Ok(serde_json::from_slice(&text)?)
}
