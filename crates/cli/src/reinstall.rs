//! The command line of `weft manifests` for an operator that is installed: for hints that a user can
//! run as they are.

use std::collections::BTreeMap;

use weft_node_network::deployment::settings as agent;
use weft_placement::domain::{KEYSTONES_VARIABLE, NAMESPACES_VARIABLE};
use weft_runtime::inspect::presence::Operator;

use crate::{
    domains::{self, Entry, OPERATOR_IMAGE},
    install::{SINGLE_NAMESPACE, SINGLE_OPERATOR},
};

/// A command line of `weft manifests`.
#[derive(Clone, Default)]
pub struct Reinstall {
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
        found
    }

    /// Returns the command that installs Weft for a domain, next to what these operators serve.
    pub fn adding(operators: &[Operator], domain: &str) -> Self {
        let serves = |operator: &&Operator| operator.domains.iter().any(|name| name == domain);
        let is_single = |operator: &&Operator| operator.workload.name == SINGLE_OPERATOR;
        let found = operators.iter().find(serves);
        let found = found.or_else(|| operators.iter().find(is_single));
        let mut command = found.map(Self::of).unwrap_or_default();
        command.serve(domain);
        command
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

    /// Returns the command, for a shell.
    pub fn command(&self) -> String {
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
        words.join(" ") + " | kubectl apply -f -"
    }
}

/// Returns the value of `--api-server`.
pub fn address(host: &str, port: &str) -> String {
    match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
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
}
