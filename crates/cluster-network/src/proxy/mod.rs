//! The service proxy: kube-proxy, where the default network does not bring one and nobody else has.

mod arguments;
mod file;

use ipnet::IpNet;
use weft_api::cluster_network::ProxyConfig;
use weft_operands::{duration::GoDuration, text::is_ip};
use weft_plan::{Facts, Notice, ObjectKey, Problem, Unit, Wait, kinds, report::FailureClass};

use crate::{
    config::{Effective, PodNetwork, Valid},
    error::BuildError,
    overlay,
    provider::Context,
    settings::Image,
};
use arguments::Arguments;
use file::KubeProxyConfiguration;

/// The unit's name.
pub const UNIT: &str = "kube-proxy";

const FILES: [&str; 5] = [
    include_str!("../../../../components/kube-proxy/namespace.yaml"),
    include_str!("../../../../components/kube-proxy/rbac.yaml"),
    include_str!("../../../../components/kube-proxy/config.yaml"),
    include_str!("../../../../components/kube-proxy/daemonset.yaml"),
    include_str!("../../../../components/kube-proxy/service.yaml"),
];
const MONITORING: &str = include_str!("../../../../components/kube-proxy/monitoring.yaml");

const PATH: &str = "spec.kubeProxyConfig";

/// Ports that cannot be chosen: the Service of the metrics and the probes of the pods, or those of
/// the default network, have them.
const PORTS: [(&str, &str); 2] = [("metrics-port", "9101"), ("healthz-port", "10256")];

/// The default for the deployment of kube-proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByDefault {
    /// Nothing else connects Services.
    Deployed,
    /// The default network connects Services itself.
    OfTheNetwork,
    /// Another kube-proxy runs.
    Foreign,
    /// The network was set up without it. It does not begin by itself: the other service proxy may
    /// be away for a moment only, and two of them overwrite each other's rules.
    AsBefore,
}

impl ByDefault {
    /// `previous`: whether the configuration that is in force deploys it.
    pub(crate) fn of(own_service_proxy: bool, previous: Option<bool>, facts: &Facts) -> Self {
        match (own_service_proxy, facts.foreign_kube_proxy, previous) {
            (true, _, _) => Self::OfTheNetwork,
            (false, true, _) => Self::Foreign,
            (false, false, Some(false)) => Self::AsBefore,
            (false, false, None | Some(true)) => Self::Deployed,
        }
    }

    pub(crate) fn is_deployed(self) -> bool {
        self == Self::Deployed
    }

    /// Why there is no kube-proxy, where one would expect it.
    pub(crate) fn notice(self) -> Option<Notice> {
        let message = match self {
            Self::Deployed | Self::OfTheNetwork => return None,
            Self::Foreign => {
                "is not deployed: the cluster has one already (DaemonSet kube-system/kube-proxy), which is left alone"
            }
            Self::AsBefore => {
                "is not deployed, because the network was set up without it and another service proxy may come back: set spec.deployKubeProxy to true to have it, or to false to keep the cluster without it"
            }
        };
        Some(Notice {
            about: UNIT.to_owned(),
            message: message.to_owned(),
        })
    }
}

/// The obstacle to a requested deployment of kube-proxy.
pub(crate) fn wait(config: &Effective, facts: &Facts) -> Option<Wait> {
    (config.deploy_kube_proxy && facts.foreign_kube_proxy).then(|| Wait {
        unit: UNIT.to_owned(),
        object: ObjectKey::new(kinds::DAEMON_SET, "kube-system", "kube-proxy"),
        class: FailureClass::Foreign,
        message: "is another service proxy, and two would overwrite each other's rules: remove spec.deployKubeProxy to keep that one, or delete it to have Weft's: kubectl -n kube-system delete daemonset kube-proxy".to_owned(),
        problems: Vec::new(),
    })
}

/// Everything that is wrong with the settings of the service proxy.
pub(crate) fn validate(config: &Valid, own_service_proxy: bool) -> Vec<Problem> {
    let problem = |field: &str, message: String| Problem {
        field: format!("{PATH}.{field}"),
        message,
    };
    let ProxyConfig {
        iptables_sync_period,
        bind_address,
        proxy_arguments,
    } = &config.proxy;
    let mut problems = Vec::new();
    if own_service_proxy && config.deploy_kube_proxy == Some(true) {
        let message = "true: the default network connects services itself, and two service proxies would overwrite each other's rules; remove the field".to_owned();
        problems.push(Problem {
            field: "spec.deployKubeProxy".to_owned(),
            message,
        });
    }
    if let Some(Err(error)) =
        given(iptables_sync_period.as_ref()).map(|period| period.parse::<GoDuration>())
    {
        problems.push(problem("iptablesSyncPeriod", error.to_string()));
    }
    if let Some(address) = given(bind_address.as_ref()).filter(|address| !is_ip(address)) {
        problems.push(problem(
            "bindAddress",
            format!("{address:?} is not an IP address: write it like 0.0.0.0 or ::"),
        ));
    }
    for (argument, port) in PORTS {
        let values = proxy_arguments
            .as_ref()
            .and_then(|arguments| arguments.get(argument))
            .filter(|values| !values.is_empty());
        if let Some(values) = values.filter(|values| **values != [port]) {
            problems.push(problem(
                &format!("proxyArguments.{argument}"),
                format!("{values:?} cannot be had: it is always {port}; remove it"),
            ));
        }
    }
    // The proxy of a default network has arguments of its own, which only it knows.
    if problems.is_empty() && !own_service_proxy {
        let mut proxy = config.proxy.clone();
        fill(&mut proxy, &config.pod_networks, &config.service_networks);
        problems.extend(
            KubeProxyConfiguration::of(arguments(&proxy, &config.pod_networks))
                .err()
                .into_iter()
                .flatten(),
        );
    }
    problems
}

