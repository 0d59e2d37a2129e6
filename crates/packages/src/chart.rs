//! The Helm chart. People write `deploy/helm`; the templates of objects are made from what
//! `weft manifests` prints for each domain and each component.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weft_operands::image::{Parts, parts};

use crate::{
    domains::{CLUSTER_NETWORK, DOMAINS, Domain, NODE_NETWORK},
    files::Files,
    manifests::{Program, key},
    permissions::{Permission, apart, together},
    release::{Images, VERSION},
};

/// Words that `weft manifests` is given, and that the templates have expressions for.
const NAMESPACE: &str = "namespace-of-the-release";
const IMAGE: &str = "image.invalid/of-the-operator:1";
const AGENT_IMAGE: &str = "image.invalid/of-the-agents:1";
const SERVED: &str = "namespace-with-placement";
/// Words that are put into objects for the same reason.
const ENVIRONMENT: &str = "environment-of-the-operator";
const POLICY: &str = "policy-of-the-pull";
const CHOSEN: &str = "domains-of-the-operator";
const REPLICAS: &str = "replicas-of-the-operator";
const RESOURCES: &str = "resources-of-the-operator";
/// Words of the choices that only some installations have.
const NODE_KUBECONFIG: &str = "/path/of-the-kubeconfig/on-nodes";
const READER_NAMESPACE: &str = "namespace-of-prometheus";
const READER_ACCOUNT: &str = "account-of-prometheus";
const ALERTED: &str = "domains-of-the-alerts";

/// Returns the files of the chart.
///
/// # Errors
/// `weft manifests` cannot be run, or prints something that the chart has no template for: a defect
/// of this program.
pub fn files(program: &Program, images: &Images) -> Result<Files> {
    let written: [(&str, &str); 7] = [
        (
            "Chart.yaml",
            include_str!("../../../deploy/helm/Chart.yaml"),
        ),
        (
            "values.yaml",
            include_str!("../../../deploy/helm/values.yaml"),
        ),
        (
            "values.schema.json",
            include_str!("../../../deploy/helm/values.schema.json"),
        ),
        ("README.md", include_str!("../../../deploy/helm/README.md")),
        (
            "templates/_helpers.tpl",
            include_str!("../../../deploy/helm/templates/_helpers.tpl"),
        ),
        (
            "templates/NOTES.txt",
            include_str!("../../../deploy/helm/templates/NOTES.txt"),
        ),
        (
            "templates/tests/operator.yaml",
            include_str!("../../../deploy/helm/templates/tests/operator.yaml"),
        ),
    ];
    let mut files: Files = written
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.replace("0.0.0", VERSION)))
        .collect();
    if let Some(values) = files.get_mut("values.yaml") {
        for (written, image) in [
            ("localhost/weft", &images.operator),
            ("localhost/weft-agent", &images.agent),
        ] {
            set_image(values, written, &image.to_string())?;
        }
    }
    let mut definitions = String::new();
    let mut of_domains = Vec::new();
    for domain in &DOMAINS {
        let objects = domain.objects(program, &[])?;
        definitions += &domain.when_enabled(&definitions_of(&objects)?);
        let name = format!("templates/{}.yaml", domain.name);
        files.insert(name, domain.template(program, &objects)?);
        of_domains.push(objects);
    }
    files.insert("templates/definitions.yaml".to_owned(), definitions);
    let operator = operator(program, &of_domains)?;
    files.insert("templates/operator.yaml".to_owned(), operator);
    let monitoring = monitoring(program)?;
    files.insert("templates/monitoring.yaml".to_owned(), monitoring);
    Ok(files)
}

/// Writes an image into the values.
fn set_image(values: &mut String, written: &str, image: &str) -> Result<()> {
    let write = |repository: &str, tag: &str, digest: &str| {
        format!("  repository: {repository}\n  tag: {tag:?}\n  digest: {digest:?}\n")
    };
    let Parts {
        repository,
        tag,
        digest,
    } = parts(image);
    let old = write(written, "", "");
    if !values.contains(&old) {
        bail!("deploy/helm/values.yaml does not name the image {written}");
    }
    // Without a tag, that of the chart counts.
    let tag = if tag == VERSION { "" } else { tag };
    *values = values.replace(&old, &write(repository, tag, digest));
    Ok(())
}

