//! A backup of etcd and its restoration, with etcd's own tools and by the procedure that etcd and
//! Kubernetes document: revisions go back in time, and all programs of the control plane are
//! started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};

use crate::{
    audit,
    command::{Input, output},
    control_plane::{ControlPlane, Etcd, wait_ready},
    process::Process,
    workdir::SNAPSHOTS,
};

/// How many requests of [`ControlPlane::spend_revisions`] are under way at the same time.
const AT_ONCE: usize = 16;

/// Everything that etcd held at one moment. The file goes with the control plane.
#[derive(Clone, Debug)]
pub struct EtcdSnapshot {
    file: PathBuf,
    revision: u64,
}

impl EtcdSnapshot {
    /// The least resourceVersion of the cluster when this was saved.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl ControlPlane {
    /// The resourceVersion of the cluster as it is now, which is etcd's revision.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn revision(&self) -> Result<u64> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), "default");
        let list = maps.list_metadata(&ListParams::default().limit(1)).await?;
        Ok(list
            .metadata
            .resource_version
            .context("a list has no resourceVersion")?
            .parse()?)
    }

    /// Raises the cluster's resourceVersion by at least this count, and leaves everything as it is:
    /// each ConfigMap that it creates, it deletes.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn spend_revisions(&self, count: usize) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), "default");
        let spend = |number: usize| {
            let maps = maps.clone();
            async move {
                let name = format!("spent-revision-{number}");
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        ..Default::default()
                    },
                    ..Default::default()
                };
                maps.create(&PostParams::default(), &map).await?;
                maps.delete(&name, &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        };
        stream::iter(0..count.div_ceil(2))
            .map(spend)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Saves what etcd holds, by `etcdctl snapshot save`. [`restore`](Self::restore) brings it
    /// back.
    ///
    /// # Errors
    /// The control plane has real nodes, the tools cannot be built, or etcdctl failed: the error
    /// holds its stderr.
    pub async fn snapshot(&self) -> Result<EtcdSnapshot> {
        let etcd = self.reachable_etcd()?;
        let revision = self.revision().await?;
        let folder = self.dir().join(SNAPSHOTS);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let file = folder.join(format!("{revision}.db"));
        let arguments = [
            format!("--endpoints=http://127.0.0.1:{}", etcd.port),
            "snapshot".into(),
            "save".into(),
            path(&file),
        ];
        self.run_etcd_tool("etcdctl", &arguments).await?;
        Ok(EtcdSnapshot { file, revision })
    }

    /// Brings back what etcd held when the snapshot was saved: ends all programs, replaces etcd's
    /// data by `etcdutl snapshot restore`, and starts them again on the same ports, with the same
    /// certificates and keys. The cluster's resourceVersion goes back to that of the snapshot
    /// (there is no `--bump-revision`). Returns when the API server is ready again and all nodes
    /// are Ready. Tokens stay valid if their ServiceAccount is in the snapshot.
    ///
    /// # Errors
    /// The control plane has real nodes, etcdutl failed (the error holds its stderr), or a program
    /// ended or is not ready within two minutes (the error shows the end of its log).
    pub async fn restore(&self, snapshot: &EtcdSnapshot) -> Result<()> {
        let etcd = self.reachable_etcd()?;
        let _one_at_a_time = self.restart.lock().await;
        self.is_altered.store(true, Ordering::Relaxed);
        let had_kwok = self.lock_kwok().take().is_some();
        let mut processes = std::mem::take(&mut *self.lock_processes());
        let restored = self.restore_under(&mut processes, etcd, snapshot).await;
        let has_controllers = processes.len() > 2;
        *self.lock_processes() = processes;
        restored?;
        if had_kwok {
            self.start_kwok(true).await?;
        }
        if has_controllers {
            self.wait_until_usable().await
        } else {
            Ok(())
        }
    }

    async fn restore_under(
        &self,
        processes: &mut [Process],
        etcd: &Etcd,
        snapshot: &EtcdSnapshot,
    ) -> Result<()> {
        // The last one first: without etcd the API server would go on trying.
        processes.iter_mut().rev().for_each(Process::stop);
        audit::end_with_whole_line(&self.dir().join("audit.log"))?;
        let data = self.dir().join("etcd");
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        let arguments = [
            "snapshot".into(),
            "restore".into(),
            path(&snapshot.file),
            format!("--data-dir={}", path(&data)),
            format!("--initial-cluster=default={}", etcd.peer_url),
            format!("--initial-advertise-peer-urls={}", etcd.peer_url),
        ];
        self.run_etcd_tool("etcdutl", &arguments).await?;
        let [server_of_data, api_server, others @ ..] = processes else {
            bail!("etcd and kube-apiserver do not run")
        };
        server_of_data.start_again()?;
        server_of_data.wait_listening(etcd.port).await?;
        api_server.start_again()?;
        api_server.wait_listening(etcd.api_server_port).await?;
        wait_ready(&self.client, api_server).await?;
        others.iter_mut().try_for_each(Process::start_again)
    }

    pub(crate) fn reachable_etcd(&self) -> Result<&Etcd> {
        self.etcd
            .as_ref()
            .context("the etcd of a control plane with real nodes is in a network namespace: save and restore one with kwok nodes")
    }

    async fn run_etcd_tool(&self, name: &'static str, arguments: &[String]) -> Result<()> {
        let programs = self.programs().clone();
        let program = tokio::task::spawn_blocking(move || programs.etcd_tool(name)).await??;
        let mut command = Command::new(program);
        command.args(arguments);
        let output = output(command, Input::Text("")).await?;
        output
            .success(&format!("{name} {}", arguments.join(" ")))
            .map(drop)
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
