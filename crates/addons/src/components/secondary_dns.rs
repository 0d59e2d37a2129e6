//! DNS for the secondary interfaces of virtual machines.

use serde_json::{Map, Value};
use weft_operands::pod::CONFIG_HASH;
use weft_plan::{Facts, Manifest, ManifestError, ObjectKey, kinds};

use crate::{Image, Settings, components::kubevirt, overlay::Overlay, validate::SecondaryDns};

const FILES: [&str; 3] = [
    include_str!("../../../../components/secondary-dns/rbac.yaml"),
    include_str!("../../../../components/secondary-dns/config.yaml"),
    include_str!("../../../../components/secondary-dns/deployment.yaml"),
];

/// The name of the port of the status monitor in the pod template, and its uses.
const PORT_OF_MONITOR: [&str; 3] = [
    "/spec/containers/1/ports/0/name",
    "/spec/containers/1/livenessProbe/httpGet/port",
    "/spec/containers/1/readinessProbe/httpGet/port",
];

pub(crate) fn objects(
    overlay: &Overlay<'_>,
    dns: &SecondaryDns,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::CONFIG_MAP)
    {
        object.edit("/data", |data: &mut Map<String, Value>| {
            // Empty, not absent: the pods name both keys.
            data.insert(
                "DOMAIN".into(),
                dns.domain.clone().unwrap_or_default().into(),
            );
            data.insert(
                "NAME_SERVER_IP".into(),
                dns.name_server_ip
                    .map(|ip| ip.to_string())
                    .unwrap_or_default()
                    .into(),
            );
            Ok::<_, String>(())
        })?;
    }
    // The pods of the original have read the configuration that the manifest holds: without a hash
    // of it, they need no restart when Weft takes over.
    let is_default = dns.domain.is_none() && dns.name_server_ip.is_none();
    let config = objects
        .iter()
        .find(|object| object.key().kind == kinds::CONFIG_MAP)
        .filter(|_| !is_default)
        .map(Manifest::hash);
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DEPLOYMENT)
    {
        let images = [
            ("secondary-dns", Image::CoreDns),
            ("status-monitor", Image::KubeSecondaryDns),
        ];
        overlay.workload(object, &images, &overlay.effective.infra)?;
        overlay.without_user(object)?;
        // The original has given two ports of the pod one name.
        for port in PORT_OF_MONITOR {
            object.accept(port, "healthport".into());
        }
        if let Some(hash) = &config {
            object.set_pod_annotation(CONFIG_HASH, hash);
        }
    }
    Ok(objects)
}

