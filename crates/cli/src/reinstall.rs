//! How to install an operator again, or with other options: by the tool that has installed it, for
//! hints that a user can run as they are.

use std::collections::BTreeMap;

use weft_node_network::deployment::settings as agent;
use weft_placement::domain::{KEYSTONES_VARIABLE, NAMESPACES_VARIABLE};
use weft_plan::{Live, dropped};
use weft_runtime::inspect::presence::Operator;

use crate::{
    domains::{self, Entry, OPERATOR_IMAGE},
    install::{SINGLE_NAMESPACE, SINGLE_OPERATOR},
    keepers::Keeper,
};

/// The tool that installs an operator. A change by another tool gets lost at its next run.
#[derive(Clone, Default)]
enum Installer {
    /// `kubectl apply`, or a tool that leaves no mark.
    #[default]
    Manifests,
    /// kustomize, with Weft's bases or with `buildMetadata: [managedByLabel]`. It does not say in
    /// which folder its files are.
    Kustomize,
    /// A package manager or a GitOps tool.
    Keeper(Keeper),
}

impl Installer {
    fn of(operator: &Operator) -> Self {
        let installs = |keeper: &Keeper| match keeper {
            Keeper::Olm { .. }
            | Keeper::Helm { .. }
            | Keeper::ArgoCd { .. }
            | Keeper::Flux { .. } => true,
            Keeper::ClusterVersion | Keeper::HyperConverged | Keeper::OpenStack { .. } => false,
        };
        // Argo CD and Flux come last, and put their marks next to those of the tools that they run.
        let mut keepers = Keeper::of(&operator.marks).into_iter().rev();
        if let Some(keeper) = keepers.find(installs) {
            return Self::Keeper(keeper);
        }
        let manager = Live::of(&operator.marks).label("app.kubernetes.io/managed-by");
        match manager.unwrap_or_default().starts_with("kustomize") {
            true => Self::Kustomize,
            false => Self::Manifests,
        }
    }
}

/// The options of `weft manifests` for an installation, and the tool that installs it.
#[derive(Clone, Default)]
pub struct Reinstall {
    installer: Installer,
    /// The command line of the operator that is installed, if there is one.
    installed: Option<String>,
    is_split: bool,
    domains: Vec<String>,
    /// Options with their values.
    options: BTreeMap<&'static str, String>,
    /// Images of operands, by their environment variables.
    operand_images: BTreeMap<String, String>,
    /// The value of `--monitoring`. The workload does not show it, and the objects for Prometheus
    /// Operator stay without it, since `kubectl apply` removes nothing.
    pub monitoring: Option<String>,
    /// True if the command has `--running-images`.
    pub has_running_images: bool,
}

impl Reinstall {
    /// Returns the command that installs this operator as it is, as far as its workload shows the
    /// options. The roles of the cluster's network are those of all its components then.
    pub fn of(operator: &Operator) -> Self {
        let variable = |name: &str| operator.environment.get(name).map(String::as_str);
        let mut found = Self {
            installer: Installer::of(operator),
            is_split: operator.workload.name != SINGLE_OPERATOR,
            domains: operator.domains.clone(),
            ..Self::default()
        };
        let served = domains::ALL.iter().filter(|entry| found.serves(entry.name));
        let served: Vec<&Entry> = served.collect();
        let usual = match served.first() {
            Some(entry) if found.is_split => entry.install.namespace,
            _ => SINGLE_NAMESPACE,
        };
        let namespace = operator.workload.namespace.as_deref();
        found.set_other("--namespace", namespace, usual);
        found.set_image("--image", Some(operator.image.as_str()), OPERATOR_IMAGE);
        let of_agent = variable(agent::IMAGE_VARIABLE);
        found.set_image("--agent-image", of_agent, agent::IMAGE);
        let policy = Some(operator.pull_policy.as_str());
        found.set_other("--image-pull-policy", policy, "IfNotPresent");
        if let Some(host) = variable("KUBERNETES_SERVICE_HOST") {
            let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or("443");
            found.set("--api-server", &address(host, port));
        }
        let mut arguments = operator.arguments.iter();
        let file = arguments.find_map(|argument| argument.strip_prefix("--url-only-kubeconfig="));
        found.set_other("--node-kubeconfig", file, "");
        found.set_other("--keystone-urls", variable(KEYSTONES_VARIABLE), "");
        for entry in served {
            let components = entry.install.components_variable.and_then(variable);
            found.set_other("--components", components, "");
            if let Some(usual) = entry.install.served_namespace {
                let namespaces = variable(NAMESPACES_VARIABLE);
                found.set_other("--placement-namespaces", namespaces, usual);
            }
            // The usual images of another version are unknown here.
            if variable("OPERATOR_VERSION") == Some(env!("CARGO_PKG_VERSION")) {
                for (name, usual) in (entry.install.images)() {
                    let image = variable(name).filter(|image| *image != usual);
                    if let Some(image) = image.filter(|_| name != agent::IMAGE_VARIABLE) {
                        found.set_operand_image(name, image);
                    }
                }
            }
        }
        found.installed = Some(found.manifests());
        found
    }

