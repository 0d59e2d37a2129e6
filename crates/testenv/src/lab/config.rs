//! The files of a node, where kubeadm and the packages have them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{pki::Authority, workdir::write_private};

use super::images::PAUSE;
use super::site::Site;

/// Writes them below the node's root folder. `registration` is a further file of the kubelet's
/// configuration, or empty.
pub(crate) fn write(
    root: &Path,
    name: &str,
    cgroup: &str,
    authority: &Authority,
    registration: &str,
) -> Result<()> {
    let file = |path: &str| {
        let path = root.join(path);
        let parent = path.parent().unwrap_or(root);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        anyhow::Ok(path)
    };
    let user = format!("system:node:{name}");
    let client = authority.client(&user, "system:nodes")?;
    write_private(&file("etc/kubernetes/pki/ca.crt")?, &authority.pem())?;
    write_private(
        &file("var/lib/kubelet/pki/kubelet-client-current.pem")?,
        &format!("{}{}", client.certificate, client.key),
    )?;
    write_private(
        &file("etc/kubernetes/kubelet.conf")?,
        &kubelet_conf(&user, &authority.pem()),
    )?;
    write_private(
        &file("var/lib/kubelet/config.yaml")?,
        &kubelet_config(cgroup),
    )?;
    if !registration.is_empty() {
        write_private(
            &file("etc/kubernetes/kubelet.conf.d/registration.conf")?,
            registration,
        )?;
    }
    write_private(&file("etc/containerd/config.toml")?, &containerd_config())?;
    Ok(())
}

/// As kubeadm writes it, with a client certificate that the kubelet would rotate.
fn kubelet_conf(user: &str, ca_pem: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
contexts:
- name: {user}@kubernetes
  context:
    cluster: kubernetes
    user: {user}
current-context: {user}@kubernetes
",
        server = Site::inner_url(),
        ca = STANDARD.encode(ca_pem),
    )
}

/// `KubeletConfiguration`: secured as kubeadm does it.
fn kubelet_config(cgroup: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {{mode: Webhook}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
# Keeps the kubelets of one machine apart.
cgroupRoot: {cgroup}
cgroupsPerQOS: true
enforceNodeAllocatable: []
# Since 1.35 the kubelet refuses cgroup v1 unless told otherwise.
failCgroupV1: false
failSwapOn: false
# The disk is the machine's, and whatever fills it is not this node's to evict.
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 4s
"
    )
}

fn containerd_config() -> String {
    format!(
        r#"version = 3
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE nobody may lower an OOM score.
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "/opt/bin/runc"
  SystemdCgroup = false
"#
    )
}
