//! The content of a container, as its pod defines it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::programs::folder_from_script;

/// An image, mounts, environment and rights. Programs in the container write to a copy of their
/// own, and to the mounts.
#[derive(Clone, Debug)]
pub struct Container {
    mounts: Vec<Mount>,
    environment: Vec<(String, String)>,
    rights: Rights,
}

#[derive(Clone, Debug)]
struct Mount {
    source: PathBuf,
    target: String,
    read_only: bool,
}

/// Whom its processes run as, and what they may. By default root, with all that root may.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    /// The number of the user.
    pub(super) user: i64,
    /// The group, if it differs from the image's group for the user.
    pub(super) group: Option<i64>,
    /// Those of its further groups.
    pub(super) groups: Vec<i64>,
    /// True if no program that it starts has more rights than itself, as `sudo` would.
    pub(super) gains_none: bool,
    /// True if it has no capability, and never gets one.
    pub(super) has_no_capabilities: bool,
}

impl Container {
    /// Of OpenStack Placement: `/usr/bin/placement-manage`, `placement-status`, `placement-api`,
    /// Apache as `/usr/sbin/httpd`, `kolla_start`. It is installed first if need be.
    ///
    /// # Errors
    /// The installation failed.
    pub fn placement() -> Result<Self> {
        Self::of("placement")
    }

    /// Of OpenStack Keystone.
    ///
    /// # Errors
    /// The installation failed.
    pub(super) fn keystone() -> Result<Self> {
        Self::of("keystone")
    }

    fn of(service: &str) -> Result<Self> {
        let folder = folder_from_script("services", &[service])?;
        let image = Mount {
            source: folder,
            target: format!("/opt/{service}"),
            read_only: false,
        };
        Ok(Self {
            mounts: vec![image],
            environment: vec![],
            rights: Rights::default(),
        })
    }

    /// Mounts a file or folder of this machine at an absolute path, which is made if need be.
    #[must_use]
    pub fn mount(mut self, source: impl AsRef<Path>, target: &str) -> Self {
        self.mounts.push(Mount {
            source: source.as_ref().to_owned(),
            target: target.to_owned(),
            read_only: false,
        });
        self
    }

    /// The same for reading alone.
    #[must_use]
    pub(super) fn mount_read_only(mut self, source: impl AsRef<Path>, target: &str) -> Self {
        self.mounts.push(Mount {
            source: source.as_ref().to_owned(),
            target: target.to_owned(),
            read_only: true,
        });
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub(super) fn with_rights(mut self, rights: Rights) -> Self {
        self.rights = rights;
        self
    }

    /// The mounts as `container.sh` reads them.
    pub(super) fn mounts(&self) -> String {
        self.mounts.iter().fold(
            String::new(),
            |mut text,
             Mount {
                 source,
                 target,
                 read_only,
             }| {
                let mode = if *read_only { "ro" } else { "rw" };
                let _ = writeln!(text, "{target}\t{}\t{mode}", source.display());
                text
            },
        )
    }

    /// Whom its output belongs to.
    pub(super) fn user(&self) -> i64 {
        self.rights.user
    }

    /// The command that takes rights away from the one that follows it (`setpriv(1)`).
    pub(super) fn restricted(&self) -> Vec<String> {
        let Rights {
            user,
            group,
            groups,
            gains_none,
            has_no_capabilities,
        } = &self.rights;
        // In the images each user has a group of the same number.
        let mut words = vec![
            "setpriv".into(),
            format!("--reuid={user}"),
            format!("--regid={}", group.unwrap_or(*user)),
        ];
        let groups: Vec<_> = groups.iter().map(i64::to_string).collect();
        words.push(if groups.is_empty() {
            "--clear-groups".into()
        } else {
            format!("--groups={}", groups.join(","))
        });
        if *has_no_capabilities {
            words.extend([
                "--inh-caps=-all".into(),
                "--ambient-caps=-all".into(),
                "--bounding-set=-all".into(),
            ]);
        }
        if *gains_none {
            words.push("--no-new-privs".into());
        }
        words.push("--".into());
        words
    }

    pub(super) fn environment(&self) -> impl Iterator<Item = String> {
        self.environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
    }
}