    /// Returns the command that installs Weft for a domain, next to what these operators serve.
    pub fn adding(operators: &[Operator], domain: &str) -> Self {
        let serves = |operator: &&Operator| operator.domains.iter().any(|name| name == domain);
        let is_single = |operator: &&Operator| operator.workload.name == SINGLE_OPERATOR;
        let found = operators.iter().find(serves);
        let single = || operators.iter().find(is_single);
        let found = found.or_else(single).map(Self::of).unwrap_or_default();
        // The bundle serves what it serves, and OLM takes any change of its Deployment back.
        let is_of_olm = matches!(found.installer, Installer::Keeper(Keeper::Olm { .. }));
        let is_fixed = is_of_olm && !found.serves(domain);
        let mut command = match is_fixed {
            true => Self {
                is_split: true,
                ..Self::default()
            },
            false => found,
        };
        command.serve(domain);
        command
    }

    /// Installs by `weft manifests`, whichever tool has installed the operator.
    pub fn by_manifests(self) -> Self {
        Self {
            installer: Installer::Manifests,
            ..self
        }
    }

    /// Adds a domain.
    pub fn serve(&mut self, domain: &str) {
        if !self.serves(domain) {
            self.domains.push(domain.to_owned());
        }
    }

    fn serves(&self, domain: &str) -> bool {
        self.domains.iter().any(|name| name == domain)
    }

    /// Leaves these domains, and no others.
    pub fn serve_only(&mut self, domains: &[String]) {
        self.domains = domains.to_vec();
    }

