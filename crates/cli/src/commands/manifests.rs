//! `weft manifests`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use weft_node_network::deployment;
use weft_operands::image::ImageReference;
use weft_placement::{domain::Namespaces, registration::Addresses};
use weft_plan::{Manifest, ObjectKey, kinds};

use crate::{
    domains::{self, Entry},
    install::{
        ApiServer, Installation, Options, Reader, SINGLE_NAMESPACE, SINGLE_OPERATOR, helm_values,
        install, kustomize_patch,
    },
    left_out::{LeftOut, Look},
    online::{ClusterArgs, ClusterChoice, block_on},
    output::{self, Target},
    reinstall::{Reinstall, address},
    running_images::RunningImages,
};

/// Print everything that is needed to install the operator
///
/// One Deployment, weft-operator in the namespace weft-system, serves the chosen domains. Its roles
/// permit what the chosen components need, and nothing else. Name all domains each time: those that
/// you leave out are not served any more. If a cluster answers within two seconds, the command warns
/// before it leaves out a domain that has a resource there, and names the command that keeps it. It
/// prints the same manifests with a cluster and without.
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
  weft manifests --split --domains addons --running-images \\
    | kubectl apply -f -
  weft manifests --domains addons --running-images -o helm-values > values.yaml
  weft manifests -o install && ls install")]
pub struct Args {
    /// How to print them, yaml or json, or a folder for files, an example configuration among them.
    /// With helm-values: the values with which Weft's Helm chart installs the same. With
    /// kustomize-patch: a patch for one of Weft's bases for kustomize, with the images and variables
    /// of the operator that the options set. Options that change more, such as --components, are
    /// errors there
    #[arg(
        short,
        long,
        value_name = "yaml|json|helm-values|kustomize-patch|DIR",
        default_value = "yaml"
    )]
    output: Form,

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

    /// Images of what Weft deploys, separated by commas, each by its environment variable of the
    /// operator. `weft operator --help` lists the variables
    #[arg(long, value_name = "VARIABLE=IMAGE", value_delimiter = ',', value_parser = operand_image)]
    operand_images: Vec<(&'static str, String)>,

    /// When the operator's image and the agents' are pulled
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,

    /// Give the components the images that they have now, as the operator in the cluster names
    /// them: the one that Weft replaces, or Weft's own. Then no pod restarts for another image. A
    /// note names images that may not run as Weft deploys them. Weft takes its own instead
    #[arg(long)]
    running_images: bool,

    #[command(flatten)]
    cluster: ClusterChoice,
}

/// The form of an installation.
#[derive(Clone)]
enum Form {
    /// All of its objects.
    Objects(Target),
    /// Values of the Helm chart.
    HelmValues,
    /// A patch for a base of kustomize.
    KustomizePatch,
}