/// Returns the missing part of KubeVirt: the status monitor watches running virtual machines.
pub(crate) fn lacks(settings: &Settings, facts: &Facts) -> Option<(ObjectKey, String)> {
    let message = kubevirt::lacks(facts, &[kubevirt::INSTANCES], "kubeSecondaryDNS")?;
    let deployment = ObjectKey::new(kinds::DEPLOYMENT, &settings.namespace, "secondary-dns");
    Some((deployment, message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use weft_plan::Facts;

    use crate::{
        components::kubevirt,
        testing::{decide, decide_knowing, decide_on_openshift, object, resource},
    };

    fn data(dns: Value) -> Value {
        object(
            &decide(&resource(json!({"kubeSecondaryDNS": dns}))),
            "ConfigMap",
            "secondary-dns",
        )["data"]
            .clone()
    }

    #[test]
    fn domain_and_name_server_are_values_and_nothing_but() {
        let empty = data(json!({}));
        assert_eq!(
            (&empty["DOMAIN"], &empty["NAME_SERVER_IP"]),
            (&json!(""), &json!("")),
            "both keys are there: the pods name them"
        );
        // "1e3" and "true" would be no text if they were written into YAML as they are.
        for domain in ["secondary.example.com", "1e3", "true"] {
            let mut expected = empty.clone();
            expected["DOMAIN"] = domain.into();
            expected["NAME_SERVER_IP"] = "192.0.2.53".into();
            assert_eq!(
                data(json!({"domain": domain, "nameServerIP": "192.0.2.53"})),
                expected
            );
        }
    }

    #[test]
    fn the_pods_roll_when_the_config_changes_and_not_when_weft_takes_over() {
        let hash = |dns: Value| {
            let decision = decide(&resource(json!({"kubeSecondaryDNS": dns})));
            object(&decision, "Deployment", "secondary-dns")["spec"]["template"]["metadata"]["annotations"]["weft.network/config-hash"]
                .clone()
        };
        assert_eq!(hash(json!({})), Value::Null);
        let before = hash(json!({"domain": "a.example"}));
        assert!(before.is_string());
        assert_eq!(hash(json!({"domain": "a.example"})), before);
        assert_ne!(hash(json!({"domain": "b.example"})), before);
        assert_ne!(
            hash(json!({"domain": "a.example", "nameServerIP": "192.0.2.53"})),
            before
        );
    }

    /// The lines of a Corefile, each with the names of the blocks that it is in. See
    /// <https://coredns.io/manual/configuration/>.
    fn directives(corefile: &str) -> Vec<String> {
        let (mut blocks, mut found) = (Vec::new(), Vec::new());
        for line in corefile
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            match line.strip_suffix(" {") {
                Some(opened) => blocks.push(opened),
                None if line == "}" => {
                    assert!(blocks.pop().is_some(), "a block is closed that is not open")
                }
                None => found.push(format!("{} {line}", blocks.join(" "))),
            }
        }
        assert!(blocks.is_empty(), "{blocks:?} stays open");
        found
    }

    /// The Corefile is that of the original, so `objects` sets no hash by default. If you change the
    /// Corefile, set the hash always, so that the pods restart.
    #[test]
    fn the_corefile_serves_the_zones_on_the_ports_that_the_pods_open() {
        let resource = resource(json!({"kubeSecondaryDNS": {}}));
        let corefile = data(json!({}))["Corefile"].clone();
        assert_eq!(
            directives(corefile.as_str().unwrap()),
            [
                r".:5353 auto directory /zones db\.(.*) {1}",
                ".:5353 auto reload 45s",
                ".:5353 reload",
                ".:5353 log",
                ".:5353 health :8082",
                ".:5353 ready :8083"
            ]
        );
        let decision = decide(&resource);
        let server = &object(&decision, "Deployment", "secondary-dns")["spec"]["template"]["spec"]
            ["containers"][0];
        let ports: Vec<_> = server["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["containerPort"].clone())
            .collect();
        assert_eq!(ports, [5353, 8082, 8083]);
        let policy = object(&decision, "NetworkPolicy", "allow-ingress-to-secondary-dns");
        assert_eq!(
            policy["spec"]["ingress"],
            json!([{"ports": [{"protocol": "UDP", "port": 5353}]}])
        );
    }

    #[test]
    fn it_waits_for_the_virtual_machines_of_kubevirt() {
        let resource = resource(json!({"kubeSecondaryDNS": {}}));
        let waits = decide(&resource).waits;
        assert_eq!(waits.len(), 1);
        assert!(
            waits[0].message.starts_with("waits for KubeVirt: ")
                && waits[0].message.ends_with("remove spec.kubeSecondaryDNS"),
            "{}",
            waits[0].message
        );
        let facts = Facts {
            definitions: [kubevirt::INSTANCES.to_owned()].into(),
            ..Facts::default()
        };
        assert_eq!(decide_knowing(&facts, &resource).waits, []);
    }

    #[test]
    fn openshift_chooses_the_user() {
        let resource = resource(json!({"kubeSecondaryDNS": {}}));
        let user = |decision| {
            object(&decision, "Deployment", "secondary-dns")["spec"]["template"]["spec"]["securityContext"].clone()
        };
        let (here, there) = (
            user(decide(&resource)),
            user(decide_on_openshift(&resource)),
        );
        assert_eq!(
            (&here["runAsUser"], &there["runAsUser"]),
            (&json!(1000), &Value::Null)
        );
        assert_eq!(
            (&here["runAsNonRoot"], &there["runAsNonRoot"]),
            (&json!(true), &json!(true))
        );
    }
}
