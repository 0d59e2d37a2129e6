//! Requests to the API server: the few that Weft makes, each with a timeout and an error that knows
//! what it calls for.

use std::time::Duration;

use http::{Method, Request, header};
use kube::{Client, core::Status};
use rustls::CertificateError;
use serde_json::{Value, json};
use weft_plan::{Kind, Live, ObjectKey, report::FailureClass};

use crate::api_server::{answer, fence::Closed, web::root_cause};

/// How long one request may take. An API server that needs longer is as good as gone, and the pass
/// is tried again.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

/// Asks for a list with nothing but the metadata of its objects.
const METADATA_OF_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The kind of an object of which only the metadata is asked for.
const METADATA: &str = "PartialObjectMetadata";

/// Objects in a page of a list that is read page by page.
const PAGE: usize = 500;

/// The pause after what may be over at once.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(200);

/// Why a request did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server says no.
    #[error("{}", status_text(.0))]
    Api(Box<Status>),
    /// No answer in this time. The request may have been carried out all the same.
    #[error("no answer from the API server within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// Not sent: another replica may be the leader by now.
    #[error("not the leader any more")]
    Fenced,
    /// The connection failed. The request may have been carried out all the same.
    #[error("the API server cannot be reached: {0}")]
    Connection(String),
    /// The answer is not the API server's: a part of one, or the page of a proxy. The request may
    /// have been carried out all the same.
    #[error("the answer of the API server cannot be used: {0}")]
    Unreadable(String),
    /// The certificate of the API server is not accepted, so nothing was sent.
    #[error("the certificate of the API server is not accepted: {0}")]
    Certificate(CertificateError),
}

/// Reports whether a webhook or an admission policy refuses the request. People lift such a refusal
/// without a change that Weft can watch.
fn is_denied_by_admission(status: &Status) -> bool {
    let by_webhook = status.message.starts_with("admission webhook ");
    matches!(status.code, 400..=499)
        && (by_webhook
            || status
                .message
                .contains(" is forbidden: ValidatingAdmissionPolicy "))
}

/// The end of the API server's answer to a create while the definition of the kind is being
/// deleted.
const OF_TERMINATING_DEFINITION: &str =
    "create not allowed while custom resource definition is terminating";

fn status_text(status: &Status) -> String {
    if status.message.is_empty() {
        format!("{} ({})", status.reason, status.code)
    } else {
        status.message.clone()
    }
}

