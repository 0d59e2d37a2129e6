//! A real Kubernetes control plane on loopback for tests and for the demo, and faults between its
//! clients and its API server.
//!
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok, which plays the nodes:
//! no container runs, pods become Ready by themselves, or get stuck as the test wants. Up in 3 s,
//! gone with its owner, however that ends. Linux only.
//!
//! ```no_run
//! use weft_testenv::{ControlPlane, Pods, Stage, Stuck, proxy::{Fault, Match, Proxy}};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let cluster = ControlPlane::builder()
//!     .nodes(3)
//!     .stage(Stage::stuck(Pods::with_image("missing"), Stuck::ImagePullBackOff))
//!     .start()
//!     .await?;
//! cluster.kubectl(&["create", "serviceaccount", "operator"]).await?;
//!
//! // What runs with this kubeconfig has the rights of the ServiceAccount, and goes through a proxy that loses the
//! // answer to its third write.
//! let proxy = Proxy::start(&cluster).await?;
//! let kubeconfig = cluster.service_account_kubeconfig_via(proxy.url(), "default", "operator").await?;
//! proxy.inject(Match::any().writes().nth(3), Fault::CutAfter);
//! cluster.kubectl_as(&kubeconfig, &["auth", "whoami"], "").await?;
//! assert!(proxy.writes().is_empty(), "a review changes nothing");
//! # Ok(())
//! # }
//! ```

mod audit;
mod backup;
mod builder;
mod client;
mod command;
mod control_plane;
mod definitions;
pub mod health;
pub mod helm;
pub mod host_lab;
mod host_programs;
mod init;
pub mod krew;
pub mod lab;
pub mod namespace;
mod network;
mod nodes;
pub mod olm;
mod open_vswitch;
mod pki;
mod pool;
mod probe;
mod process;
mod program;
mod programs;
pub mod proxy;
mod relay;
mod reset;
pub mod services;
pub mod skips;
mod stages;
mod stored;
pub mod usage;
mod victim;
pub mod wait;
mod workdir;
mod wrong_clock;

pub use audit::AuditEvent;
pub use backup::EtcdSnapshot;
pub use builder::Builder;
pub use client::client_from;
pub use control_plane::{ADMIN, ControlPlane};
pub use definitions::{definition, played};
pub use host_programs::host_program;
pub use pool::Lent;
pub use process::{bound_command, spawn_bound};
pub use programs::{Programs, built, cache, prometheus, variable_of};
pub use stages::{Pods, Stage, Stuck};
pub use stored::StoredKind;
pub use victim::Victim;
pub use wrong_clock::WrongClock;
