//! The pods: the Job that prepares the database, and the Deployment.

use k8s_openapi::{
    api::core::v1::{
        EnvVar, ExecAction, HTTPGetAction, KeyToPath, PodSpec, Probe, ResourceRequirements,
        SecretVolumeSource, Volume, VolumeMount,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::{Value, json};
use weft_api::placement::{ENDPOINTS, POLICY_FILE, ProbeOverride};
use weft_operands::{
    pod::{POD_SPEC, Workload, containers},
    problems::given,
};
use weft_plan::{Manifest, ManifestError, Mode};

use super::{BuildError, account, config_data_name, digest, input_hash, named, read};
use crate::{
    Config, Inputs,
    files::{CA_BUNDLE, KEYSTONE_CA_BUNDLE, PORT},
    networks::{self, NETWORKS},
};

/// The variable of the containers whose change replaces the pods.
pub const CONFIG_HASH: &str = "CONFIG_HASH";
/// The annotation of the Job that differs between Jobs of different images and databases.
pub const JOB_HASH: &str = "hash";

/// The Job that brings the database to the release of the image. Its annotation [`JOB_HASH`] says
/// what it does and to which database: where there is one with this annotation, this is done, or
/// being done. A Job is made once, never changed.
///
/// # Errors
/// A defect of Weft.
pub fn preparation(config: &Config, inputs: &Inputs) -> Result<Manifest, BuildError> {
    let base = one(
        "job.yaml",
        read(
            include_str!("../../../../components/placement/job.yaml"),
            config,
        )?,
    )?;
    let mut job = named(&base, &format!("{}-db-sync", config.name), config)?;
    job.edit_pods(|pod| {
        common(pod, config, inputs);
        Ok::<_, String>(())
    })?;
    job.set_pod_annotation(
        NETWORKS,
        &networks::wanted(&config.namespace, &inputs.networks),
    );
    let hash = digest(
        &json!({"pod": job.body().pointer(POD_SPEC), "database": inputs.database.identity()}),
    );
    // How much it may take for that makes no other Job of it.
    job.edit_pods(|pod| {
        limit(pod, config);
        Ok::<_, String>(())
    })?;
    let mut body = job.body().clone();
    body["metadata"]["annotations"][JOB_HASH] = hash.into();
    if config.spec().preserve_jobs == Some(true) {
        body["spec"]["ttlSecondsAfterFinished"] = Value::Null;
    }
    Ok(Manifest::new(body)?.with_mode(Mode::CreateOnly))
}

/// The Deployment.
///
/// # Errors
/// A value cannot be written into a file.
pub fn deployment(config: &Config, inputs: &Inputs) -> Result<Manifest, BuildError> {
    let base = one(
        "deployment.yaml",
        read(
            include_str!("../../../../components/placement/deployment.yaml"),
            config,
        )?,
    )?;
    let mut body = named(&base, &config.name, config)?.body().clone();
    body["spec"]["replicas"] = config.replicas().into();
    body["spec"]["selector"]["matchLabels"] = json!(config.labels());
    body["spec"]["template"]["metadata"]["labels"] = json!(config.labels());
    place(&mut body["spec"]["template"]["spec"], config, inputs);
    let mut deployment = Manifest::new(body)?;
    let hash = input_hash(config, inputs)?;
    deployment.edit_pods(|pod| {
        common(pod, config, inputs);
        limit(pod, config);
        serve(pod, config, &hash);
        Ok::<_, String>(())
    })?;
    deployment.set_pod_annotation(
        NETWORKS,
        &networks::wanted(&config.namespace, &inputs.networks),
    );
    Ok(deployment)
}

/// The one object of a file.
fn one(file: &str, objects: Vec<Manifest>) -> Result<Manifest, ManifestError> {
    let missing = || ManifestError::Yaml(format!("{file} holds no object"));
    objects.into_iter().next().ok_or_else(missing)
}

/// A Topology takes the place of the usual preference for different nodes as a whole.
fn place(pod: &mut Value, config: &Config, inputs: &Inputs) {
    let Some(topology) = &inputs.topology else {
        return;
    };
    pod["affinity"] = topology["affinity"].clone();
    let mut constraints = topology["topologySpreadConstraints"].clone();
    for constraint in constraints.as_array_mut().into_iter().flatten() {
        if constraint.get("labelSelector").is_none_or(Value::is_null) {
            constraint["labelSelector"] = json!({"matchLabels": config.labels()});
        }
    }
    pod["topologySpreadConstraints"] = constraints;
}

/// Sets the parts that all pods have.
fn common(pod: &mut PodSpec, config: &Config, inputs: &Inputs) {
    let spec = config.spec();
    pod.service_account_name = Some(account(config));
    pod.node_selector = spec
        .node_selector
        .clone()
        .filter(|labels| !labels.is_empty());
    let image = given(&spec.container_image)
        .unwrap_or(&inputs.default_image)
        .to_owned();
    let mut mounts = Vec::new();
    if spec
        .default_config_overwrite
        .as_ref()
        .is_some_and(|files| files.contains_key(POLICY_FILE))
    {
        mounts.push(mount(
            "config-data",
            "/etc/placement/policy.yaml",
            POLICY_FILE,
        ));
    }
    let volumes = pod.volumes.get_or_insert_default();
    for volume in volumes.iter_mut() {
        if let Some(secret) = &mut volume.secret {
            secret.secret_name = Some(config_data_name(config));
        }
    }
    let bundles = [
        ("combined-ca-bundle", config.ca_bundle(), CA_BUNDLE),
        (
            "keystone-ca-bundle",
            config.keystone_ca_bundle(),
            KEYSTONE_CA_BUNDLE,
        ),
    ];
    for (name, secret, path) in bundles {
        if let Some(secret) = secret {
            volumes.push(secret_volume(name, secret, 0o444, &["tls-ca-bundle.pem"]));
            mounts.push(mount(name, path, "tls-ca-bundle.pem"));
        }
    }
    for container in containers(pod) {
        container.name = format!("{}-{}", config.name, container.name);
        container.image = Some(image.clone());
        container
            .volume_mounts
            .get_or_insert_default()
            .extend(mounts.iter().cloned());
    }
}

/// Sets requests and limits of the containers.
fn limit(pod: &mut PodSpec, config: &Config) {
    containers(pod).for_each(|container| container.resources = resources(config));
}

/// Sets the further parts of the pods that answer requests.
fn serve(pod: &mut PodSpec, config: &Config, hash: &str) {
    let mut mounts = Vec::new();
    for (endpoint, secret) in ENDPOINTS
        .iter()
        .zip(config.certificates().into_iter().flatten())
    {
        let name = format!("{endpoint}-tls-certs");
        pod.volumes.get_or_insert_default().push(secret_volume(
            &name,
            secret,
            0o440,
            &["tls.crt", "tls.key"],
        ));
        mounts.push(mount(
            &name,
            &format!("/etc/pki/tls/certs/{endpoint}.crt"),
            "tls.crt",
        ));
        mounts.push(mount(
            &name,
            &format!("/etc/pki/tls/private/{endpoint}.key"),
            "tls.key",
        ));
    }
    let probes = config
        .spec()
        .override_
        .as_ref()
        .and_then(|changes| changes.probes.clone())
        .unwrap_or_default();
    // As long as a request may take, a pod may be silent: a busy one is neither taken out nor
    // started again at once.
    let share = |tenths: i64| i32::try_from(config.api_timeout() * tenths / 10).unwrap_or(i32::MAX);
    for container in &mut pod.containers {
        container.env = Some(vec![EnvVar {
            name: CONFIG_HASH.to_owned(),
            value: Some(hash.to_owned()),
            value_from: None,
        }]);
        container
            .volume_mounts
            .get_or_insert_default()
            .extend(mounts.iter().cloned());
        container.liveness_probe =
            Some(probe(config, probes.liveness_probes.as_ref(), share(5), 10));
        container.readiness_probe =
            Some(probe(config, probes.readiness_probes.as_ref(), share(3), 3));
        container.startup_probe = probes
            .startup_probes
            .as_ref()
            .map(|changed| probe(config, Some(changed), share(3), 10));
    }
}

/// A probe with what is changed of it.
fn probe(config: &Config, changed: Option<&ProbeOverride>, seconds: i32, failures: i32) -> Probe {
    let none = ProbeOverride::default();
    let changed = changed.unwrap_or(&none);
    let scheme = if config.certificates().is_some() {
        "HTTPS"
    } else {
        "HTTP"
    };
    let mut probe = Probe {
        initial_delay_seconds: Some(changed.initial_delay_seconds.unwrap_or(5)),
        timeout_seconds: Some(changed.timeout_seconds.unwrap_or(seconds)),
        period_seconds: Some(changed.period_seconds.unwrap_or(seconds)),
        failure_threshold: Some(changed.failure_threshold.unwrap_or(failures)),
        ..Probe::default()
    };
    if given(&changed.type_) == Some("Exec") {
        probe.exec = Some(ExecAction {
            command: changed.command.clone(),
        });
    } else {
        probe.http_get = Some(HTTPGetAction {
            path: Some(given(&changed.path).unwrap_or("/").to_owned()),
            port: IntOrString::Int(changed.port.unwrap_or(PORT.into())),
            scheme: Some(given(&changed.scheme).unwrap_or(scheme).to_owned()),
            ..HTTPGetAction::default()
        });
    }
    probe
}

fn resources(config: &Config) -> Option<ResourceRequirements> {
    // The forms are the same. A number of the resource has become a text.
    config
        .spec()
        .resources
        .as_ref()
        .and_then(|resources| serde_json::from_value(json!(resources)).ok())
}

fn mount(volume: &str, path: &str, file: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        sub_path: Some(file.to_owned()),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

fn secret_volume(name: &str, secret: &str, mode: i32, keys: &[&str]) -> Volume {
    let items = keys.iter().map(|key| KeyToPath {
        key: (*key).to_owned(),
        path: (*key).to_owned(),
        mode: None,
    });
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        default_mode: Some(mode),
        items: Some(items.collect()),
        ..SecretVolumeSource::default()
    };
    Volume {
        name: name.to_owned(),
        secret: Some(source),
        ..Volume::default()
    }
}
