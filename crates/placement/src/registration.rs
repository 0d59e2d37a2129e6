//! Entries in Keystone that clients and Placement need: project, user, roles, service, endpoints.
//!
//! Pure: [`Found`] is what Keystone was found to hold, [`next_for_account`], [`next_for_catalogue`]
//! and [`next_to_remove`] say what is to be done about it, one [`Change`] at a time, and
//! [`Found::learn`] takes in the answer. Where nothing is left to do, nothing is written. The
//! names, and the order of a removal, are those of keystone-operator, so what that has registered
//! is found and kept.

mod address;
mod change;
mod permission;
mod task;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;
use weft_api::placement::ENDPOINTS;
use weft_plan::text;

pub use address::{Address, AddressError, Addresses};
pub use change::{Change, Request};
pub use permission::{Ask, NotPermitted, Permission, Permitted, permitted};
pub use task::{Access, Part, Progress, Task};

use crate::{Config, url::encoded};

/// The type of the service, by which clients look for it, and its name.
pub const SERVICE: &str = "placement";
/// The project whose members the users of services are.
pub const PROJECT: &str = "service";
/// The roles of the user in it. Placement's own rules, and those of the services that it asks, need
/// both.
pub const ROLES: [&str; 2] = ["admin", "service"];

/// The wanted registration.
#[derive(Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name of the service's user.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The region of the endpoints. Nothing: Keystone's only one.
    pub region: Option<String>,
    /// The addresses, in the order of [`ENDPOINTS`].
    pub urls: [String; 2],
}

impl Wanted {
    /// Returns the registration that a resource asks for, with the password from its Secret and the
    /// region of its Keystone.
    pub fn of(config: &Config, password: &str, region: Option<&str>) -> Self {
        Self {
            user: config.service_user().to_owned(),
            password: password.to_owned(),
            region: region.map(str::to_owned),
            urls: ENDPOINTS.map(|endpoint| config.endpoint_url(endpoint)),
        }
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("user", &self.user)
            .field("region", &self.region)
            .field("urls", &self.urls)
            .finish_non_exhaustive()
    }
}

/// The existing registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The id of the domain that projects and users are in: that of the user who asks.
    pub domain: String,
    /// The id of the project.
    pub project: Option<String>,
    /// The user.
    pub user: Option<User>,
    /// True if a token was given for the password.
    pub knows_password: bool,
    /// Ids of the roles that there are, by name.
    pub roles: BTreeMap<String, String>,
    /// Ids of the roles that the user has in the project.
    pub granted: BTreeSet<String>,
    /// The service.
    pub service: Option<Service>,
    /// All endpoints of the service, those of other regions included.
    pub endpoints: Vec<Endpoint>,
    /// The region of ours.
    pub region: String,
}

/// A user in Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// its id
    pub id: String,
    /// whether it may log in
    pub enabled: bool,
}

/// A service in Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// its id
    pub id: String,
    /// whether clients see it
    pub enabled: bool,
}

/// An endpoint in Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// its id
    pub id: String,
    /// `internal`, `public` or `admin`
    pub interface: String,
    /// its region
    pub region: String,
    /// address of the endpoint
    pub url: String,
    /// whether clients see it
    pub enabled: bool,
}

/// Why what Keystone holds cannot be brought in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoundError {
    /// There are several where one is meant.
    #[error(
        "Keystone has {count} {what} ({ids}), and one is meant: delete those that nobody uses, for example with openstack {command} delete"
    )]
    Several {
        /// kind of the entries
        what: String,
        /// number of the entries
        count: usize,
        /// ids of the entries
        ids: String,
        /// the command of the client that deletes one
        command: &'static str,
    },
    /// There is no region of this name.
    #[error(
        "spec.keystone.external.region: Keystone has no region {asked:?}, it has {there}: name one of them, or create it with openstack region create"
    )]
    NoSuchRegion {
        /// the name
        asked: String,
        /// those that there are
        there: String,
    },
    /// There is not just one region, and none is named.
    #[error(
        "spec.keystone.external.region is missing: Keystone has {0}: name the one that Placement belongs to"
    )]
    WhichRegion(String),
    /// An answer is not what Keystone says.
    #[error("what Keystone says of its {0} has no id: is this the address of a Keystone?")]
    NoId(&'static str),
}

