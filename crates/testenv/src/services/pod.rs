//! A container as the kubelet would start it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container as OfPod, PodSpec, Secret};

use super::{Container, Site};

impl Site {
    /// Has a Secret at hand for containers that mount it.
    ///
    /// # Errors
    /// It has no name, or the disk is full.
    pub fn keep(&self, secret: &Secret) -> Result<()> {
        let folder = self.secret(secret.metadata.name.as_deref().context("a Secret without a name")?);
        fs::create_dir_all(&folder)?;
        for (key, ByteString(content)) in secret.data.iter().flatten() {
            fs::write(folder.join(key), content)?;
        }
        Ok(())
    }

    fn secret(&self, name: &str) -> PathBuf {
        self.dir().join("secrets").join(name)
    }

    /// A container of a pod of Placement, with the Secrets that it mounts as [`keep`](Self::keep) got them, its variables, and its command.
    ///
    /// # Errors
    /// Placement cannot be installed, or the container has no command or mounts something else than Secrets.
    pub fn container(&self, pod: &PodSpec, container: &OfPod) -> Result<(Container, Vec<String>)> {
        let mut made = Container::placement()?;
        for mount in container.volume_mounts.iter().flatten() {
            let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name);
            let secret = volume.and_then(|volume| volume.secret.as_ref()).and_then(|source| source.secret_name.as_deref());
            let folder = self.secret(secret.with_context(|| format!("mount {} is of no Secret", mount.name))?);
            made = made.mount(folder.join(mount.sub_path.as_deref().unwrap_or_default()), &mount.mount_path);
        }
        for variable in container.env.iter().flatten() {
            made = made.env(&variable.name, variable.value.as_deref().unwrap_or_default());
        }
        Ok((made, container.command.clone().context("the container has no command")?))
    }
}