impl Domain {
    fn objects(&self, program: &Program, more: &[&str]) -> Result<Vec<Value>> {
        let common = [
            "--domains",
            self.name,
            "--namespace",
            NAMESPACE,
            "--image",
            IMAGE,
            "--agent-image",
            AGENT_IMAGE,
            "--image-pull-policy",
            "Never",
        ];
        let served: &[&str] = match self.name == "placement" && more.is_empty() {
            true => &["--placement-namespaces", SERVED],
            false => &[],
        };
        program.manifests(&[&common, served, more].concat())
    }

    fn when_enabled(&self, text: &str) -> String {
        when(&format!("$.Values.{}.enabled", self.values), text)
    }

    /// Returns the objects of this domain alone.
    fn template(&self, program: &Program, objects: &[Value]) -> Result<String> {
        if self.name == "placement" {
            return Ok(self.when_enabled(&self.placed(program, objects)?));
        }
        let mut by_component = Vec::new();
        for component in self.components {
            // Multus serves its requests, so no installation has it alone.
            let with = match *component {
                "multus-dynamic-networks" => "multus,multus-dynamic-networks",
                alone => alone,
            };
            let objects = self.objects(program, &["--components", with])?;
            by_component.push((*component, index(objects)));
        }
        let mut text = String::new();
        for object in objects.iter().filter(|object| !is_shared(object)) {
            let mut seen: BTreeMap<&str, &Value> = BTreeMap::new();
            for (component, objects) in &by_component {
                if let Some(found) = objects.get(&key(object)) {
                    seen.insert(component, found);
                }
            }
            let body = self
                .object(object, &seen)
                .with_context(|| format!("{:?}", key(object)))?;
            let with: BTreeSet<&str> = seen.into_keys().collect();
            text += &self.when_chosen(&with, &body);
        }
        Ok(self.when_enabled(&text))
    }

    /// Returns the template of an object that looks like this with all components, and like these
    /// with one.
    fn object(&self, object: &Value, seen: &BTreeMap<&str, &Value>) -> Result<String> {
        if object.get("rules").is_none() {
            if seen.values().any(|other| *other != object) {
                bail!("differs with the components, and the chart has no template for that");
            }
            return document(object);
        }
        let mut needed: BTreeMap<Permission, BTreeSet<&str>> = BTreeMap::new();
        for (component, object) in seen {
            for permission in apart(&object["rules"]) {
                needed.entry(permission).or_default().insert(component);
            }
        }
        // Some belong to no component: they are for objects of the replaced operator.
        let without_choice: Vec<Permission> = apart(&object["rules"])
            .into_iter()
            .filter(|permission| !needed.contains_key(permission))
            .collect();
        let mut groups: BTreeMap<BTreeSet<&str>, Vec<&Permission>> = BTreeMap::new();
        for (permission, components) in &needed {
            groups
                .entry(components.clone())
                .or_default()
                .push(permission);
        }
        let mut rest = object.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("rules");
        }
        let mut text = document(&rest)? + "rules:\n";
        for (components, permissions) in groups {
            let rules = yaml(&json!(together(permissions)))?;
            text += &self.when_chosen(&components, &rules);
        }
        if !without_choice.is_empty() {
            let rules = yaml(&json!(together(&without_choice)))?;
            text += &match self.components {
                [] => rules,
                _ => when(&format!("not $.Values.{}.components", self.values), &rules),
            };
        }
        Ok(text)
    }

    /// Text that is there if one of these components is chosen. None and all mean always.
    fn when_chosen(&self, components: &BTreeSet<&str>, text: &str) -> String {
        if components.is_empty() || components.len() == self.components.len() {
            return text.to_owned();
        }
        let names: Vec<String> = components.iter().map(|name| format!("{name:?}")).collect();
        when(
            &format!(
                "include \"weft.chosen\" (dict \"chosen\" $.Values.{}.components \"any\" (list {}))",
                self.values,
                names.join(" ")
            ),
            text,
        )
    }

    /// The objects of Placement: those in a served namespace once for each of them, and other ones
    /// where all namespaces are served.
    fn placed(&self, program: &Program, objects: &[Value]) -> Result<String> {
        let everywhere = self.objects(program, &["--placement-namespaces", "*"])?;
        let everywhere = index(everywhere);
        let (mut always, mut in_each) = (String::new(), String::new());
        let mut keys = BTreeSet::new();
        for object in objects.iter().filter(|object| !is_shared(object)) {
            keys.insert(key(object));
            let (_, namespace, _) = key(object);
            if namespace == SERVED {
                in_each += &document(object)?.replace(SERVED, "{{ . }}");
            } else if everywhere.get(&key(object)) == Some(object) {
                always += &document(object)?;
            } else {
                bail!(
                    "{:?} differs with the namespaces, and the chart has no template for that",
                    key(object)
                );
            }
        }
        let mut instead = String::new();
        for (key, object) in &everywhere {
            if !is_shared(object) && !keys.contains(key) {
                instead += &document(object)?;
            }
        }
        Ok(format!(
            "{always}{{{{- if has \"*\" $.Values.placement.namespaces }}}}\n{instead}{{{{- else }}}}\n{{{{- range $.Values.placement.namespaces }}}}\n{in_each}{{{{- end }}}}\n{{{{- end }}}}\n"
        ))
    }
}

