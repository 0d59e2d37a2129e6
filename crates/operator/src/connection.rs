//! Which API server the operator talks to: also before the Service `kubernetes`, its name or any
//! pod network works.

use std::path::{Path, PathBuf};

use http::Uri;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Where to find the API server.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A kubeconfig to use as it is.
    pub kubeconfig: Option<PathBuf>,
    /// A kubeconfig of which only the address is used, in a pod: that of its node's kubelet.
    pub url_only: Option<PathBuf>,
}

/// Host (an IPv6 address without brackets) and port.
pub type Endpoint = (String, u16);

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A kubeconfig cannot be used.
    #[error("kubeconfig {}: {why}", path.display())]
    Kubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The rule that it breaks.
        why: String,
    },
    /// Not the URL of a server.
    #[error(
        "{url:?} is not the URL of an API server ({why}): write it like https://192.0.2.1:6443"
    )]
    Url {
        /// The text that was given as URL.
        url: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// Nothing says which cluster.
    #[error("no cluster is configured: set KUBECONFIG, give --kubeconfig, or run in a pod ({0})")]
    None(String),
}

/// How to connect, and the address of the API server that an own kubeconfig of the node gave, if it
/// was asked for: the operator's pods reach the API server the same way.
///
/// # Errors
/// Nothing says which cluster, or a file that should cannot be used.
pub async fn connect(source: &Source) -> Result<(Config, Option<Endpoint>), ConnectionError> {
    let endpoint = source.url_only.as_deref().map(server_of).transpose()?;
    let has_kubeconfig = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
    let mut config = match (&source.kubeconfig, &endpoint) {
        (Some(path), _) => {
            let failed = |why: String| ConnectionError::Kubeconfig {
                path: path.clone(),
                why,
            };
            let file = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| failed(error.to_string()))?
        }
        // With the token and the authorities of the pod's service account.
        (None, Some(endpoint)) if !has_kubeconfig => {
            let mut config = Config::incluster_dns()
                .map_err(|error| ConnectionError::None(error.to_string()))?;
            config.cluster_url = url(endpoint)?;
            config
        }
        _ => Config::infer()
            .await
            .map_err(|error| ConnectionError::None(first_line(&error.to_string())))?,
    };
    // Weft decides itself what is tried again, and when.
    config.default_retry = false;
    Ok((config, endpoint))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn url((host, port): &Endpoint) -> Result<Uri, ConnectionError> {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    let url = format!("https://{host}:{port}");
    url.parse().map_err(|_| ConnectionError::Url {
        url,
        why: "its host is none",
    })
}