impl Error {
    /// Returns the class of the failure, which decides when it is tried again.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Api(status) => match status.code {
                _ if is_denied_by_admission(status) => FailureClass::Refused,
                401 => FailureClass::Forbidden,
                // No right is missing: the definition of the kind is being deleted, and is gone
                // soon.
                403 if status.message.ends_with(OF_TERMINATING_DEFINITION) => {
                    FailureClass::Transient
                }
                403 if status.is_forbidden() => FailureClass::Forbidden,
                // A namespace or CRD that is not there yet comes, or the next reconcile finds out
                // who removed it.
                404 | 410 | 429 => FailureClass::Transient,
                409 => FailureClass::Conflict,
                400..=499 => FailureClass::Refused,
                _ => FailureClass::Transient,
            },
            Self::Timeout(_)
            | Self::Fenced
            | Self::Connection(_)
            | Self::Unreadable(_)
            | Self::Certificate(_) => FailureClass::Transient,
        }
    }

    /// Returns the text of a request of the operator that failed, for a condition: with the way out
    /// if the operator lacks a right.
    pub(crate) fn of_operator(&self) -> String {
        let lacks_right = |status: &Status| {
            status.code == 403 && status.message.contains(" is forbidden: User \"")
        };
        match self {
            Self::Api(status) if lacks_right(status) => format!(
                "{self}; apply Weft's manifests again, which have the operator's rights (`weft status --installation` prints the command)"
            ),
            _ => self.to_string(),
        }
    }

    /// Reports whether the API server's own validation refuses the body. It refuses the same body
    /// for as long as the object and the definition of its kind stay as they are.
    ///
    /// The API server speaks of admission in the same codes and reasons, but it begins its own
    /// verdicts with the object or the kind that they are on.
    pub fn is_of_the_body(&self) -> bool {
        let Self::Api(status) = self else {
            return false;
        };
        match (status.code, status.reason.as_str()) {
            (422, "Invalid") => status.details.as_ref().is_some_and(|about| {
                let kind = if about.group.is_empty() {
                    about.kind.clone()
                } else {
                    format!("{}.{}", about.kind, about.group)
                };
                status
                    .message
                    .starts_with(&format!("{kind} {:?} is invalid", about.name))
            }),
            (400, "BadRequest") => {
                let verdict = status
                    .message
                    .split_once(" in version \"")
                    .filter(|(kind, _)| !kind.contains(' '));
                verdict.is_some_and(|(kind, rest)| {
                    rest.contains(&format!("\" cannot be handled as a {kind}: "))
                })
            }
            _ => false,
        }
    }

    /// Reports whether none of the certificate authorities that the client trusts has signed the
    /// certificate of the API server. With one of the same name and another key, as every kubeadm
    /// makes one, the signature is what is wrong.
    pub fn is_of_unknown_authority(&self) -> bool {
        matches!(
            self,
            Self::Certificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)
        )
    }

    /// Reports whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api(status) if status.code == 404)
    }

    /// Reports whether another client wrote the object in between.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(status) if status.code == 409)
    }

    /// Reports whether the API server refuses to let a second object control the same one.
    pub(crate) fn is_second_controller(&self) -> bool {
        matches!(self, Self::Api(status) if status.code == 422 && status.message.contains("Only one reference can have Controller set to true"))
    }

    /// How long to wait before the same is tried once more, if the failure may be over by then: the
    /// API server is overloaded and says for how long (`Retry-After`), stumbled, its connection
    /// broke, or its answer cannot be used.
    pub(crate) fn passes_in(&self) -> Option<Duration> {
        match self {
            Self::Api(status) if matches!(status.code, 429 | 500..=599) => {
                let seconds = status
                    .details
                    .as_ref()
                    .map(|details| details.retry_after_seconds)
                    .unwrap_or_default();
                Some(Duration::from_secs(seconds.into()).max(BRIEFLY))
            }
            Self::Connection(_) | Self::Unreadable(_) => Some(BRIEFLY),
            Self::Api(_) | Self::Timeout(_) | Self::Fenced | Self::Certificate(_) => None,
        }
    }

    /// Reports whether the API server was too busy to begin with the request.
    fn is_busy(&self) -> bool {
        matches!(self, Self::Api(status) if status.code == 429)
    }

    /// Reports whether a field cannot be changed on an existing object. The object must be
    /// recreated. An admission policy may say anything, and its words are no reason to delete an
    /// object.
    pub(crate) fn is_immutable_field(&self) -> bool {
        let says = |status: &Status| {
            ["field is immutable", "cannot change roleRef"]
                .iter()
                .any(|words| status.message.contains(words))
        };
        matches!(self, Self::Api(status) if status.code == 422 && !is_denied_by_admission(status) && says(status))
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                answer::status(status).map_or_else(Self::Unreadable, Self::Api)
            }
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                Self::Unreadable(root_cause(&error).to_string())
            }
            kube::Error::Service(inner) if inner.is::<Closed>() => Self::Fenced,
            other => {
                let cause = root_cause(&other);
                match cause.downcast_ref::<rustls::Error>() {
                    Some(rustls::Error::InvalidCertificate(why)) => Self::Certificate(why.clone()),
                    _ => Self::Connection(cause.to_string()),
                }
            }
        }
    }
}

/// A cluster, as whoever the client is.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// How often a request is sent again that the API server was too busy for.
    repeats: u32,
}

/// As client-go does (`rest/request.go`, `maxRetries`).
const REPEATS: u32 = 10;