impl From<&str> for Form {
    fn from(text: &str) -> Self {
        match text {
            "helm-values" => Self::HelmValues,
            "kustomize-patch" => Self::KustomizePatch,
            text => Self::Objects(text.into()),
        }
    }
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

fn operand_image(text: &str) -> Result<(&'static str, String), String> {
    let (variable, image) = text.split_once('=').ok_or_else(|| {
        format!(
            "{text:?} is not VARIABLE=IMAGE, for example MULTUS_IMAGE=registry.example/multus:v4"
        )
    })?;
    let mut variables = domains::ALL
        .iter()
        .flat_map(|entry| (entry.install.images)())
        .map(|(name, _)| name)
        .filter(|name| *name != deployment::settings::IMAGE_VARIABLE);
    let variable = variables.find(|name| *name == variable).ok_or_else(|| {
        format!(
            "{variable:?} is no image of an operand: weft operator --help lists them, and --agent-image sets that of the agents"
        )
    })?;
    let image = image
        .parse::<ImageReference>()
        .map_err(|error| error.to_string())?;
    Ok((variable, image.to_string()))
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

/// The images of the operators in the cluster, of these domains.
fn running_images(
    args: &Args,
    domains: &[&'static Entry],
) -> Result<BTreeMap<&'static str, String>> {
    let found = block_on(async {
        let cluster = ClusterArgs::new(args.cluster.clone());
        let online = cluster.connect().await?;
        let mut found = Vec::new();
        for site in online.sites(domains.iter().copied()).await? {
            found.push((site.entry, RunningImages::find(&online, &site).await?));
        }
        Ok(found)
    })?;
    if found.iter().all(|(_, running)| running.operator.is_none()) {
        let names: Vec<_> = domains.iter().map(|entry| entry.name).collect();
        bail!(
            "there is no operator of {} in the cluster whose images could be taken over: leave --running-images out, or choose another --context",
            names.join(" or ")
        );
    }
    let mut images = BTreeMap::new();
    for (entry, running) in found {
        let whose = match &running.operator {
            Some(operator) => {
                let count = match running.images.len() {
                    1 => "1 image is that of".to_owned(),
                    count => format!("{count} images are those of"),
                };
                format!("{count} {}", operator.human())
            }
            None => "there is no operator in the cluster, so the images are Weft's".to_owned(),
        };
        output::say(&format!("note: {}: {whose}", entry.name));
        for note in running.notes {
            output::say(&format!("note: {}: {note}", entry.name));
        }
        images.extend(running.images);
    }
    Ok(images)
}

/// Makes something of the options that are given, with these images of the operators in the cluster.
/// Images by name come before them.
fn with_options<T>(
    args: &Args,
    domains: Vec<&'static Entry>,
    running: BTreeMap<&'static str, String>,
    make: impl FnOnce(&Options) -> Result<T>,
) -> Result<T> {
    let mut images = running;
    images.extend(args.operand_images.iter().cloned());
    let at = args
        .api_server
        .clone()
        .map(|(host, port)| ApiServer::At(host, port));
    let api_server = at.or_else(|| args.node_kubeconfig.clone().map(ApiServer::InKubeconfig));
    make(&Options {
        domains,
        components: &args.components,
        single: !args.split,
        namespace: args.namespace.as_deref(),
        image: &args.image.to_string(),
        agent_image: &args.agent_image.to_string(),
        image_pull_policy: &args.image_pull_policy,
        images: &images,
        api_server: api_server.as_ref(),
        placement_namespaces: args.placement_namespaces.as_ref(),
        keystone_urls: args.keystone_urls.as_ref(),
        monitoring: args.monitoring.as_ref(),
    })
}

/// Begins to look for domains that the manifests leave out. An operator for one domain leaves out
/// none.
fn look(args: &Args, domains: &[&'static Entry]) -> Option<Look> {
    if args.split || domains.len() == domains::ALL.len() {
        return None;
    }
    let namespace = args.namespace.as_deref().unwrap_or(SINGLE_NAMESPACE);
    let workload = ObjectKey::new(kinds::DEPLOYMENT, namespace, SINGLE_OPERATOR);
    let served = domains.iter().map(|entry| entry.name).collect();
    Some(Look::begin(&args.cluster, workload, served))
}

/// Returns a warning about the domains that the manifests leave out.
fn warning(args: &Args, domains: &[&'static Entry], left_out: &LeftOut) -> String {
    let names: Vec<String> = left_out.resources.iter().map(ObjectKey::human).collect();
    format!(
        "warning: {} serves {} in your cluster, and these manifests leave that out. No operator would serve {} any more. This command keeps it: {}",
        left_out.operator.workload.human(),
        left_out.domains.join(", "),
        names.join(", "),
        keeping(args, domains, left_out).command()
    )
}

/// Returns the command that is asked for, with the domains that it leaves out and with the options
/// of the installed operator that it does not have.
fn keeping(args: &Args, domains: &[&'static Entry], left_out: &LeftOut) -> Reinstall {
    // The user is about to apply manifests, whichever tool has installed the operator.
    let mut command = Reinstall::of(&left_out.operator).by_manifests();
    domains.iter().for_each(|entry| command.serve(entry.name));
    let mut components = args.components.clone();
    let is_left_out = |entry: &&Entry| left_out.domains.contains(&entry.name);
    let narrowed = |entry: &Entry| entry.install.components_variable.is_some();
    if domains::ALL.iter().filter(is_left_out).any(narrowed) {
        let kept = command.get("--components").unwrap_or_default();
        components.extend(
            kept.split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
        );
    }
    command.remove("--components");
    command.set_other("--components", Some(&components.join(",")), "");
    if args.api_server.is_some() || args.node_kubeconfig.is_some() {
        command.remove("--api-server");
        command.remove("--node-kubeconfig");
    }
    let api_server = args.api_server.as_ref();
    let api_server = api_server.map(|(host, port)| address(host, &port.to_string()));
    for (option, value, usual) in [
        ("--api-server", api_server, ""),
        ("--node-kubeconfig", args.node_kubeconfig.clone(), ""),
        (
            "--placement-namespaces",
            args.placement_namespaces.as_ref().map(ToString::to_string),
            "",
        ),
        (
            "--keystone-urls",
            args.keystone_urls.as_ref().map(ToString::to_string),
            "",
        ),
        (
            "--image",
            Some(args.image.to_string()),
            domains::OPERATOR_IMAGE,
        ),
        (
            "--agent-image",
            Some(args.agent_image.to_string()),
            deployment::settings::IMAGE,
        ),
        (
            "--image-pull-policy",
            Some(args.image_pull_policy.clone()),
            "IfNotPresent",
        ),
    ] {
        command.set_other(option, value.as_deref(), usual);
    }
    for (variable, image) in &args.operand_images {
        command.set_operand_image(variable, image);
    }
    command.has_running_images = args.running_images;
    command.monitoring = args.monitoring.as_ref().map(ToString::to_string);
    command
}

/// Reports whether an option concerns a domain.
type Concerns = fn(&Entry) -> bool;

/// Returns a note for each option that concerns only other domains than these.
fn without_effect(args: &Args, domains: &[&'static Entry]) -> Vec<String> {
    let needs: [(&str, bool, Concerns); 4] = [
        ("--api-server", args.api_server.is_some(), |entry| {
            entry.install.before_the_network
        }),
        (
            "--node-kubeconfig",
            args.node_kubeconfig.is_some(),
            |entry| entry.install.before_the_network,
        ),
        (
            "--placement-namespaces",
            args.placement_namespaces.is_some(),
            |entry| entry.install.served_namespace.is_some(),
        ),
        ("--keystone-urls", args.keystone_urls.is_some(), |entry| {
            entry.install.keystones_variable.is_some()
        }),
    ];
    let has = |entry: &Entry, name: &str| {
        let mut components = entry.install.components.iter();
        components.any(|component| component.name == name)
    };
    let note = |option: &str, concerns: &dyn Fn(&Entry) -> bool| {
        if domains.iter().any(|entry| concerns(entry)) {
            return None;
        }
        let all = domains::ALL.iter().filter(|entry| concerns(entry));
        let all: Vec<_> = all.map(|entry| entry.name).collect();
        let all = all.join(", ");
        Some(format!(
            "note: {option} has no effect without the domain {all}"
        ))
    };
    let given = needs.into_iter().filter(|(_, is_given, _)| *is_given);
    let options = given.filter_map(|(option, _, concerns)| note(option, &concerns));
    let components = args.components.iter();
    let components = components
        .filter_map(|name| note(&format!("--components {name}"), &|entry| has(entry, name)));
    options.chain(components).collect()
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let domains = chosen(args);
    args.cluster.check()?;
    for note in without_effect(args, &domains) {
        output::say(&note);
    }
    let look = look(args, &domains);
    let running = match args.running_images {
        true => running_images(args, &domains)?,
        false => BTreeMap::new(),
    };
    let warn = |look: Option<Look>| {
        if let Some(left_out) = look.and_then(Look::end) {
            output::say(&warning(args, &domains, &left_out));
        }
    };
    let make: fn(&Options) -> Result<Value> = match &args.output {
        Form::Objects(target) => {
            let installation = with_options(args, domains.clone(), running, install)?;
            warn(look);
            print_installation(&installation, target)?;
            return Ok(ExitCode::SUCCESS);
        }
        Form::HelmValues => helm_values,
        Form::KustomizePatch => kustomize_patch,
    };
    let made = with_options(args, domains.clone(), running, make)?;
    warn(look);
    output::print_as_is(&output::yaml(&made)?)?;
    Ok(ExitCode::SUCCESS)
}

fn print_installation(installation: &Installation, target: &Target) -> Result<()> {
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
    match target {
        Target::Folder(folder) => {
            let files = files(installation)?;
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
            } = installation;
            let definitions = definitions.iter().map(|(_, definition)| definition);
            let all = namespaces.iter().chain(definitions).chain(operator);
            match target {
                Target::Json => output::print_list(all.map(Manifest::body))?,
                _ => output::print_as_is(&stream(all)?)?,
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;
    use weft_runtime::inspect::presence::Operator;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The arguments of a command line of `weft manifests`, as a shell passes them.
    fn args(line: &str) -> Args {
        let line = line.strip_suffix(" | kubectl apply -f -").unwrap_or(line);
        let words = line.split_whitespace().skip(1);
        Line::parse_from(words.map(|word| word.trim_matches('\''))).args
    }

    fn operator(line: &str) -> Operator {
        let args = args(line);
        let installation = with_options(&args, chosen(&args), BTreeMap::new(), install).unwrap();
        let mut objects = installation.operator.iter();
        objects
            .find(|manifest| [kinds::DEPLOYMENT, kinds::DAEMON_SET].contains(&manifest.key().kind))
            .and_then(|manifest| Operator::of(manifest.body()))
            .unwrap()
    }

    #[test]
    fn the_command_that_installs_an_operator_again_has_all_its_options() {
        for line in [
            "--domains addons,node-network",
            "--split --domains addons --components multus,linux-bridge",
            "--split --domains cluster-network --node-kubeconfig /etc/kubernetes/kubelet.conf",
            "--domains cluster-network --api-server 'https://[fd00::1]:6443' --operand-images FLANNEL_IMAGE=localhost/flannel:test,KUBE_PROXY_IMAGE=localhost/kube-proxy:test",
            "--domains addons,cluster-network,node-network --agent-image registry.example/agent:2 --api-server https://192.0.2.1:6443 --components multus,linux-bridge --image registry.example/weft:2 --image-pull-policy Always --namespace elsewhere",
            "--domains placement --keystone-urls https://keystone.example:5000 --placement-namespaces lab,openstack",
            "--domains addons,placement --placement-namespaces '*'",
        ] {
            let line = format!("weft manifests {line} | kubectl apply -f -");
            assert_eq!(Reinstall::of(&operator(&line)).command(), line);
        }
    }

    #[test]
    fn a_warning_has_the_options_of_both_command_lines() {
        let hint = |installed: &str, domains: Vec<&'static str>, asked: &str| {
            let left_out = LeftOut {
                operator: operator(installed),
                domains,
                resources: vec![ObjectKey::new(kinds::NETWORK_CONFIG, "", "default")],
            };
            let args = args(asked);
            warning(&args, &chosen(&args), &left_out)
        };
        let network = "weft manifests --domains cluster-network --api-server https://192.0.2.1:6443 --operand-images FLANNEL_IMAGE=localhost/flannel:test";
        let addons =
            "weft manifests --domains addons,node-network --components multus,linux-bridge";
        assert_eq!(
            hint(network, vec!["cluster-network"], addons),
            "warning: Deployment weft-system/weft-operator serves cluster-network in your cluster, and these manifests leave that out. No operator would serve NetworkConfig default any more. This command keeps it: weft manifests --domains addons,cluster-network,node-network --api-server https://192.0.2.1:6443 --components multus,linux-bridge --operand-images FLANNEL_IMAGE=localhost/flannel:test | kubectl apply -f -"
        );
        // The components of a domain that stays are those that are asked for.
        let all = hint(
            addons,
            vec!["node-network"],
            "weft manifests --domains addons",
        );
        assert!(
            all.ends_with("weft manifests --domains addons,node-network | kubectl apply -f -"),
            "{all}"
        );
        let kept = hint(
            addons,
            vec!["addons"],
            "weft manifests --domains node-network --image registry.example/weft:2 --monitoring",
        );
        assert!(
            kept.ends_with("weft manifests --domains addons,node-network --components multus,linux-bridge --image registry.example/weft:2 --monitoring=monitoring/prometheus-k8s | kubectl apply -f -"),
            "{kept}"
        );
    }
}