    /// Returns the value of an option.
    pub fn get(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// Sets an option.
    pub fn set(&mut self, option: &'static str, value: &str) {
        self.options.insert(option, value.to_owned());
    }

    /// Removes an option.
    pub fn remove(&mut self, option: &str) {
        self.options.remove(option);
    }

    /// Sets the image of an operand.
    pub fn set_operand_image(&mut self, variable: &str, image: &str) {
        let image = image.to_owned();
        self.operand_images.insert(variable.to_owned(), image);
    }

    /// Sets an option if it has another value than the usual one.
    pub fn set_other(&mut self, option: &'static str, value: Option<&str>, usual: &str) {
        if let Some(value) = value.filter(|value| !value.is_empty() && *value != usual) {
            self.set(option, value);
        }
    }

    /// Sets an image that is not Weft's usual one, whatever its version.
    fn set_image(&mut self, option: &'static str, image: Option<&str>, usual: &str) {
        let name = |image: &str| image.rsplit_once(':').map(|(name, _)| name.to_owned());
        let other = image.filter(|image| name(image) != name(usual));
        self.set_other(option, other, usual);
    }

    /// Returns the command for a shell, with CHART and DIR for paths that only the user knows. Where
    /// files of the user decide, returns the change to these files, too.
    pub fn command(&self) -> String {
        let manifests = self.manifests();
        let is_as_installed = self.installed.as_ref() == Some(&manifests);
        match &self.installer {
            Installer::Manifests => manifests + " | kubectl apply -f -",
            Installer::Kustomize => in_source(
                &manifests,
                "the base of your kustomization",
                "kubectl apply -k DIR".to_owned(),
                is_as_installed,
            ),
            Installer::Keeper(keeper) => self.by(keeper, &manifests, is_as_installed),
        }
    }

    /// Returns the command with this tool. Its names come from marks that anyone can write who may
    /// change the workload, so each is one word for a shell.
    fn by(&self, keeper: &Keeper, manifests: &str, is_as_installed: bool) -> String {
        match keeper {
            Keeper::Helm { namespace, release } => {
                let (namespace, release) = (quoted(namespace), quoted(release));
                let upgrade = format!(
                    "helm upgrade {release} CHART --namespace {namespace} --reset-then-reuse-values"
                );
                if is_as_installed {
                    return upgrade;
                }
                // The operator is in the namespace of its release.
                let mut values = self.clone();
                values.remove("--namespace");
                let values = values.manifests();
                format!("{values} -o helm-values > values.yaml && {upgrade} -f values.yaml")
            }
            Keeper::Olm { namespace, version } => {
                let its = format!("ClusterServiceVersion {namespace}/{version}");
                let (namespace, version) = (quoted(namespace), quoted(version));
                match is_as_installed {
                    true => format!(
                        "kubectl apply -f before.yaml, with the file of the release. {its} says whether other objects are missing: kubectl -n {namespace} describe clusterserviceversion {version}"
                    ),
                    false => format!(
                        "{its} installs its domains together. Delete its Subscription and then it, and run: {manifests} | kubectl apply -f -"
                    ),
                }
            }
            Keeper::ArgoCd { application } => {
                // An Application outside of the namespace of Argo CD is NAMESPACE_NAME in the mark,
                // and NAMESPACE/NAME for the program.
                let application = quoted(&application.replacen('_', "/", 1));
                let source = format!("the source of Application {application}");
                let sync = format!("argocd app sync {application}");
                in_source(manifests, &source, sync, is_as_installed)
            }
            Keeper::Flux {
                kind,
                namespace,
                name,
            } => {
                let source = format!("the source of {kind} {namespace}/{name}");
                // helm-controller does nothing for a release whose chart and values are the same.
                let force = match *kind {
                    "HelmRelease" => " --force",
                    _ => "",
                };
                let (kind, name) = (kind.to_lowercase(), quoted(name));
                let namespace = quoted(namespace);
                let sync = format!(
                    "flux reconcile {kind} {name} --namespace {namespace} --with-source{force}"
                );
                in_source(manifests, &source, sync, is_as_installed)
            }
            // They install no operator of Weft.
            Keeper::ClusterVersion | Keeper::HyperConverged | Keeper::OpenStack { .. } => {
                format!("{manifests} | kubectl apply -f -")
            }
        }
    }

    /// Returns the command that brings the definitions of a domain of this operator.
    pub fn definitions(&self, domain: &str) -> String {
        match self.installer {
            // OLM writes definitions only with a new version.
            Installer::Manifests | Installer::Keeper(Keeper::Olm { .. }) => {
                dropped::way_out(domain)
            }
            Installer::Kustomize | Installer::Keeper(_) => self.command(),
        }
    }

    /// Returns the command line of `weft manifests`.
    fn manifests(&self) -> String {
        let names = domains::ALL.iter().map(|entry| entry.name);
        let served: Vec<&str> = names.filter(|name| self.serves(name)).collect();
        let mut words = vec!["weft manifests".to_owned()];
        words.extend(self.is_split.then(|| "--split".to_owned()));
        words.push(format!("--domains {}", served.join(",")));
        let options = self.options.iter();
        words.extend(options.map(|(option, value)| format!("{option} {}", quoted(value))));
        let images = self.operand_images.iter();
        let images: Vec<String> = images
            .map(|(name, image)| format!("{name}={image}"))
            .collect();
        if !images.is_empty() {
            words.push(format!("--operand-images {}", quoted(&images.join(","))));
        }
        words.extend(
            self.has_running_images
                .then(|| "--running-images".to_owned()),
        );
        let monitoring = self.monitoring.iter();
        words.extend(monitoring.map(|reader| format!("--monitoring={reader}")));
        words.join(" ")
    }
}

/// Returns the value of `--api-server`.
pub fn address(host: &str, port: &str) -> String {
    match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
    }
}

/// Returns the command of a tool that applies files of the user. If other options are wanted, the
/// user has to change these files before.
fn in_source(manifests: &str, source: &str, command: String, is_as_installed: bool) -> String {
    match is_as_installed {
        true => command,
        false => format!("write the output of `{manifests}` into {source}, then: {command}"),
    }
}