/// Fills in what is left open.
pub(crate) fn fill(proxy: &mut ProxyConfig, pods: &[PodNetwork], services: &[IpNet]) {
    let first = pods
        .first()
        .map(|block| block.cidr)
        .or(services.first().copied());
    let any = if matches!(first, Some(IpNet::V6(_))) {
        "::"
    } else {
        "0.0.0.0"
    };
    for (field, default) in [
        (&mut proxy.bind_address, any),
        (&mut proxy.iptables_sync_period, "30s"),
    ] {
        if given(field.as_ref()).is_none() {
            *field = Some(default.to_owned());
        }
    }
}

/// An empty text says nothing.
fn given(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

/// Weft's own, then the user's over them.
fn arguments(proxy: &ProxyConfig, pods: &[PodNetwork]) -> Arguments {
    let mut arguments = Arguments::default();
    let bind_address = proxy.bind_address.clone().unwrap_or_default();
    let any = if bind_address.contains(':') {
        "::"
    } else {
        "0.0.0.0"
    };
    arguments.set("bind-address", bind_address);
    arguments.set(
        "iptables-sync-period",
        proxy.iptables_sync_period.clone().unwrap_or_default(),
    );
    arguments.set("cluster-cidr", cluster_cidr(pods).unwrap_or_default());
    arguments.set("proxy-mode", "iptables");
    arguments.set("metrics-bind-address", any);
    arguments.set("healthz-bind-address", any);
    for (argument, port) in PORTS {
        arguments.set(argument, port);
    }
    if let Some(user) = &proxy.proxy_arguments {
        arguments.set_all(user);
    }
    arguments
}

/// The pods' addresses, by which kube-proxy knows what comes from within the cluster. It takes one
/// block a family: with more it has to know in another way.
fn cluster_cidr(pods: &[PodNetwork]) -> Option<String> {
    let of = |v6: bool| {
        pods.iter()
            .filter(move |block| matches!(block.cidr, IpNet::V6(_)) == v6)
    };
    let blocks: Vec<_> = pods.iter().map(|block| block.cidr.to_string()).collect();
    (!blocks.is_empty() && of(false).count() <= 1 && of(true).count() <= 1)
        .then(|| blocks.join(","))
}

/// A notice that kube-proxy cannot distinguish the traffic of pods from other traffic, unless the
/// user says how.
pub(crate) fn hint(config: &Effective) -> Option<Notice> {
    let is_said = |name: &&str| {
        config
            .proxy
            .proxy_arguments
            .as_ref()
            .is_some_and(|arguments| arguments.contains_key(*name))
    };
    let said = ["detect-local-mode", "cluster-cidr"].iter().any(is_said);
    (config.deploy_kube_proxy && !said && cluster_cidr(&config.pod_networks).is_none()).then(|| Notice {
        about: UNIT.to_owned(),
        message: "cannot know which traffic is from pods, as it takes one block of addresses a family: where the network needs that, set spec.kubeProxyConfig.proxyArguments.detect-local-mode, for example to NodeCIDR".to_owned(),
    })
}

/// The unit, if it is wanted.
///
/// # Errors
/// The image is not known, or a manifest of ours is wrong.
pub(crate) fn unit(config: &Effective, context: &Context<'_>) -> Result<Option<Unit>, BuildError> {
    if !config.deploy_kube_proxy {
        return Ok(None);
    }
    let mut objects = overlay::load(&FILES)?;
    let file = KubeProxyConfiguration::of(arguments(&config.proxy, &config.pod_networks))
        .map_err(BuildError::refused)?;
    let text =
        serde_saphyr::to_string(&file).map_err(|error| BuildError::File(error.to_string()))?;
    overlay::set_file(&mut objects, "proxy-config", "kube-proxy-config.yaml", text)?;
    overlay::workload(
        &mut objects,
        "openshift-kube-proxy",
        &[("kube-proxy", Image::KubeProxy)],
        Some("proxy-config"),
        context.settings,
    )?;
    if context.facts.serves(kinds::SERVICE_MONITOR) {
        let mut monitoring = overlay::load(&[MONITORING])?;
        let (namespace, account) = &context.settings.prometheus;
        overlay::find(&mut monitoring, kinds::ROLE_BINDING, "prometheus-k8s")?.edit(
            "/subjects/0",
            |subject: &mut serde_json::Value| {
                subject["namespace"] = namespace.clone().into();
                subject["name"] = account.clone().into();
                Ok::<_, String>(())
            },
        )?;
        objects.extend(monitoring);
    }
    Ok(Some(Unit {
        name: UNIT.to_owned(),
        objects,
    }))
}

/// An address with a port.
pub(crate) fn join(address: &str, port: u16) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

#[cfg(test)]
mod tests;
