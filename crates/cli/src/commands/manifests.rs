//! `weft manifests`

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use weft_node_network::deployment;
use weft_operands::image::ImageReference;
use weft_placement::{domain::Namespaces, registration::Addresses};
use weft_plan::Manifest;

use crate::{
    domains::{self, Entry},
    install::{ApiServer, Installation, Options, Reader, install},
    output::{self, Target},
};

/// Print everything that is needed to install the operator
///
/// One Deployment, weft-operator in the namespace weft-system, serves the chosen domains. Its roles
/// permit what the chosen components need, and nothing else. Name all domains each time: those that
/// you leave out are not served any more.
///
/// With --split, each domain has an operator of its own, under the name of the operator that Weft
/// replaces. Applied over that one, it takes its place; placement-operator has to be stopped. Only
/// namespaces that are Weft's are among the manifests, so that no other changes or goes with them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weft manifests --components multus,linux-bridge | kubectl apply -f -
  weft manifests --domains addons,node-network \\
    --image registry.example/weft:1 --agent-image registry.example/agent:1 \\
    --monitoring=monitoring/prometheus-k8s | kubectl apply -f -
  weft manifests --domains cluster-network --components flannel \\
    --api-server https://192.0.2.1:6443 | kubectl apply -f -
  weft manifests --domains placement --placement-namespaces openstack,lab \\
    | kubectl apply -f -
  weft manifests --split --domains addons | kubectl apply -f -
  weft manifests -o install && ls install")]
pub struct Args {
    /// How to print them, yaml or json, or a folder for files, an example configuration among them
    #[arg(short, long, value_name = "yaml|json|DIR", default_value = "yaml")]
    output: Target,

    /// Domains that Weft runs [default: those of the components, else addons and node-network,
    /// which need to know nothing of your cluster]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,

    /// The components that may be deployed: the operator gets the permissions for these only
    /// [default: all]
    #[arg(long, value_name = "COMPONENT", value_delimiter = ',', value_parser = PossibleValuesParser::new(components()))]
    components: Vec<String>,

    /// An operator for each domain, in the place of the operator that Weft replaces
    #[arg(long)]
    split: bool,

    /// The operator's namespace. With --split, of the operands, too, but for Placement. Any but the
    /// default one must exist before
    #[arg(short, long)]
    namespace: Option<String>,

    /// Where the API server is, for cluster-network, which works before the Service `kubernetes`
    /// does: a URL, or host and port. The networks' own pods use it, too
    #[arg(long, value_name = "URL", value_parser = api_server)]
    api_server: Option<(String, u16)>,

    /// The same from a kubeconfig that each control-plane node has, for example
    /// /etc/kubernetes/kubelet.conf. Only its address is used
    #[arg(long, value_name = "FILE", conflicts_with = "api_server", value_parser = absolute)]
    node_kubeconfig: Option<String>,

    /// The namespaces whose PlacementAPIs are served, separated by commas: the operator gets its
    /// permissions in these only. '*' stands for all, and then it may read every Secret of the
    /// cluster [default: openstack]
    #[arg(long, value_name = "NAMESPACES")]
    placement_namespaces: Option<Namespaces>,

    /// Keystones, separated by commas, to which `registration: Direct` of any PlacementAPI may send
    /// the usual keys of Secrets. Others must be permitted by the Secrets [default: none]
    #[arg(long, value_name = "URLS")]
    keystone_urls: Option<Addresses>,

    /// Add the ServiceMonitor and the alerts of operators that do not make them by themselves. With
    /// --split, those of addons and node-network do. Your cluster must serve the kinds of
    /// Prometheus Operator. The value names the ServiceAccount of Prometheus
    #[arg(long, value_name = "NAMESPACE/SERVICEACCOUNT", num_args = 0..=1, require_equals = true, default_missing_value = "monitoring/prometheus-k8s")]
    monitoring: Option<Reader>,

    /// The operator's image
    #[arg(long, value_name = "IMAGE", default_value = domains::OPERATOR_IMAGE)]
    image: ImageReference,

    /// The image of the agents of node-network
    #[arg(long, value_name = "IMAGE", default_value = deployment::settings::IMAGE)]
    agent_image: ImageReference,

    /// When the operator's image and the agents' are pulled
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,
}

fn components() -> impl Iterator<Item = &'static str> {
    domains::ALL
        .iter()
        .flat_map(|entry| entry.install.components)
        .map(|component| component.name)
}

fn api_server(text: &str) -> Result<(String, u16), String> {
    let written = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    weft_operator::endpoint(&written).map_err(|error| error.to_string())
}

fn absolute(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no path of a node: write it from / on"))
    }
}

/// The domains that are asked for: by name, or by their components.
fn chosen(args: &Args) -> Vec<&'static Entry> {
    if !args.domains.is_empty() {
        return domains::chosen(&args.domains);
    }
    let is_named = |entry: &&Entry| {
        entry
            .install
            .components
            .iter()
            .any(|component| args.components.iter().any(|name| name == component.name))
    };
    let named: Vec<_> = domains::ALL.iter().filter(is_named).collect();
    if named.is_empty() {
        domains::chosen(&["addons", "node-network"].map(str::to_owned))
    } else {
        named
    }
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let at = args
        .api_server
        .clone()
        .map(|(host, port)| ApiServer::At(host, port));
    let api_server = at.or_else(|| args.node_kubeconfig.clone().map(ApiServer::InKubeconfig));
    let installation = install(&Options {
        domains: chosen(args),
        components: &args.components,
        single: !args.split,
        namespace: args.namespace.as_deref(),
        image: &args.image.to_string(),
        agent_image: &args.agent_image.to_string(),
        image_pull_policy: &args.image_pull_policy,
        api_server: api_server.as_ref(),
        placement_namespaces: args.placement_namespaces.as_ref(),
        keystone_urls: args.keystone_urls.as_ref(),
        monitoring: args.monitoring.as_ref(),
    })?;
    if !installation.needed.is_empty() {
        let commands: Vec<_> = installation
            .needed
            .iter()
            .map(|name| format!("kubectl create namespace {name}"))
            .collect();
        output::say(&format!(
            "note: namespaces that others may use are not among the manifests. Where they do not exist yet, create them first: {}",
            commands.join("; ")
        ));
    }
    match &args.output {
        Target::Folder(folder) => {
            let files = files(&installation)?;
            output::write_files(
                folder,
                files.iter().map(|(name, text)| (*name, text.as_str())),
            )?;
        }
        target => {
            let Installation {
                namespaces,
                needed: _,
                definitions,
                operator,
                examples: _,
            } = &installation;
            let definitions = definitions.iter().map(|(_, definition)| definition);
            let all = namespaces.iter().chain(definitions).chain(operator);
            match target {
                Target::Json => output::print_list(all.map(Manifest::body))?,
                _ => output::print_as_is(&stream(all)?)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn files(installation: &Installation) -> Result<Vec<(&'static str, String)>> {
    let Installation {
        namespaces,
        needed: _,
        definitions,
        operator,
        examples,
    } = installation;
    let mut files = vec![("operator.yaml", stream(operator)?)];
    if !namespaces.is_empty() {
        files.push(("namespace.yaml", stream(namespaces)?));
    }
    for (name, manifest) in definitions.iter().chain(examples) {
        files.push((name, stream([manifest])?));
    }
    Ok(files)
}

fn stream<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Result<String> {
    output::yaml_stream(manifests.into_iter().map(Manifest::body))
}