impl Cluster {
    /// Requests through this client.
    pub fn new(client: Client) -> Self {
        Self { client, repeats: 0 }
    }

    /// For a command, as kubectl does: a request that the API server answers with 429 is sent again
    /// after the time that it names. It does so while it is overloaded, and for a moment after a
    /// definition was created ("storage is (re)initializing").
    #[must_use]
    pub fn patient(self) -> Self {
        Self {
            repeats: REPEATS,
            ..self
        }
    }

    /// The client itself, for watches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object. `None` if it is not there.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        match self.send(Method::GET, &path(key), None).await {
            Ok(answer) => object(key, answer).map(Some),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads the metadata of an object. `None` if it is not there.
    pub async fn get_metadata(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let request = Request::get(path(key)).header(
            header::ACCEPT,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        );
        match self.call(request, None).await {
            Ok(answer) => answer::object(answer, METADATA, &key.name)
                .map(Some)
                .map_err(Error::Unreadable),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The objects of a kind that match a label selector, in one namespace or everywhere, and the
    /// resourceVersion at which these were all. Metadata only. Of a kind that the cluster does not
    /// serve, there are none.
    pub async fn list_metadata(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<(Vec<Value>, u64), Error> {
        let url = format!("{}?labelSelector={selector}", collection(kind, namespace));
        let request = Request::get(url).header(header::ACCEPT, METADATA_OF_LIST);
        let list = match self.call(request, None).await {
            Err(error) if error.is_not_found() && kind.is_optional() => {
                return Ok((Vec::new(), u64::MAX));
            }
            list => list?,
        };
        listed(list, kind)
    }

    /// Of the objects of a kind, in every namespace, those that are wanted. Metadata only, page by
    /// page: there may be many others.
    pub async fn metadata_of(
        &self,
        kind: Kind,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, Error> {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let url = format!("{}?limit={PAGE}&continue={token}", collection(kind, None));
            let request = Request::get(url).header(header::ACCEPT, METADATA_OF_LIST);
            let list = match self.call(request, None).await {
                Err(error) if error.is_not_found() && kind.is_optional() => return Ok(found),
                list => list?,
            };
            let next = list["metadata"]["continue"].as_str();
            token = next.unwrap_or_default().to_owned();
            found.extend(listed(list, kind)?.0.into_iter().filter(&is_wanted));
            if token.is_empty() {
                return Ok(found);
            }
        }
    }

    /// The objects of a kind, in one namespace or everywhere, that match a query.
    pub async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        query: &str,
    ) -> Result<Vec<Value>, Error> {
        Ok(self.list_at(kind, namespace, query).await?.0)
    }

    /// Reports whether the cluster serves a kind, by the list of kinds that its API group has. Every
    /// user may read that list.
    pub async fn serves(&self, kind: Kind) -> Result<bool, Error> {
        let url = match kind.group {
            "" => format!("/api/{}", kind.version),
            _ => format!("/apis/{}", kind.api_version()),
        };
        let served = match self.send(Method::GET, &url, None).await {
            Err(error) if error.is_not_found() => return Ok(false),
            served => answer::of_kind(served?, "APIResourceList").map_err(Error::Unreadable)?,
        };
        let resources = served["resources"].as_array();
        Ok(resources.is_some_and(|all| all.iter().any(|one| one["name"] == kind.plural)))
    }

    /// The objects of a kind that match a query, as [`Cluster::list`] returns them, and the
    /// resourceVersion at which these were all.
    pub async fn list_at(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        query: &str,
    ) -> Result<(Vec<Value>, u64), Error> {
        let list = self
            .send(
                Method::GET,
                &format!("{}?{query}", collection(kind, namespace)),
                None,
            )
            .await?;
        listed(list, kind)
    }

    /// Server-side apply of an object that must not exist: if it does, that is a conflict. No
    /// object ever has the version 1, etcd's own before the first write, and the API server looks
    /// at the version only where there is an object.
    pub async fn apply_new(
        &self,
        key: &ObjectKey,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let mut body = body.clone();
        body["metadata"]["resourceVersion"] = "1".into();
        self.apply(key, &body, manager).await
    }

    /// Server-side apply, with force. Returns the object as it is then.
    pub async fn apply(
        &self,
        key: &ObjectKey,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        self.apply_at(key, "", body, manager).await
    }

    /// The same for the status of an object that exists.
    pub async fn apply_status(
        &self,
        key: &ObjectKey,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        self.apply_at(key, "/status", body, manager).await
    }

    async fn apply_at(
        &self,
        key: &ObjectKey,
        sub: &str,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let url = format!("{}{sub}?fieldManager={manager}&force=true", path(key));
        let request =
            Request::patch(url).header(header::CONTENT_TYPE, "application/apply-patch+yaml");
        object(key, self.call(request, Some(body)).await?)
    }

    /// A merge patch (RFC 7386), of the object or of a subresource such as `status`.
    pub async fn merge_patch(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let sub = if subresource.is_empty() {
            String::new()
        } else {
            format!("/{subresource}")
        };
        let url = format!("{}{sub}?fieldManager={manager}", path(key));
        let request =
            Request::patch(url).header(header::CONTENT_TYPE, "application/merge-patch+json");
        object(key, self.call(request, Some(patch)).await?)
    }

    /// A JSON patch (RFC 6902). Fails if one of its tests does.
    pub async fn json_patch(
        &self,
        key: &ObjectKey,
        patch: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let url = format!("{}?fieldManager={manager}", path(key));
        let request =
            Request::patch(url).header(header::CONTENT_TYPE, "application/json-patch+json");
        object(key, self.call(request, Some(patch)).await?)
    }

    /// Takes a finalizer off an object that was just read. Nothing if it has none such or is gone.
    ///
    /// The patch names the position. An apply without the finalizer would not do: nobody owns the
    /// finalizers that the API server sets itself (`orphan`, `foregroundDeletion`), and the apply
    /// removes them together with the last one that has an owner. The garbage collector then never
    /// does its part. The patch fails if the list has changed, and the next look finds the new
    /// position.
    pub async fn take_finalizer(
        &self,
        key: &ObjectKey,
        object: &Value,
        finalizer: &str,
        manager: &str,
    ) -> Result<(), Error> {
        let mut finalizers = Live::of(object).finalizers();
        let Some(index) = finalizers.position(|one| one == finalizer) else {
            return Ok(());
        };
        let uid = Live::of(object).uid();
        self.take_finalizer_at(key, uid, index, finalizer, manager)
            .await
            .map(drop)
    }

    /// The same for who knows at which place it stood. Returns the object as it is then. `None` if
    /// it is gone.
    pub async fn take_finalizer_at(
        &self,
        key: &ObjectKey,
        uid: &str,
        index: usize,
        finalizer: &str,
        manager: &str,
    ) -> Result<Option<Value>, Error> {
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]);
        match self.json_patch(key, &patch, manager).await {
            Ok(written) => Ok(Some(written)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates an object. Fails with a conflict if it is there.
    pub async fn create(
        &self,
        key: &ObjectKey,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let url = format!(
            "{}?fieldManager={manager}",
            collection(key.kind, key.namespace.as_deref())
        );
        let request = Request::post(url).header(header::CONTENT_TYPE, "application/json");
        object(key, self.call(request, Some(body)).await?)
    }

    /// Replaces an object. `metadata.resourceVersion` in the body must be the current one.
    pub async fn replace(
        &self,
        key: &ObjectKey,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Error> {
        let url = format!("{}?fieldManager={manager}", path(key));
        let request = Request::put(url).header(header::CONTENT_TYPE, "application/json");
        object(key, self.call(request, Some(body)).await?)
    }

    /// Deletes the object with this uid, its dependents in the background. Returns what is left of
    /// it: an object that finalizers hold, or `None` once it is gone. An object of another uid, or
    /// none at all, is gone too.
    pub async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<Option<Value>, Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid},
            "propagationPolicy": "Background"
        });
        match self.send(Method::DELETE, &path(key), Some(&options)).await {
            Ok(answer) if answer["kind"] == "Status" => Ok(None),
            Ok(answer) => {
                Ok(Some(object(key, answer)?).filter(|object| Live::of(object).is_being_deleted()))
            }
            Err(e) if e.is_not_found() => Ok(None),
            // Another uid, or the API server could not do it just now: it says the same of both.
            Err(e) if e.is_conflict() => match self.get(key).await? {
                Some(live) if Live::of(&live).uid() == uid => Err(e),
                _ => Ok(None),
            },
            Err(e) => Err(e),
        }
    }

