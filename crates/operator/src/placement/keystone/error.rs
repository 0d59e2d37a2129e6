//! Why Keystone could not be asked, or refused. No message has a password or a token in it.

use http::StatusCode;
use weft_placement::registration::FoundError;
use weft_plan::report::FailureClass;
use weft_runtime::api_server::web::WebError;

/// Where the details are that status does not have.
const IN_LOG: &str = "The details are in the operator's log; status has them where the operator's administrator lists the address (--keystone-urls)";

/// Why Keystone could not be asked, or refused.
#[derive(Debug, thiserror::Error)]
pub enum KeystoneError {
    /// The bundle of certificates, or the address, cannot be used.
    #[error("Keystone at {root} cannot be asked: {why}")]
    Access {
        /// the address of the API
        root: String,
        /// the mistake
        why: String,
    },
    /// The request got no answer.
    #[error("{call} at {root}: {}{}", web, way_out(web))]
    Web {
        /// method and path
        call: String,
        /// the address of the API
        root: String,
        /// the failure
        web: WebError,
    },
    /// A user is not let in.
    #[error(
        "Keystone at {root} does not let in {called} of domain Default{scope}: {status} {message}"
    )]
    Login {
        /// the address of the API
        root: String,
        /// how it is called
        called: String,
        /// scope of the token
        scope: &'static str,
        /// the status of the answer
        status: StatusCode,
        /// Keystone's words
        message: String,
    },
    /// A request is refused.
    #[error("Keystone at {root} refuses {call}: {status} {message}{}", advice(*status))]
    Refused {
        /// method and path
        call: String,
        /// the address of the API
        root: String,
        /// the status of the answer
        status: StatusCode,
        /// Keystone's words
        message: String,
    },
    /// Another service answers.
    #[error(
        "{root} is not the address of a Keystone: {call} is answered by {status}, and not as Keystone does: correct keystone.external.authURL"
    )]
    NotKeystone {
        /// method and path
        call: String,
        /// the address of the API
        root: String,
        /// the status of the answer
        status: StatusCode,
    },
    /// A password that Keystone has just taken opens nothing.
    #[error(
        "Keystone has taken the password of user {user:?} and does not let it in: its account may be locked after many failed attempts, or managed elsewhere (LDAP)"
    )]
    PasswordRefused {
        /// its name
        user: String,
    },
    /// Existing entries in Keystone prevent the registration.
    #[error(transparent)]
    Found(#[from] FoundError),
}

impl KeystoneError {
    /// The same for status, which a user may read who has chosen the address without being allowed
    /// to ask it: nothing that would distinguish one host, port or server from another, and no word
    /// of theirs.
    pub fn without_details(&self) -> String {
        match self {
            Self::Login {
                root,
                called,
                scope,
                status: StatusCode::UNAUTHORIZED,
                ..
            } => {
                format!(
                    "Keystone at {root} does not let in {called} of domain Default{scope}: 401. {IN_LOG}"
                )
            }
            // A login has come before: whoever gave the address has a user there.
            Self::Refused {
                root, call, status, ..
            } => format!(
                "Keystone at {root} refuses {call}: {status}{}. {IN_LOG}",
                advice(*status)
            ),
            Self::Access { .. } | Self::PasswordRefused { .. } | Self::Found(_) => self.to_string(),
            Self::Web { root, .. } | Self::Login { root, .. } | Self::NotKeystone { root, .. } => {
                format!(
                    "Keystone at {root} does not answer as Keystone does: is this the address, and does Keystone run? {IN_LOG}"
                )
            }
        }
    }

    /// Reports whether no Keystone has answered: the failure, and when it comes, says something
    /// about the host.
    pub fn is_about_host(&self) -> bool {
        match self {
            Self::Login { status, .. } => *status != StatusCode::UNAUTHORIZED,
            Self::Web { .. } | Self::NotKeystone { .. } => true,
            Self::Access { .. }
            | Self::Refused { .. }
            | Self::PasswordRefused { .. }
            | Self::Found(_) => false,
        }
    }

    /// How soon another attempt makes sense.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Web {
                web: WebError::Connection(_) | WebError::Timeout,
                ..
            } => FailureClass::Transient,
            Self::Login { status, .. }
            | Self::Refused { status, .. }
            | Self::NotKeystone { status, .. }
                if status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT
                    ) =>
            {
                FailureClass::Transient
            }
            Self::Login { .. } | Self::Refused { .. } | Self::PasswordRefused { .. } => {
                FailureClass::Forbidden
            }
            Self::Access { .. } | Self::Web { .. } | Self::NotKeystone { .. } | Self::Found(_) => {
                FailureClass::Invalid
            }
        }
    }
}

fn way_out(web: &WebError) -> &'static str {
    match web {
        WebError::Certificate(_) => {
            ": put the certificate of who has signed it into the Secret that keystone.external.caBundleSecretName or tls.caBundleSecretName names, \
             under tls-ca-bundle.pem"
        }
        WebError::Connection(_) | WebError::Timeout => {
            ": is this the address, and does Keystone run?"
        }
        WebError::Bundle | WebError::Tls(_) => "",
    }
}

fn advice(status: StatusCode) -> &'static str {
    if status == StatusCode::FORBIDDEN {
        ": the user of keystone.adminSecret needs the role admin on the system (openstack role add --system all --user NAME admin)"
    } else {
        ""
    }
}