/// ServiceAccount and Deployment, which all domains share, and the namespace of the release, which
/// is Helm's. Definitions have a template of their own.
fn is_shared(object: &Value) -> bool {
    let (kind, _, name) = key(object);
    ["ServiceAccount", "Deployment", "CustomResourceDefinition"].contains(&kind.as_str())
        || (kind == "Namespace" && name == NAMESPACE)
}

fn index(objects: Vec<Value>) -> BTreeMap<(String, String, String), Value> {
    objects
        .into_iter()
        .map(|object| (key(&object), object))
        .collect()
}

fn definitions_of(objects: &[Value]) -> Result<String> {
    let mut text = String::new();
    for object in objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
    {
        text += &document(object)?;
    }
    Ok(text)
}

fn when(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// A document of a template. Helm removes neither definitions nor namespaces: the objects of users
/// would go with them.
fn document(object: &Value) -> Result<String> {
    let mut object = object.clone();
    if ["CustomResourceDefinition", "Namespace"]
        .iter()
        .any(|kind| object["kind"] == *kind)
    {
        object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    }
    Ok(format!("---\n{}", yaml(&object)?))
}

/// YAML with Helm's expressions in the place of our words.
fn yaml(value: &Value) -> Result<String> {
    let text = serde_saphyr::to_string(value).context("cannot write YAML")?;
    let text = text.replace("{{", "{{ \"{{\" }}");
    Ok([
        (NAMESPACE, "{{ $.Release.Namespace }}"),
        (IMAGE, "{{ include \"weft.image\" $ }}"),
        (AGENT_IMAGE, "{{ include \"weft.agentImage\" $ }}"),
        (POLICY, "{{ $.Values.image.pullPolicy }}"),
        (CHOSEN, "{{ include \"weft.domains\" $ }}"),
        (REPLICAS, "{{ $.Values.replicas }}"),
        (
            NODE_KUBECONFIG,
            "{{ $.Values.clusterNetwork.nodeKubeconfig }}",
        ),
        (
            READER_NAMESPACE,
            "{{ $.Values.monitoring.prometheus.namespace }}",
        ),
        (
            READER_ACCOUNT,
            "{{ $.Values.monitoring.prometheus.serviceAccount }}",
        ),
        (
            ALERTED,
            "{{ include \"weft.domains\" $ | replace \",\" \"|\" }}",
        ),
    ]
    .iter()
    .fold(text, |text, (word, expression)| {
        text.replace(word, expression)
    }))
}

/// The operator's account and Deployment. With cluster-network its pod is another one.
fn operator(program: &Program, of_domains: &[Vec<Value>]) -> Result<String> {
    let find = |objects: &[Value], kind: &str| {
        let found = objects.iter().find(|object| object["kind"] == kind);
        found.cloned().with_context(|| format!("no {kind}"))
    };
    let account = document(&find(&of_domains[0], "ServiceAccount")?)?;
    let deployments = of_domains
        .iter()
        .map(|objects| find(objects, "Deployment"))
        .collect::<Result<Vec<_>>>()?;
    let environment = environment(program, &deployments)?;
    let place = |name| DOMAINS.iter().position(|domain| domain.name == name);
    let of = |name| &deployments[place(name).unwrap_or(0)];
    let network = place(CLUSTER_NETWORK).unwrap_or(0);
    let with_kubeconfig =
        DOMAINS[network].objects(program, &["--node-kubeconfig", NODE_KUBECONFIG])?;
    let variants = [
        &find(&with_kubeconfig, "Deployment")?,
        of(CLUSTER_NETWORK),
        of("addons"),
    ];
    let [kubeconfig, network, usual] = variants.map(deployment);
    Ok(format!(
        "{{{{- define \"weft.variables\" -}}}}\n{environment}{{{{- end -}}}}\n{account}{{{{- if and $.Values.clusterNetwork.enabled $.Values.clusterNetwork.nodeKubeconfig }}}}\n{}{{{{- else if $.Values.clusterNetwork.enabled }}}}\n{}{{{{- else }}}}\n{}{{{{- end }}}}\n",
        kubeconfig?, network?, usual?
    ))
}

/// The objects for Prometheus Operator. Some alerts are about the domain node-network alone.
fn monitoring(program: &Program) -> Result<String> {
    let reader = format!("--monitoring={READER_NAMESPACE}/{READER_ACCOUNT}");
    let added = |domains: &[&str]| -> Result<String> {
        let chosen = domains.join(",");
        let arguments = ["--domains", &chosen, "--namespace", NAMESPACE];
        let without = program.manifests(&arguments)?;
        let with = program.manifests(&[&arguments[..], &[&reader]].concat())?;
        let without: BTreeSet<_> = without.iter().map(key).collect();
        let added: Vec<Value> = with
            .into_iter()
            .filter(|object| !without.contains(&key(object)))
            .collect();
        if !added
            .iter()
            .any(|object| object["kind"] == "PrometheusRule")
        {
            bail!(
                "weft manifests {} {reader} adds no PrometheusRule",
                arguments.join(" ")
            );
        }
        let mut text = String::new();
        for mut object in added {
            alert_about_chosen(&mut object, &domains.join("|"));
            text += &document(&object)?;
        }
        Ok(text)
    };
    let all = DOMAINS.map(|domain| domain.name);
    let others: Vec<&str> = all
        .into_iter()
        .filter(|name| *name != NODE_NETWORK)
        .collect();
    Ok(when(
        "$.Values.monitoring.enabled",
        &format!(
            "{{{{- if $.Values.nodeNetwork.enabled }}}}\n{}{{{{- else }}}}\n{}{{{{- end }}}}\n",
            added(&all)?,
            added(&others)?
        ),
    ))
}

/// Puts our word into all texts of an object, in the place of the domains in an alert.
fn alert_about_chosen(value: &mut Value, domains: &str) {
    match value {
        Value::String(text) => *text = text.replace(domains, ALERTED),
        Value::Array(parts) => parts
            .iter_mut()
            .for_each(|part| alert_about_chosen(part, domains)),
        Value::Object(parts) => parts
            .values_mut()
            .for_each(|part| alert_about_chosen(part, domains)),
        _ => {}
    }
}

/// The lines of the operator's variables, of this indentation. Those in the user's values come in the
/// place of others of the same name: the API server refuses a name that an apply has twice.
fn variables(indent: &str) -> String {
    format!(
        "{indent}env:
{{{{- $chosen := list }}}}
{{{{- range $.Values.env }}}}
{{{{- $chosen = append $chosen .name }}}}
{{{{- end }}}}
{{{{- range include \"weft.variables\" $ | fromYamlArray }}}}
{{{{- if not (has .name $chosen) }}}}
{indent}- {{{{ toJson . }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- range $.Values.env }}}}
{indent}- {{{{ toJson . }}}}
{{{{- end }}}}
"
    )
}

fn deployment(shipped: &Value) -> Result<String> {
    let mut object = shipped.clone();
    object["spec"]["replicas"] = REPLICAS.into();
    let container = &mut object["spec"]["template"]["spec"]["containers"][0];
    let resources = serde_json::to_string(&container["resources"])?;
    container["env"] = ENVIRONMENT.into();
    container["imagePullPolicy"] = POLICY.into();
    container["resources"] = RESOURCES.into();
    let arguments = container["args"].as_array_mut().into_iter().flatten();
    if let Some(domains) = arguments
        .skip_while(|argument| **argument != "--domains")
        .nth(1)
    {
        *domains = CHOSEN.into();
    }
    let mut text = String::new();
    for line in document(&object)?.lines() {
        let indent = " ".repeat(line.len() - line.trim_start().len());
        match line.trim() {
            written if written.ends_with(ENVIRONMENT) => text += &variables(&indent),
            written if written.ends_with(RESOURCES) => {
                text += &format!(
                    "{indent}resources: {{{{ $.Values.resources | default (fromJson `{resources}`) | toJson }}}}\n"
                );
            }
            written if written.starts_with("serviceAccountName:") => {
                text += &format!("{line}\n");
                for field in ["imagePullSecrets", "nodeSelector"] {
                    text += &format!(
                        "{{{{- with $.Values.{field} }}}}\n{indent}{field}: {{{{ toJson . }}}}\n{{{{- end }}}}\n"
                    );
                }
            }
            "tolerations:" => {
                text += &format!(
                    "{line}\n{{{{- range $.Values.tolerations }}}}\n{indent}- {{{{ toJson . }}}}\n{{{{- end }}}}\n"
                );
            }
            _ => text += &format!("{line}\n"),
        }
    }
    Ok(text)
}

/// The operator's variables: those of all domains, and those of each.
fn environment(program: &Program, deployments: &[Value]) -> Result<String> {
    let of = |deployment: &Value| -> Vec<Value> {
        let found = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
        found.as_array().cloned().unwrap_or_default()
    };
    let is_common = |variable: &Value| deployments.iter().all(|other| of(other).contains(variable));
    let common: Vec<Value> = of(&deployments[0]).into_iter().filter(is_common).collect();
    let mut text = yaml(&json!(common))?;
    for (domain, deployment) in DOMAINS.iter().zip(deployments) {
        let mut own = String::new();
        for variable in of(deployment)
            .iter()
            .filter(|variable| !is_common(variable))
        {
            own += &own_variable(variable)?;
        }
        own += &chosen_by_user(program, domain, deployment)?;
        text += &domain.when_enabled(&own);
    }
    Ok(text)
}

/// A variable that `weft manifests` always sets for a domain.
fn own_variable(variable: &Value) -> Result<String> {
    let name = variable["name"].as_str().unwrap_or_default();
    if variable["value"] == SERVED {
        return Ok(format!(
            "- name: {name}\n  value: {{{{ join \",\" $.Values.placement.namespaces | quote }}}}\n"
        ));
    }
    // Only set where the policy is not the usual one.
    if variable["value"] == "Never" {
        return Ok(when(
            "ne $.Values.image.pullPolicy \"IfNotPresent\"",
            &format!("- name: {name}\n  value: {{{{ $.Values.image.pullPolicy }}}}\n"),
        ));
    }
    yaml(&json!([variable]))
}

/// The variables that a domain has only if the user chooses something.
fn chosen_by_user(program: &Program, domain: &Domain, deployment: &Value) -> Result<String> {
    let (arguments, condition, values): (Vec<&str>, _, &[&str]) = match domain.name {
        "addons" => (
            vec!["--components", domain.components[0]],
            "$.Values.addons.components",
            &["join \",\" $.Values.addons.components"],
        ),
        CLUSTER_NETWORK => (
            vec!["--api-server", "https://192.0.2.1:6443"],
            "$.Values.clusterNetwork.apiServer.host",
            &[
                "$.Values.clusterNetwork.apiServer.host",
                "$.Values.clusterNetwork.apiServer.port | toString",
            ],
        ),
        "placement" => (
            vec![
                "--placement-namespaces",
                SERVED,
                "--keystone-urls",
                "https://keystone.invalid",
            ],
            "$.Values.placement.keystoneUrls",
            &["join \",\" $.Values.placement.keystoneUrls"],
        ),
        _ => return Ok(String::new()),
    };
    let names = |deployment: &Value| -> Vec<String> {
        let found = deployment.pointer("/spec/template/spec/containers/0/env");
        let found = found.and_then(Value::as_array).into_iter().flatten();
        found
            .filter_map(|variable| variable["name"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let objects = domain.objects(program, &arguments)?;
    let with = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .context("no Deployment")?;
    let before = names(deployment);
    let added: Vec<String> = names(with)
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    if added.len() != values.len() {
        bail!("{}: {arguments:?} adds {added:?}", domain.name);
    }
    let mut text = String::new();
    for (name, value) in added.iter().zip(values) {
        text += &format!("- name: {name}\n  value: {{{{ {value} | quote }}}}\n");
    }
    Ok(when(condition, &text))
}
