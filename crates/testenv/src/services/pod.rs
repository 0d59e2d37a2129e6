//! A container as the kubelet and its runtime would start it: with the files of its volumes as they
//! are there, and with no more rights than its pod says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container as OfPod, PodSpec, Secret, SecretVolumeSource};

use super::container::Rights;
use super::{Container, Site};

/// Rights that the kubelet gives the group of `fsGroup` on each file of a Secret, whatever its mode
/// (`SetVolumeOwnership` of a read-only volume).
const GROUP_READS: u32 = 0o440;

impl Site {
    /// Has a Secret at hand for containers that mount it.
    ///
    /// # Errors
    /// It has no name, or the disk is full.
    pub fn keep(&self, secret: &Secret) -> Result<()> {
        let folder = self.secret(
            secret
                .metadata
                .name
                .as_deref()
                .context("a Secret without a name")?,
        );
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for (key, ByteString(content)) in secret.data.iter().flatten() {
            fs::write(folder.join(key), content)?;
        }
        Ok(())
    }

    fn secret(&self, name: &str) -> PathBuf {
        self.dir().join("secrets").join(name)
    }

    /// A container of a pod of Placement, with the Secrets that it mounts as [`keep`](Self::keep)
    /// got them, its variables, its user and rights, and its command.
    ///
    /// # Errors
    /// Placement cannot be installed, or the container has no command or mounts something else than
    /// Secrets.
    pub fn container(&self, pod: &PodSpec, container: &OfPod) -> Result<(Container, Vec<String>)> {
        let mut made = Container::placement()?.with_rights(rights(pod, container));
        let volumes = self.volumes(pod)?;
        for mount in container.volume_mounts.iter().flatten() {
            let folder = volumes
                .get(&mount.name)
                .with_context(|| format!("mount {} is of no Secret", mount.name))?;
            let source = folder.join(mount.sub_path.as_deref().unwrap_or_default());
            made = if mount.read_only == Some(true) {
                made.mount_read_only(source, &mount.mount_path)
            } else {
                made.mount(source, &mount.mount_path)
            };
        }
        for variable in container.env.iter().flatten() {
            made = made.env(
                &variable.name,
                variable.value.as_deref().unwrap_or_default(),
            );
        }
        Ok((
            made,
            container
                .command
                .clone()
                .context("the container has no command")?,
        ))
    }

    /// The volumes of a pod by name, each a folder of its own.
    fn volumes(&self, pod: &PodSpec) -> Result<BTreeMap<String, PathBuf>> {
        let root = self.dir().join(format!("volumes-{}", self.number()));
        let group = pod
            .security_context
            .as_ref()
            .and_then(|context| context.fs_group)
            .map(u32::try_from)
            .transpose()?;
        let mut folders = BTreeMap::new();
        for volume in pod.volumes.iter().flatten() {
            let Some(source) = &volume.secret else {
                continue;
            };
            let folder = root.join(&volume.name);
            project(
                &self.secret(source.secret_name.as_deref().unwrap_or_default()),
                source,
                group,
                &folder,
            )
            .with_context(|| format!("volume {}", volume.name))?;
            folders.insert(volume.name.clone(), folder);
        }
        Ok(folders)
    }
}

/// Writes the files of a Secret as the kubelet does: they are root's, and of the group of the pod,
/// which may read them.
fn project(
    secret: &Path,
    source: &SecretVolumeSource,
    group: Option<u32>,
    folder: &Path,
) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    let default_mode = source.default_mode.unwrap_or(0o644);
    let files: Vec<(String, String, i32)> = match &source.items {
        Some(items) => items
            .iter()
            .map(|item| {
                (
                    item.key.clone(),
                    item.path.clone(),
                    item.mode.unwrap_or(default_mode),
                )
            })
            .collect(),
        None => fs::read_dir(secret)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .map(|name: Result<String>| name.map(|name| (name.clone(), name, default_mode)))
            .collect::<Result<_>>()?,
    };
    for (key, path, mode) in files {
        let file = folder.join(path);
        fs::copy(secret.join(&key), &file)
            .with_context(|| format!("{} has no key {key}", secret.display()))?;
        let mode = u32::try_from(mode)? | if group.is_some() { GROUP_READS } else { 0 };
        fs::set_permissions(&file, PermissionsExt::from_mode(mode))?;
        chown(&file, Some(0), group)?;
    }
    Ok(())
}

/// Returns the rights that the security contexts of pod and container result in.
fn rights(pod: &PodSpec, container: &OfPod) -> Rights {
    let of_pod = pod.security_context.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let dropped = own
        .capabilities
        .unwrap_or_default()
        .drop
        .unwrap_or_default();
    Rights {
        user: own.run_as_user.or(of_pod.run_as_user).unwrap_or_default(),
        group: own.run_as_group.or(of_pod.run_as_group),
        groups: of_pod
            .supplemental_groups
            .into_iter()
            .flatten()
            .chain(of_pod.fs_group)
            .collect(),
        gains_none: own.allow_privilege_escalation == Some(false),
        has_no_capabilities: dropped.iter().any(|dropped| dropped == "ALL"),
    }
}
