//! The user and the target of a request, from its head.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{Method, header};
use serde::Deserialize;

/// The target of a request in the terms of RBAC and of the audit log, as kube-apiserver's
/// `RequestInfo` finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// User name. `system:anonymous` without a token.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. The HTTP
    /// method in lower case for paths that are no resources (`/readyz`, `/apis`).
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// API version, as `v1`.
    pub version: String,
    /// Plural resource name, empty for paths that are no resources.
    pub resource: String,
    /// `status`, `scale`, `token` and so on, or empty.
    pub subresource: String,
    /// Empty for cluster-scoped resources (but for a Namespace, its own name).
    pub namespace: String,
    /// Empty for list, watch and deletecollection (unless a field selector names one object).
    pub name: String,
    /// Path without query.
    pub path: String,
    /// Query without `?`, as sent.
    pub query: String,
}

impl RequestInfo {
    pub(super) fn new(head: &Parts, users: &BTreeMap<String, String>) -> Self {
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let mut info = Self {
            user: user(head, users),
            verb: head.method.as_str().to_lowercase(),
            path,
            query,
            ..Self::default()
        };
        info.read_path(&head.method);
        info
    }

    /// By the rules of `k8s.io/apiserver/pkg/endpoints/request`. The old form `/watch/` in the path
    /// is not known here.
    fn read_path(&mut self, method: &Method) {
        let path = self.path.clone();
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut rest = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                self.version = (*version).to_owned();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                self.group = (*group).to_owned();
                self.version = (*version).to_owned();
                rest
            }
            _ => return,
        };
        if let ["namespaces", namespace, more @ ..] = rest {
            self.namespace = (*namespace).to_owned();
            // `status` and `finalize` are subresources of the Namespace, anything else is a
            // resource in it.
            if more
                .first()
                .is_some_and(|first| !matches!(*first, "status" | "finalize"))
            {
                rest = more;
            }
        }
        let part = |index: usize| {
            rest.get(index)
                .map(|part| (*part).to_owned())
                .unwrap_or_default()
        };
        (self.resource, self.name, self.subresource) = (part(0), part(1), part(2));
        let verb = match (method, self.name.is_empty()) {
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (&Method::GET | &Method::HEAD, false) => "get",
            (&Method::GET | &Method::HEAD, true)
                if self
                    .query_values("watch")
                    .any(|value| !matches!(value, "false" | "0")) =>
            {
                "watch"
            }
            (&Method::GET | &Method::HEAD, true) => "list",
            _ => return,
        };
        verb.clone_into(&mut self.verb);
        if matches!(verb, "list" | "watch") {
            let selectors = self.query_values("fieldSelector");
            let name = selectors
                .flat_map(|selector| selector.split("%2C"))
                .find_map(|term| term.strip_prefix("metadata.name%3D"));
            if let Some(name) = name {
                self.name = name.trim_start_matches("%3D").to_owned();
            }
        }
    }

    fn query_values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.query
            .split('&')
            .filter_map(move |pair| pair.strip_prefix(key)?.strip_prefix('='))
    }

    /// Does it change something stored?
    pub fn is_write(&self) -> bool {
        is_write(&self.verb, &self.group, &self.query)
    }

    /// Is it about a Lease or an Event: what a controller writes besides its work?
    pub(super) fn is_housekeeping(&self) -> bool {
        matches!(
            (self.group.as_str(), self.resource.as_str()),
            ("coordination.k8s.io", "leases") | ("" | "events.k8s.io", "events")
        )
    }
}

/// Does a request change something stored? Dry runs, and reviews of access and tokens, which are
/// created but not stored, do not.
pub(crate) fn is_write(verb: &str, group: &str, query: &str) -> bool {
    matches!(
        verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    ) && !matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
        && !query.split('&').any(|pair| pair.starts_with("dryRun="))
}

/// The user of a bearer token: a static one, or the subject of a ServiceAccount's token. The
/// signature is not our concern: the API server refuses a forged one.
fn user(head: &Parts, users: &BTreeMap<String, String>) -> String {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    let header = head
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
        return "system:anonymous".into();
    };
    if let Some(user) = users.get(token) {
        return user.clone();
    }
    let claims = token
        .split('.')
        .nth(1)
        .and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    let claims = claims.and_then(|json| serde_json::from_slice::<Claims>(&json).ok());
    claims.map_or_else(|| "system:anonymous".into(), |claims| claims.sub)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        let (head, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap()
            .into_parts();
        RequestInfo::new(&head, &BTreeMap::new())
    }

    fn short(method: &str, uri: &str) -> String {
        let RequestInfo {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            ..
        } = info(method, uri);
        [verb, group, version, resource, subresource, namespace, name].join("|")
    }

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        assert_eq!(short("GET", "/api/v1/namespaces"), "list||v1|namespaces|||");
        assert_eq!(
            short("GET", "/api/v1/namespaces/a"),
            "get||v1|namespaces||a|a"
        );
        assert_eq!(
            short("PUT", "/api/v1/namespaces/a/finalize"),
            "update||v1|namespaces|finalize|a|a"
        );
        assert_eq!(
            short("POST", "/api/v1/namespaces/a/serviceaccounts/b/token"),
            "create||v1|serviceaccounts|token|a|b"
        );
        assert_eq!(
            short(
                "PATCH",
                "/apis/apps/v1/namespaces/a/daemonsets/b?force=true"
            ),
            "patch|apps|v1|daemonsets||a|b"
        );
        assert_eq!(
            short("DELETE", "/apis/apps/v1/namespaces/a/daemonsets"),
            "deletecollection|apps|v1|daemonsets||a|"
        );
        assert_eq!(
            short("GET", "/api/v1/pods?watch=true&resourceVersion=1"),
            "watch||v1|pods|||"
        );
        assert_eq!(short("GET", "/api/v1/pods?watch=0"), "list||v1|pods|||");
        assert_eq!(
            short(
                "GET",
                "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dx"
            ),
            "watch||v1|pods|||x"
        );
        assert_eq!(short("GET", "/apis/apps/v1"), "get||||||");
        assert_eq!(short("GET", "/readyz"), "get||||||");
    }

    #[test]
    fn a_write_changes_something_stored() {
        assert!(info("PATCH", "/api/v1/nodes/a/status").is_write());
        assert!(!info("PATCH", "/api/v1/nodes/a?dryRun=All").is_write());
        assert!(!info("GET", "/api/v1/nodes/a").is_write());
        assert!(
            !info(
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            )
            .is_write()
        );
        assert!(
            info("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b").is_housekeeping()
        );
    }

    #[test]
    fn the_user_is_read_from_the_token() {
        let of = |token: &str| {
            let request = http::Request::get("/")
                .header("authorization", format!("Bearer {token}"))
                .body(())
                .unwrap();
            user(
                &request.into_parts().0,
                &BTreeMap::from([("secret".into(), "admin".into())]),
            )
        };
        assert_eq!(of("secret"), "admin");
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"system:serviceaccount:a:b"}"#);
        assert_eq!(of(&format!("x.{claims}.y")), "system:serviceaccount:a:b");
        assert_eq!(of("nonsense"), "system:anonymous");
    }
}