/// The address of the server of a kubeconfig's current context. Nothing else of the file is looked
/// at, so what belongs to its user, such as a certificate that is not there yet, may be missing.
///
/// # Errors
/// The file cannot be read, or leads to no server. It is said at which step.
pub fn server_of(path: &Path) -> Result<Endpoint, ConnectionError> {
    let failed = |why: String| ConnectionError::Kubeconfig {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let file = Kubeconfig::from_yaml(&text)
        .map_err(|error| failed(format!("is not readable: {error}")))?;
    let context = file
        .current_context
        .filter(|name| !name.is_empty())
        .ok_or_else(|| failed("has no current-context".to_owned()))?;
    let cluster = file
        .contexts
        .into_iter()
        .find(|named| named.name == context)
        .and_then(|named| named.context)
        .map(|context| context.cluster);
    let cluster = cluster.ok_or_else(|| {
        failed(format!(
            "has no context {context:?}, which its current-context names"
        ))
    })?;
    let server = file
        .clusters
        .into_iter()
        .find(|named| named.name == cluster)
        .and_then(|named| named.cluster);
    let server = server
        .ok_or_else(|| {
            failed(format!(
                "has no cluster {cluster:?}, which its context {context:?} names"
            ))
        })?
        .server;
    endpoint(&server.ok_or_else(|| failed(format!("its cluster {cluster:?} has no server")))?)
        .map_err(|error| failed(error.to_string()))
}

/// Host and port of a server's URL. The port by the scheme where it says none.
///
/// # Errors
/// It is not the URL of a server.
pub fn endpoint(url: &str) -> Result<Endpoint, ConnectionError> {
    let failed = |why| ConnectionError::Url {
        url: url.to_owned(),
        why,
    };
    let uri: Uri = url.trim().parse().map_err(|_| failed("it is not a URL"))?;
    let port = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return Err(failed("it begins with neither https:// nor http://")),
    };
    let host = uri
        .host()
        .map(|host| host.trim_matches(['[', ']']))
        .filter(|host| !host.is_empty())
        .ok_or_else(|| failed("it has no host"))?;
    let has_port = uri.authority().is_some_and(|authority| {
        authority
            .as_str()
            .rsplit_once(']')
            .map_or(authority.as_str(), |(_, rest)| rest)
            .contains(':')
    });
    match (has_port, uri.port_u16()) {
        (true, None) => Err(failed("its port is none")),
        (_, said) => Ok((host.to_owned(), said.unwrap_or(port))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_port_is_that_of_the_url_or_of_its_scheme() {
        for (url, host, port) in [
            ("https://api.example:6443", "api.example", 6443),
            ("https://api.example", "api.example", 443),
            ("http://192.0.2.1/", "192.0.2.1", 80),
            ("https://[fd00::1]:6443/prefix", "fd00::1", 6443),
            ("https://[fd00::1]", "fd00::1", 443),
        ] {
            assert_eq!(endpoint(url).unwrap(), (host.to_owned(), port), "{url}");
        }
        for wrong in [
            "",
            "api.example:6443",
            "ftp://api.example",
            "https://",
            "https://:6443",
            "https://a:99999",
            "https://a:b",
            "no url",
        ] {
            let error = endpoint(wrong).unwrap_err().to_string();
            assert!(error.contains("https://192.0.2.1:6443"), "{wrong}: {error}");
        }
    }

    fn server(text: &str) -> Result<Endpoint, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        server_of(file.path()).map_err(|error| {
            error
                .to_string()
                .replace(&file.path().display().to_string(), "FILE")
        })
    }

    const CLUSTERS: &str = "clusters: [{name: other, cluster: {server: 'https://other'}}, {name: mine, cluster: {server: 'https://[fd00::5]:6443'}}]\n";

    #[test]
    fn only_the_server_of_the_current_context_counts() {
        let text = format!(
            "{CLUSTERS}contexts: [{{name: a, context: {{cluster: other}}}}, {{name: b, context: {{cluster: mine, user: nobody}}}}]\ncurrent-context: b\nusers: [{{name: nobody, user: {{client-certificate: /not/there}}}}]\n"
        );
        assert_eq!(server(&text).unwrap(), ("fd00::5".to_owned(), 6443));
    }

    #[test]
    fn a_missing_part_of_the_connection_is_named() {
        for (text, error) in [
            (CLUSTERS.to_owned(), "kubeconfig FILE: has no current-context"),
            (format!("{CLUSTERS}current-context: a\n"), "kubeconfig FILE: has no context \"a\", which its current-context names"),
            (
                format!("{CLUSTERS}contexts: [{{name: a, context: {{cluster: none}}}}]\ncurrent-context: a\n"),
                "kubeconfig FILE: has no cluster \"none\", which its context \"a\" names",
            ),
            (
                "clusters: [{name: c, cluster: {}}]\ncontexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a\n".to_owned(),
                "kubeconfig FILE: its cluster \"c\" has no server",
            ),
        ] {
            assert_eq!(server(&text).unwrap_err(), error);
        }
        assert!(
            server_of(Path::new("/not/there"))
                .unwrap_err()
                .to_string()
                .starts_with("kubeconfig /not/there: ")
        );
    }
}
