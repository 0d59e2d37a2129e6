//! One change in Keystone: the request that makes it, and its text in messages.

use std::fmt;

use serde_json::{Value, json};

use super::{Found, PROJECT, SERVICE, Wanted};
use crate::url::encoded;

/// A change in Keystone. It holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The project of all services.
    CreateProject,
    /// The service's user, with its password.
    CreateUser {
        /// the id of its project
        project: String,
    },
    /// The user may log in, with the password that is wanted.
    SetPassword {
        /// the id of the user
        user: String,
        /// its name
        name: String,
    },
    /// A role that there is in every Keystone but one that was set up by hand.
    CreateRole(&'static str),
    /// A role in the project.
    Grant {
        /// its name
        role: &'static str,
        /// its id
        id: String,
        /// the id of the project
        project: String,
        /// the id of the user
        user: String,
    },
    /// The service.
    CreateService,
    /// Clients see the service.
    EnableService {
        /// its id
        service: String,
    },
    /// An endpoint.
    CreateEndpoint {
        /// the id of the service
        service: String,
        /// `internal` or `public`
        interface: &'static str,
        /// its region
        region: String,
        /// address after the change
        url: String,
    },
    /// Where an endpoint leads.
    ChangeEndpoint {
        /// its id
        id: String,
        /// `internal` or `public`
        interface: &'static str,
        /// address before the change
        from: String,
        /// address after the change
        to: String,
    },
    /// An endpoint goes.
    DeleteEndpoint {
        /// its id
        id: String,
        /// `internal` or `public`
        interface: String,
        /// address before the change
        url: String,
    },
    /// The user goes.
    DeleteUser {
        /// its id
        user: String,
        /// its name
        name: String,
    },
    /// The service goes.
    DeleteService {
        /// its id
        service: String,
    },
}

/// A request to Keystone.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// the method of HTTP
    pub method: &'static str,
    /// the path below the address of the API
    pub path: String,
    /// what is sent. A password may be in it: it is never shown.
    pub body: Option<Value>,
}

impl Change {
    /// The request that makes it.
    pub fn request(&self, wanted: &Wanted, found: &Found) -> Request {
        let post = |path: &str, body: Value| Request {
            method: "POST",
            path: path.to_owned(),
            body: Some(body),
        };
        let patch = |kind: &str, id: &str, body: Value| Request {
            method: "PATCH",
            path: below(kind, id),
            body: Some(body),
        };
        let delete = |kind: &str, id: &str| Request {
            method: "DELETE",
            path: below(kind, id),
            body: None,
        };
        match self {
            Self::CreateProject => post(
                "/projects",
                json!({"project": {"name": PROJECT, "domain_id": found.domain}}),
            ),
            Self::CreateUser { project } => post(
                "/users",
                json!({
                    "user": {
                        "name": wanted.user, "domain_id": found.domain, "password": wanted.password,
                        "default_project_id": project
                    }
                }),
            ),
            Self::SetPassword { user, .. } => patch(
                "users",
                user,
                json!({"user": {"password": wanted.password, "enabled": true}}),
            ),
            Self::CreateRole(role) => post("/roles", json!({"role": {"name": role}})),
            Self::Grant {
                id, project, user, ..
            } => {
                let path = format!(
                    "/projects/{}/users/{}/roles/{}",
                    encoded(project),
                    encoded(user),
                    encoded(id)
                );
                Request {
                    method: "PUT",
                    path,
                    body: None,
                }
            }
            Self::CreateService => {
                let service = json!({
                    "name": SERVICE, "type": SERVICE, "description": "Placement Service",
                    "enabled": true
                });
                post("/services", json!({"service": service}))
            }
            Self::EnableService { service } => {
                patch("services", service, json!({"service": {"enabled": true}}))
            }
            Self::CreateEndpoint {
                service,
                interface,
                region,
                url,
            } => {
                let endpoint = json!({
                    "service_id": service, "interface": interface, "region_id": region, "url": url,
                    "enabled": true
                });
                post("/endpoints", json!({"endpoint": endpoint}))
            }
            Self::ChangeEndpoint { id, to, .. } => patch(
                "endpoints",
                id,
                json!({"endpoint": {"url": to, "enabled": true}}),
            ),
            Self::DeleteEndpoint { id, .. } => delete("endpoints", id),
            Self::DeleteUser { user, .. } => delete("users", user),
            Self::DeleteService { service } => delete("services", service),
        }
    }
}

fn below(kind: &str, id: &str) -> String {
    format!("/{kind}/{}", encoded(id))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateProject => write!(f, "project {PROJECT} created"),
            Self::CreateUser { .. } => f.write_str("the service's user created"),
            Self::SetPassword { name, .. } => write!(f, "password of user {name} changed"),
            Self::CreateRole(role) => write!(f, "role {role} created"),
            Self::Grant { role, .. } => write!(f, "role {role} in project {PROJECT} given"),
            Self::CreateService => write!(f, "service {SERVICE} created"),
            Self::EnableService { .. } => write!(f, "service {SERVICE} enabled"),
            Self::CreateEndpoint {
                interface,
                region,
                url,
                ..
            } => write!(f, "{interface} endpoint {url} in region {region} created"),
            Self::ChangeEndpoint {
                interface,
                from,
                to,
                ..
            } if from == to => write!(f, "{interface} endpoint {to} enabled"),
            Self::ChangeEndpoint {
                interface,
                from,
                to,
                ..
            } => write!(f, "{interface} endpoint changed from {from} to {to}"),
            Self::DeleteEndpoint { interface, url, .. } => {
                write!(f, "{interface} endpoint {url} deleted")
            }
            Self::DeleteUser { name, .. } => write!(f, "user {name} deleted"),
            Self::DeleteService { .. } => write!(f, "service {SERVICE} deleted"),
        }
    }
}