    /// Asks for a review, such as a TokenReview: `path` is that of its kind. Nothing is stored.
    /// Returns it with its status.
    pub async fn review(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let answer = self.send(Method::POST, path, Some(body)).await?;
        answer::of_kind(answer, Live::of(body).kind()).map_err(Error::Unreadable)
    }

    async fn send(&self, method: Method, url: &str, body: Option<&Value>) -> Result<Value, Error> {
        self.call(
            Request::builder()
                .method(method)
                .uri(url)
                .header(header::CONTENT_TYPE, "application/json"),
            body,
        )
        .await
    }

    async fn call(
        &self,
        request: http::request::Builder,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = request
            .body(body)
            .map_err(|e| Error::Connection(e.to_string()))?;
        let mut repeats = self.repeats;
        loop {
            let answer =
                match tokio::time::timeout(TIMEOUT, self.client.request(request.clone())).await {
                    Ok(answer) => answer.map_err(Error::from),
                    Err(_) => Err(Error::Timeout(TIMEOUT)),
                };
            match answer {
                Err(error) if repeats > 0 && error.is_busy() => {
                    tokio::time::sleep(error.passes_in().unwrap_or(BRIEFLY)).await
                }
                answer => return answer,
            }
            repeats -= 1;
        }
    }
}

/// The answer to a request about one object.
fn object(key: &ObjectKey, answer: Value) -> Result<Value, Error> {
    answer::object(answer, key.kind.kind, &key.name).map_err(Error::Unreadable)
}