/// Returns how to install Weft for a domain. `None`: it is not known which operators there are.
pub fn how_to_install(domain: &str, operators: Option<&[Operator]>) -> String {
    let command = Reinstall::adding(operators.unwrap_or_default(), domain).command();
    match operators {
        Some(_) => format!("install it: {command}"),
        None => {
            format!("install it: {command} (name the domains that Weft serves already, too)")
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"@%_+=:,./-".contains(&letter);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_shell_gets_one_word() {
        for (word, quoted) in [
            ("https://192.0.2.1:6443", "https://192.0.2.1:6443"),
            ("*", "'*'"),
            ("a'b", r"'a'\''b'"),
        ] {
            assert_eq!(super::quoted(word), quoted);
        }
        assert_eq!(address("fd00::1", "6443"), "https://[fd00::1]:6443");
    }

    #[test]
    fn a_hint_without_operators_asks_for_the_domains_that_are_served() {
        let command = "weft manifests --domains placement | kubectl apply -f -";
        let known = how_to_install("placement", Some(&[]));
        assert_eq!(known, format!("install it: {command}"));
        let unknown = how_to_install("placement", None);
        let expected = "(name the domains that Weft serves already, too)";
        assert_eq!(unknown, format!("install it: {command} {expected}"));
    }

    /// The operator of the add-ons, with the marks of a tool.
    fn operator(labels: &Value, annotations: &Value) -> Operator {
        Operator::of(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": SINGLE_OPERATOR, "namespace": "elsewhere",
                "labels": labels, "annotations": annotations
            },
            "spec": {"template": {"spec": {"containers": [
                {"image": OPERATOR_IMAGE, "args": ["operator", "--domains", "addons"]}
            ]}}}
        }))
        .unwrap_or_else(|| panic!("no operator"))
    }

    /// The labels of a Deployment of OLM.
    fn of_olm() -> Value {
        json!({
            "olm.owner": "weft.v1", "olm.owner.kind": "ClusterServiceVersion",
            "olm.owner.namespace": "elsewhere"
        })
    }

    /// The commands that install an operator again, replace its definitions, and add a domain.
    fn commands(labels: &Value, annotations: &Value) -> [String; 3] {
        let operator = operator(labels, annotations);
        let again = Reinstall::of(&operator);
        let added = Reinstall::adding(&[operator], "placement");
        let definitions = again.definitions("addons");
        [again.command(), definitions, added.command()]
    }

    #[test]
    fn a_hint_names_the_tool_that_has_installed_the_operator() {
        let none = json!({});
        let crds = "weft crds --domains addons | kubectl apply -f -";
        let both = "weft manifests --domains addons,placement";
        let [again, definitions, added] = commands(&none, &none);
        let own = "weft manifests --domains addons --namespace elsewhere | kubectl apply -f -";
        assert_eq!((&*again, &*definitions), (own, crds));
        assert_eq!(
            added,
            format!("{both} --namespace elsewhere | kubectl apply -f -")
        );

        let release = json!({
            "meta.helm.sh/release-name": "nets", "meta.helm.sh/release-namespace": "elsewhere"
        });
        let [again, definitions, added] = commands(&none, &release);
        let upgrade = "helm upgrade nets CHART --namespace elsewhere --reset-then-reuse-values";
        assert_eq!((&*again, &*definitions), (upgrade, upgrade));
        let mut odd = release.clone();
        odd["meta.helm.sh/release-name"] = json!("a; b");
        let [again, ..] = commands(&none, &odd);
        assert!(again.starts_with("helm upgrade 'a; b' CHART "), "{again}");
        let values = format!("{both} -o helm-values > values.yaml && {upgrade} -f values.yaml");
        assert_eq!(added, values);

        let kustomize = json!({"app.kubernetes.io/managed-by": "kustomize"});
        let [again, definitions, added] = commands(&kustomize, &none);
        assert_eq!((&*again, &*definitions), ("kubectl apply -k DIR", &*again));
        assert!(
            added.contains(both) && added.ends_with("kubectl apply -k DIR"),
            "{added}"
        );

        let [again, definitions, added] = commands(&of_olm(), &none);
        assert!(
            again.contains("ClusterServiceVersion elsewhere/weft.v1"),
            "{again}"
        );
        assert_eq!(definitions, crds);
        let apart = "weft manifests --split --domains placement | kubectl apply -f -";
        assert_eq!(
            added, apart,
            "OLM would take a change of its Deployment back"
        );

        // Argo CD renders a chart of Helm, too.
        let mut tracked = release.clone();
        tracked["argocd.argoproj.io/tracking-id"] = json!("team_nets:apps/Deployment:a/b");
        let [again, definitions, added] = commands(&none, &tracked);
        assert_eq!(
            (&*again, &*definitions),
            ("argocd app sync team/nets", &*again)
        );
        assert!(added.contains(both) && added.ends_with(&again), "{added}");

        for (group, sync) in [
            (
                "helm",
                "flux reconcile helmrelease nets --namespace f --with-source --force",
            ),
            (
                "kustomize",
                "flux reconcile kustomization nets --namespace f --with-source",
            ),
        ] {
            let of_flux = json!({
                (format!("{group}.toolkit.fluxcd.io/name")): "nets",
                (format!("{group}.toolkit.fluxcd.io/namespace")): "f"
            });
            let [again, definitions, added] = commands(&of_flux, &none);
            assert_eq!((&*again, &*definitions), (sync, sync));
            assert!(added.contains(both) && added.ends_with(sync), "{added}");
        }
    }

    #[test]
    fn a_hint_about_olm_with_other_domains_says_what_is_in_the_way() {
        let mut rest = Reinstall::of(&operator(&of_olm(), &json!({})));
        rest.serve_only(&["node-network".to_owned()]);
        let command = rest.command();
        assert!(
            command.contains("Delete its Subscription and then it"),
            "{command}"
        );
        assert!(command.contains("--domains node-network"), "{command}");
        assert!(rest.by_manifests().command().starts_with("weft manifests "));
    }
}