/// Where something is found: the path below the address of the API, and the field of the answer
/// that has the list.
pub type Query = (String, &'static str);

/// Where the project is found.
pub fn project_query(domain: &str) -> Query {
    (
        format!("/projects?name={PROJECT}&domain_id={}", encoded(domain)),
        "projects",
    )
}

/// Where the user is found.
pub fn user_query(wanted: &Wanted, domain: &str) -> Query {
    (
        format!(
            "/users?name={}&domain_id={}",
            encoded(&wanted.user),
            encoded(domain)
        ),
        "users",
    )
}

/// Where a role is found.
pub fn role_query(role: &str) -> Query {
    (format!("/roles?name={role}"), "roles")
}

/// Where the service is found.
pub fn service_query() -> Query {
    (
        format!("/services?name={SERVICE}&type={SERVICE}"),
        "services",
    )
}

/// Where the endpoints of a service are found.
pub fn endpoint_query(service: &str) -> Query {
    (
        format!("/endpoints?service_id={}", encoded(service)),
        "endpoints",
    )
}

/// Where the roles are found that a user has in a project.
pub fn grant_query(project: &str, user: &str) -> Query {
    (
        format!(
            "/projects/{}/users/{}/roles",
            encoded(project),
            encoded(user)
        ),
        "roles",
    )
}

impl Found {
    /// Takes in the projects of that name.
    ///
    /// # Errors
    /// There are several.
    pub fn projects(&mut self, list: &[Value]) -> Result<(), FoundError> {
        self.project = single(list, "projects named service", "project")?
            .map(|project| id(project, "project"))
            .transpose()?;
        Ok(())
    }

    /// Takes in the users of that name.
    ///
    /// # Errors
    /// There are several.
    pub fn users(&mut self, list: &[Value]) -> Result<(), FoundError> {
        let user = single(list, "users of the same name", "user")?;
        self.user = user
            .map(|user| {
                Ok(User {
                    id: id(user, "user")?,
                    enabled: user["enabled"] != false,
                })
            })
            .transpose()?;
        Ok(())
    }

    /// Takes in the roles of a name.
    ///
    /// # Errors
    /// There are several.
    pub fn roles(&mut self, role: &str, list: &[Value]) -> Result<(), FoundError> {
        if let Some(found) = single(list, "roles of the same name", "role")? {
            self.roles.insert(role.to_owned(), id(found, "role")?);
        }
        Ok(())
    }

    /// Takes in the roles that the user has in the project.
    pub fn grants(&mut self, list: &[Value]) {
        self.granted = list
            .iter()
            .filter_map(|role| role["id"].as_str())
            .map(str::to_owned)
            .collect();
    }

    /// Takes in the services of that name and type.
    ///
    /// # Errors
    /// There are several.
    pub fn services(&mut self, list: &[Value]) -> Result<(), FoundError> {
        let service = single(list, "services of name and type placement", "service")?;
        self.service = service
            .map(|service| {
                Ok(Service {
                    id: id(service, "service")?,
                    enabled: service["enabled"] != false,
                })
            })
            .transpose()?;
        Ok(())
    }

    /// Takes in all endpoints of the service.
    ///
    /// # Errors
    /// One has no id.
    pub fn endpoints(&mut self, list: &[Value]) -> Result<(), FoundError> {
        self.endpoints = list.iter().map(endpoint).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Takes in all regions, and chooses ours.
    ///
    /// # Errors
    /// Ours is not among them, or none is named and there is not just one.
    pub fn regions(&mut self, wanted: &Wanted, list: &[Value]) -> Result<(), FoundError> {
        let ids: Vec<_> = list
            .iter()
            .filter_map(|region| region["id"].as_str())
            .collect();
        let there = if ids.is_empty() {
            "none".to_owned()
        } else {
            ids.join(", ")
        };
        self.region = match (wanted.region.as_deref(), ids.as_slice()) {
            (Some(asked), all) if all.contains(&asked) => asked.to_owned(),
            (Some(asked), _) => {
                return Err(FoundError::NoSuchRegion {
                    asked: asked.to_owned(),
                    there,
                });
            }
            (None, [only]) => (*only).to_owned(),
            (None, _) => return Err(FoundError::WhichRegion(there)),
        };
        Ok(())
    }

    /// Takes in what a change was answered with.
    ///
    /// # Errors
    /// The answer is not Keystone's.
    pub fn learn(&mut self, change: &Change, answer: &Value) -> Result<(), FoundError> {
        match change {
            Change::CreateProject => self.project = Some(id(&answer["project"], "project")?),
            Change::CreateUser { .. } => {
                self.user = Some(User {
                    id: id(&answer["user"], "user")?,
                    enabled: true,
                });
                self.knows_password = true;
            }
            Change::SetPassword { .. } => {
                self.knows_password = true;
                self.user.iter_mut().for_each(|user| user.enabled = true);
            }
            Change::CreateRole(role) => {
                self.roles
                    .insert((*role).to_owned(), id(&answer["role"], "role")?);
            }
            Change::Grant { role, .. } => self.granted.extend(self.roles.get(*role).cloned()),
            Change::CreateService => {
                self.service = Some(Service {
                    id: id(&answer["service"], "service")?,
                    enabled: true,
                })
            }
            Change::EnableService { .. } => self
                .service
                .iter_mut()
                .for_each(|service| service.enabled = true),
            Change::CreateEndpoint { .. } => self.endpoints.push(endpoint(&answer["endpoint"])?),
            Change::ChangeEndpoint { id, to, .. } => {
                for endpoint in self
                    .endpoints
                    .iter_mut()
                    .filter(|endpoint| endpoint.id == *id)
                {
                    (endpoint.url, endpoint.enabled) = (to.clone(), true);
                }
            }
            Change::DeleteEndpoint { id, .. } => {
                self.endpoints.retain(|endpoint| endpoint.id != *id)
            }
            Change::DeleteUser { .. } => self.user = None,
            Change::DeleteService { .. } => self.service = None,
        }
        Ok(())
    }

    /// The endpoints of ours: in our region, of the interfaces that we register.
    fn ours(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter(|endpoint| {
            endpoint.region == self.region && ENDPOINTS.contains(&endpoint.interface.as_str())
        })
    }
}

/// Returns the next step until the service's user can log in with its password and has its roles.
pub fn next_for_account(wanted: &Wanted, found: &Found) -> Option<Change> {
    let Some(project) = &found.project else {
        return Some(Change::CreateProject);
    };
    let Some(user) = &found.user else {
        return Some(Change::CreateUser {
            project: project.clone(),
        });
    };
    if !user.enabled || !found.knows_password {
        return Some(Change::SetPassword {
            user: user.id.clone(),
            name: wanted.user.clone(),
        });
    }
    ROLES.iter().find_map(|role| match found.roles.get(*role) {
        None => Some(Change::CreateRole(role)),
        Some(id) if !found.granted.contains(id) => Some(Change::Grant {
            role,
            id: id.clone(),
            project: project.clone(),
            user: user.id.clone(),
        }),
        Some(_) => None,
    })
}

/// Returns the next step until clients find the service.
///
/// # Errors
/// There are several endpoints where one is meant.
pub fn next_for_catalogue(wanted: &Wanted, found: &Found) -> Result<Option<Change>, FoundError> {
    let Some(service) = &found.service else {
        return Ok(Some(Change::CreateService));
    };
    if !service.enabled {
        return Ok(Some(Change::EnableService {
            service: service.id.clone(),
        }));
    }
    for (interface, url) in ENDPOINTS.into_iter().zip(&wanted.urls) {
        let there: Vec<_> = found
            .ours()
            .filter(|endpoint| endpoint.interface == interface)
            .collect();
        match there.as_slice() {
            [] => {
                let (service, region, url) =
                    (service.id.clone(), found.region.clone(), url.clone());
                return Ok(Some(Change::CreateEndpoint {
                    service,
                    interface,
                    region,
                    url,
                }));
            }
            [one] if one.url != *url || !one.enabled => {
                let (id, from, to) = (one.id.clone(), one.url.clone(), url.clone());
                return Ok(Some(Change::ChangeEndpoint {
                    id,
                    interface,
                    from,
                    to,
                }));
            }
            [_] => {}
            several => {
                let ids = several.iter().map(|endpoint| endpoint.id.as_str());
                let what = format!(
                    "{interface} endpoints of Placement in region {}",
                    found.region
                );
                return Err(FoundError::Several {
                    what,
                    count: several.len(),
                    ids: joined(ids),
                    command: "endpoint",
                });
            }
        }
    }
    Ok(None)
}

/// Returns the next entry to remove. The user and the service serve other regions too, and go with
/// the last endpoint. The project and the roles belong to all services, and stay.
pub fn next_to_remove(wanted: &Wanted, found: &Found) -> Option<Change> {
    if let Some(endpoint) = found.ours().next() {
        return Some(Change::DeleteEndpoint {
            id: endpoint.id.clone(),
            interface: endpoint.interface.clone(),
            url: endpoint.url.clone(),
        });
    }
    if !found.endpoints.is_empty() {
        return None;
    }
    if let Some(user) = &found.user {
        return Some(Change::DeleteUser {
            user: user.id.clone(),
            name: wanted.user.clone(),
        });
    }
    found.service.as_ref().map(|service| Change::DeleteService {
        service: service.id.clone(),
    })
}

fn single<'a>(
    list: &'a [Value],
    what: &str,
    command: &'static str,
) -> Result<Option<&'a Value>, FoundError> {
    match list {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let ids = joined(several.iter().filter_map(|one| one["id"].as_str()));
            Err(FoundError::Several {
                what: what.to_owned(),
                count: several.len(),
                ids,
                command,
            })
        }
    }
}

fn joined<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    ids.collect::<Vec<_>>().join(", ")
}

fn id(object: &Value, what: &'static str) -> Result<String, FoundError> {
    object["id"]
        .as_str()
        .map(str::to_owned)
        .ok_or(FoundError::NoId(what))
}

fn endpoint(object: &Value) -> Result<Endpoint, FoundError> {
    let (interface, url) = (text(object, "interface"), text(object, "url"));
    // `region` is what it was called in the second version of the API.
    let region = if object["region_id"].is_string() {
        text(object, "region_id")
    } else {
        text(object, "region")
    };
    Ok(Endpoint {
        id: id(object, "endpoints")?,
        interface: interface.to_owned(),
        region: region.to_owned(),
        url: url.to_owned(),
        enabled: object["enabled"] != false,
    })
}