/// The objects of a list, and the resourceVersion at which these were all.
fn listed(list: Value, kind: Kind) -> Result<(Vec<Value>, u64), Error> {
    let version = Live::of(&list).resource_version();
    let items = answer::items(list).map_err(Error::Unreadable)?;
    let objects = items.into_iter().map(|item| typed(item, kind));
    Ok((objects.collect(), version))
}

/// List items carry no type of their own.
fn typed(mut item: Value, kind: Kind) -> Value {
    item["apiVersion"] = kind.api_version().into();
    item["kind"] = kind.kind.into();
    item
}

fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", kind.plural),
        None => format!("{root}/{}", kind.plural),
    }
}

fn path(key: &ObjectKey) -> String {
    format!(
        "{}/{}",
        collection(key.kind, key.namespace.as_deref()),
        key.name
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weft_plan::kinds;

    #[test]
    fn a_failure_that_may_pass_at_once_is_retried_once() {
        let status = |code: u16, seconds: u32| {
            let status = json!({
                "code": code, "message": "no", "reason": "No",
                "details": {"retryAfterSeconds": seconds}
            });
            Error::Api(serde_json::from_value(status).unwrap())
        };
        assert_eq!(status(500, 0).passes_in(), Some(BRIEFLY));
        assert_eq!(
            status(429, 7).passes_in(),
            Some(Duration::from_secs(7)),
            "as the API server asks for"
        );
        assert_eq!(Error::Connection("cut".into()).passes_in(), Some(BRIEFLY));
        assert_eq!(
            Error::Unreadable("a page".into()).passes_in(),
            Some(BRIEFLY)
        );
        for error in [
            status(403, 0),
            status(409, 0),
            status(422, 0),
            Error::Timeout(TIMEOUT),
            Error::Fenced,
        ] {
            assert_eq!(error.passes_in(), None, "{error}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_no_verdict() {
        let cut = serde_json::from_str::<Value>(r#"{"kind": "PodLi"#).unwrap_err();
        let page = kube::core::Status::failure("<html>", "Failed to parse error data");
        for error in [
            kube::Error::SerdeError(cut),
            kube::Error::FromUtf8(String::from_utf8(vec![0xff]).unwrap_err()),
            kube::Error::Api(Box::new(page.with_code(404))),
        ] {
            let error = Error::from(error);
            assert!(
                matches!(error, Error::Unreadable(_))
                    && error.class() == FailureClass::Transient
                    && !error.is_not_found(),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_verdict_on_the_body_is_told_from_one_of_admission() {
        let error = |code: u16, reason: &str, message: &str| {
            let details =
                json!({"name": "multus", "group": "apps", "kind": "DaemonSet", "causes": []});
            Error::Api(
                serde_json::from_value(
                    json!({"code": code, "reason": reason, "message": message, "details": details}),
                )
                .unwrap(),
            )
        };
        let core = json!({
            "code": 422, "reason": "Invalid",
            "message": "ConfigMap \"c\" is invalid: data: Too long",
            "details": {"name": "c", "kind": "ConfigMap"}
        });
        assert!(Error::Api(serde_json::from_value(core).unwrap()).is_of_the_body());
        let verdicts = [
            (
                422,
                "Invalid",
                "DaemonSet.apps \"multus\" is invalid: spec.template.spec.tolerations[0].operator: Invalid value: \"x\"",
            ),
            (
                400,
                "BadRequest",
                "DaemonSet in version \"v1\" cannot be handled as a DaemonSet: quantities must match the regular expression",
            ),
        ];
        for (code, reason, message) in verdicts {
            assert!(error(code, reason, message).is_of_the_body(), "{message}");
        }
        let denials = [
            (
                422,
                "Invalid",
                "daemonsets.apps \"multus\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            (
                403,
                "Forbidden",
                "daemonsets.apps \"multus\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            ),
            (
                422,
                "Invalid",
                "admission webhook \"h\" denied the request: DaemonSet.apps \"multus\" is invalid: spec: no",
            ),
            (
                400,
                "BadRequest",
                "admission webhook \"h\" denied the request: X in version \"v1\" cannot be handled as a X: no",
            ),
            (
                403,
                "Forbidden",
                "admission webhook \"h\" denied the request: no",
            ),
        ];
        for (code, reason, message) in denials {
            let error = error(code, reason, message);
            assert!(!error.is_of_the_body(), "{message}");
            assert_eq!(error.class(), FailureClass::Refused, "{message}");
        }
        let role = error(
            403,
            "Forbidden",
            "daemonsets.apps \"multus\" is forbidden: User \"weft\" cannot patch resource \"daemonsets\"",
        );
        assert_eq!(role.class(), FailureClass::Forbidden);
        let said = role.of_operator();
        assert!(
            said.ends_with(
                "cannot patch resource \"daemonsets\"; apply Weft's manifests again, which have the operator's rights (`weft status --installation` prints the command)"
            ),
            "{said}"
        );
        let terminating = "network-attachment-definitions.k8s.cni.cncf.io \"a\" is forbidden: create not allowed while custom resource definition is terminating";
        assert_eq!(
            error(403, "Forbidden", terminating).class(),
            FailureClass::Transient
        );
    }

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(
            path(&ObjectKey::new(kinds::DAEMON_SET, "n", "d")),
            "/apis/apps/v1/namespaces/n/daemonsets/d"
        );
        assert_eq!(
            path(&ObjectKey::new(kinds::NAMESPACE, "", "n")),
            "/api/v1/namespaces/n"
        );
        assert_eq!(
            path(&ObjectKey::new(kinds::CLUSTER_ROLE, "", "system:x")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x"
        );
    }
}
