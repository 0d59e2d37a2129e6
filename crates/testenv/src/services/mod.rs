//! The real services behind the placement domain: OpenStack Placement and Keystone from PyPI,
//! MariaDB and Apache from Debian.
//!
//! They run in a [`Site`]: namespaces of their own with nothing but loopback, so each has the port
//! that it has in a cluster, and names of Services lead there. A [`Container`] runs the program of
//! a pod with the pod's mounts, environment and command, on the files that Weft wrote. Needs root.
//! Nothing of this machine is touched, no service of it is started, and all of it ends with its
//! owner.
//!
//! ```no_run
//! use weft_testenv::services::{Container, MariaDb, Placement, Site};
//!
//! # async fn test(config: &std::path::Path) -> anyhow::Result<()> {
//! let site = Site::start(&["openstack.default.svc"])?;
//! let database = MariaDb::start(&site).await?;
//! database.create("placement", "placement", "p@ss/w$rd").await?;
//! let container = Container::placement()?.mount(config, "/etc/placement");
//! site.run(&container, &["placement-manage", "db", "sync"]).await?;
//! let placement = Placement::start(&site, &container, &["httpd", "-DFOREGROUND"]).await?;
//! let (status, _) = placement.get("/", &[]).await?;
//! assert_eq!(status, 200);
//! # Ok(())
//! # }
//! ```

mod conformance;
mod container;
mod gate;
mod keystone;
mod mariadb;
mod placement;
mod pod;
mod site;

pub use crate::command::Output;
pub use conformance::{Conformance, Policy, Tally};
pub use container::Container;
pub use gate::Gate;
pub use keystone::Keystone;
pub use mariadb::{MariaDb, PORT as DATABASE_PORT};
pub use placement::Placement;
pub use site::Site;

use std::path::Path;

use anyhow::Result;

use crate::{
    host_programs::layers,
    probe::{in_namespaces, no_namespaces},
    programs::folder_from_script,
};

/// Returns the reasons why the services cannot run here. The list is empty if they can.
pub fn missing() -> Vec<String> {
    if let Some(reason) = no_namespaces() {
        return vec![reason];
    }
    let mut missing = vec![];
    if !in_namespaces(
        "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w overlay /mnt/r",
    ) {
        missing.push("the kernel lays no overlay over /".into());
    }
    if let Err(error) = usr() {
        missing.push(format!("{error:#}"));
    }
    missing
}

/// The folders that `/usr` of a site and of its containers shows, as the option `lowerdir` of an
/// overlay has them. They hold MariaDB, Apache, Python and curl, which `scripts/services` fetches
/// if need be.
fn usr() -> Result<String> {
    let unpacked = folder_from_script("services", &["packages"])?;
    Ok(layers([unpacked.as_path(), Path::new("/")].into_iter()))
}
