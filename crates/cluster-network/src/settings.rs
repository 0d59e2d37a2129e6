//! Settings from the operator's environment.

use std::collections::BTreeMap;

use crate::error::{BuildError, MissingImage};

/// The namespace of the operator and its notes.
pub const NAMESPACE: &str = "openshift-cluster-network-operator";

/// How the domain is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the operator runs and keeps its notes.
    pub operator_namespace: String,
    /// Where the record is, and is looked for by those who force a change: the same, but where one
    /// operator serves several domains.
    pub record_namespace: String,
    /// The images that are known.
    pub images: BTreeMap<Image, String>,
    /// Where pods reach the API server before there is a network. `None` leaves it to the Service
    /// `kubernetes`.
    pub api_server: Option<ApiServer>,
    /// The reader of metrics: namespace and name of a ServiceAccount.
    pub prometheus: (String, String),
}

/// The address of the API server, as in the variables that every pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// `KUBERNETES_SERVICE_HOST`: a name or an address.
    pub host: String,
    /// `KUBERNETES_SERVICE_PORT`, 443 if only the host is said.
    pub port: String,
}

macro_rules! images {
    ($($name:ident = $env:literal, $what:literal;)*) => {
        /// An image of an operand. There is no default: which one fits depends on the cluster's
        /// version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Image {
            $(#[doc = $what] $name,)*
        }

        impl Image {
            /// All images.
            pub const ALL: &[Image] = &[$(Image::$name),*];

            /// The environment variable that names it.
            pub fn env(self) -> &'static str {
                match self { $(Image::$name => $env,)* }
            }

            /// The program in the image.
            pub fn what(self) -> &'static str {
                match self { $(Image::$name => $what,)* }
            }
        }
    };
}

images! {
    Node = "NODE_IMAGE", "OpenShift SDN and Open vSwitch on the nodes";
    Hypershift = "HYPERSHIFT_IMAGE", "the controller of OpenShift SDN";
    KubeProxy = "KUBE_PROXY_IMAGE", "kube-proxy";
    Flannel = "FLANNEL_IMAGE", "flanneld";
    FlannelCniPlugin = "FLANNEL_CNI_PLUGIN_IMAGE", "the installer of the CNI plugin flannel";
    Weft = "OPERATOR_IMAGE", "Weft itself, which writes the CNI configuration of the nodes";
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            operator_namespace: NAMESPACE.to_owned(),
            record_namespace: NAMESPACE.to_owned(),
            images: BTreeMap::new(),
            api_server: None,
            prometheus: ("monitoring".to_owned(), "prometheus-k8s".to_owned()),
        }
    }
}

impl Settings {
    /// Reads `OPERATOR_NAMESPACE`, `CLUSTER_NETWORK_NAMESPACE`, the variables of the images,
    /// `KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT`, `MONITORING_NAMESPACE` and
    /// `MONITORING_SERVICE_ACCOUNT`. An empty variable counts as unset.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let get = |variable: &str| {
            env(variable)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let defaults = Self::default();
        let operator_namespace = get("OPERATOR_NAMESPACE").unwrap_or(defaults.operator_namespace);
        let port = get("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
        let (namespace, account) = defaults.prometheus;
        Self {
            record_namespace: get("CLUSTER_NETWORK_NAMESPACE")
                .unwrap_or_else(|| operator_namespace.clone()),
            operator_namespace,
            images: Image::ALL
                .iter()
                .filter_map(|image| Some((*image, get(image.env())?)))
                .collect(),
            api_server: get("KUBERNETES_SERVICE_HOST").map(|host| ApiServer { host, port }),
            prometheus: (
                get("MONITORING_NAMESPACE").unwrap_or(namespace),
                get("MONITORING_SERVICE_ACCOUNT").unwrap_or(account),
            ),
        }
    }

    /// The reference of an image.
    ///
    /// # Errors
    /// Nobody has said which: an empty image would only fail later, in every pod.
    pub fn image(&self, image: Image) -> Result<&str, BuildError> {
        self.images.get(&image).map(String::as_str).ok_or_else(|| {
            BuildError::Images(vec![MissingImage {
                variable: image.env(),
                what: image.what(),
            }])
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::from_env(|name| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_gives_the_defaults_and_an_empty_variable_is_not_set() {
        assert_eq!(read(&[]), Settings::default());
        assert_eq!(
            read(&[
                ("NODE_IMAGE", " "),
                ("KUBERNETES_SERVICE_HOST", ""),
                ("KUBERNETES_SERVICE_PORT", "1")
            ]),
            Settings::default()
        );
    }

    #[test]
    fn the_record_is_beside_the_operator_unless_another_namespace_is_said() {
        let settings = read(&[("OPERATOR_NAMESPACE", "weft-system")]);
        assert_eq!(
            (
                settings.operator_namespace.as_str(),
                settings.record_namespace.as_str()
            ),
            ("weft-system", "weft-system")
        );
        let settings = read(&[
            ("OPERATOR_NAMESPACE", "weft-system"),
            ("CLUSTER_NETWORK_NAMESPACE", NAMESPACE),
        ]);
        assert_eq!(
            (
                settings.operator_namespace.as_str(),
                settings.record_namespace.as_str()
            ),
            ("weft-system", NAMESPACE)
        );
    }

    #[test]
    fn a_missing_image_is_an_error_that_names_its_variable() {
        for image in Image::ALL {
            let message = Settings::default().image(*image).unwrap_err().to_string();
            assert!(
                message.starts_with(image.env()) && message.contains(image.what()),
                "{message}"
            );
            assert_eq!(
                read(&[(image.env(), " x:1 ")]).image(*image).unwrap(),
                "x:1"
            );
        }
    }

    #[test]
    fn the_api_server_is_where_the_operator_itself_finds_it() {
        let api_server = |host: &str, port: &str| {
            Some(ApiServer {
                host: host.into(),
                port: port.into(),
            })
        };
        assert_eq!(
            read(&[("KUBERNETES_SERVICE_HOST", "fd00::1")]).api_server,
            api_server("fd00::1", "443")
        );
        let both = [
            ("KUBERNETES_SERVICE_HOST", "api.example"),
            ("KUBERNETES_SERVICE_PORT", "6443"),
        ];
        assert_eq!(read(&both).api_server, api_server("api.example", "6443"));
    }
}
