//! The images that an operator in the cluster gives its operands. With the same images, the switch
//! to Weft restarts only pods whose template has to change.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use weft_node_network::deployment::settings as agent;
use weft_operands::image::ImageReference;
use weft_plan::{Live, ObjectKey, is_at_rest};
use weft_runtime::inspect::presence;

use crate::{
    domains::{Entry, Proof},
    online::{Online, Site},
};

/// The images of an operator, as far as Weft can take them over.
#[derive(Default)]
pub struct RunningImages {
    /// The operator's workload. `None` if there is no operator.
    pub operator: Option<ObjectKey>,
    /// The images, by the variables that name them.
    pub images: BTreeMap<&'static str, String>,
    /// Reasons why Weft takes its own images instead of others, for people.
    pub notes: Vec<String>,
}

impl RunningImages {
    /// Reads the images of the operator of a domain.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn find(online: &Online, site: &Site) -> Result<Self> {
        let originals = presence::originals(&online.cluster, &*site.domain)
            .await
            .map_err(|error| online.explain(error))?;
        Self::among(online, site, &originals).await
    }

    /// Reads the images of the operator that Weft replaces, which is among these objects. Where it
    /// does not run, Weft's own operator counts first.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn among(online: &Online, site: &Site, originals: &[Value]) -> Result<Self> {
        let workloads = || {
            originals
                .iter()
                .filter(|original| original.pointer("/spec/template").is_some())
        };
        let running = workloads().find(|original| !is_at_rest(original));
        match (running, &site.operator) {
            (Some(original), _) => Self::of_original(online, site.entry, original).await,
            (None, Some(operator)) => Ok(Self::of(
                site.entry,
                operator.workload.clone(),
                &operator.environment,
            )),
            (None, None) => match workloads().next() {
                Some(original) => Self::of_original(online, site.entry, original).await,
                None => Ok(Self::default()),
            },
        }
    }

    /// The images in this environment of an operator, but for the image of Weft's agents. No other
    /// operator has that, and `weft manifests` has an option for it.
    fn of(entry: &Entry, operator: ObjectKey, environment: &BTreeMap<String, String>) -> Self {
        let mut found = Self::default();
        for (variable, _) in (entry.install.images)() {
            let image = environment
                .get(variable)
                .map(|image| image.trim())
                .filter(|image| !image.is_empty() && variable != agent::IMAGE_VARIABLE);
            match image.map(str::parse::<ImageReference>) {
                None => {}
                Some(Ok(image)) => {
                    found.images.insert(variable, image.to_string());
                }
                Some(Err(error)) => found.notes.push(format!(
                    "{variable} of {}: {error}. Weft takes its own image",
                    operator.human()
                )),
            }
        }
        found.operator = Some(operator);
        found
    }

    /// The same of the operator that Weft replaces, without images that may not run as Weft deploys
    /// them.
    async fn of_original(online: &Online, entry: &Entry, original: &Value) -> Result<Self> {
        let Some(operator) = ObjectKey::of(original) else {
            return Ok(Self::default());
        };
        let environment = presence::environment(original);
        let mut found = Self::of(entry, operator, &environment);
        if found.images.is_empty() {
            return Ok(found);
        }
        let release = release(original);
        if let (Some(release), Some(first)) = (release, entry.install.first_images)
            && is_older(&release, first)
        {
            found.images.clear();
            found.notes.push(format!(
                "Weft takes its own images: those of release {release} may not run as Weft deploys them, which those of {first} and later do"
            ));
            return Ok(found);
        }
        let operands = environment
            .get(entry.install.namespace_variable)
            .map_or(Live::of(original).namespace(), String::as_str);
        for proof in entry.install.proofs {
            let workload = ObjectKey::new(proof.workload.0, operands, proof.workload.1);
            let live = online
                .cluster
                .get(&workload)
                .await
                .map_err(|error| online.explain(error))?;
            if live.as_ref().is_some_and(|live| proof.is_in(live)) {
                continue;
            }
            // Where nothing runs with the image, nothing restarts for another one.
            if found.images.remove(proof.variable).is_some() && live.is_some() {
                found.notes.push(format!(
                    "Weft takes its own {}: the image of {} does not know the argument {}",
                    proof.variable,
                    workload.human(),
                    proof.argument.trim_end_matches('=')
                ));
            }
        }
        Ok(found)
    }
}

impl Proof {
    /// Reports whether a container of the workload has the argument.
    fn is_in(&self, workload: &Value) -> bool {
        let containers = workload
            .pointer("/spec/template/spec/containers")
            .and_then(Value::as_array);
        let mut arguments = containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["args"].as_array())
            .flatten()
            .filter_map(Value::as_str);
        arguments.any(|argument| argument.starts_with(self.argument))
    }
}

/// Variables by which the operators of this field give their release.
const VERSION_VARIABLES: [&str; 3] = [
    "OPERATOR_VERSION",
    "RELEASE_VERSION",
    "OPENSTACK_RELEASE_VERSION",
];

/// The release of an operator that Weft replaces, as far as it says it.
pub fn release(original: &Value) -> Option<String> {
    let environment = presence::environment(original);
    VERSION_VARIABLES
        .iter()
        .find_map(|name| environment.get(*name).cloned())
}

/// Reports whether a release is older than another one, by its major and minor version. A release
/// that is no number is not.
fn is_older(release: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.trim_start_matches('v').split(['.', '-', '+']);
        parts.map_while(|part| part.parse().ok()).take(2).collect()
    };
    let release = numbers(release);
    !release.is_empty() && release < numbers(than)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_plan::kinds;

    use super::*;
    use crate::domains;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, older) in [
            ("0.101.2", true),
            ("v0.89.3", true),
            ("0.102.0", false),
            ("0.102.0-rc-0", false),
            ("v4.18.3", false),
            ("99.0.0", false),
            ("latest", false),
            ("", false),
        ] {
            assert_eq!(is_older(release, "0.102.0"), older, "{release}");
        }
    }

    #[test]
    fn an_argument_proves_that_the_image_knows_it() {
        let addons = &domains::chosen(&["addons".to_owned()])[0].install;
        let [proof] = addons.proofs else {
            panic!("one proof")
        };
        let workload = |args: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "manager", "args": args}]}}}});
        assert!(proof.is_in(&workload(json!([
            "--v=production",
            "--tls-min-version=VersionTLS13"
        ]))));
        assert!(!proof.is_in(&workload(json!(["--v=production"]))));
        assert!(!proof.is_in(&workload(Value::Null)));
    }

    #[test]
    fn images_are_those_of_operands_as_far_as_they_are_references() {
        let images = |domain: &str, environment: &[(&str, &str)]| {
            let environment = environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let operator = ObjectKey::new(kinds::DEPLOYMENT, "n", "o");
            let entry = domains::chosen(&[domain.to_owned()])[0];
            RunningImages::of(entry, operator, &environment)
        };
        let found = images(
            "addons",
            &[
                (
                    "MULTUS_IMAGE",
                    " registry.example/multus@sha256:0123456789012345678901234567890123456789012345678901234567890123 ",
                ),
                ("OVS_CNI_IMAGE", ""),
                ("CORE_DNS_IMAGE", "registry.example/Core:1"),
                ("OPERATOR_IMAGE", "registry.example/operator:1"),
            ],
        );
        let names: Vec<_> = found.images.keys().copied().collect();
        assert_eq!(names, ["MULTUS_IMAGE"]);
        assert!(found.images["MULTUS_IMAGE"].starts_with("registry.example/multus@"));
        assert!(
            matches!(&found.notes[..], [note] if note.starts_with("CORE_DNS_IMAGE of Deployment n/o: ")),
            "{:?}",
            found.notes
        );
        let agents = images(
            "node-network",
            &[(agent::IMAGE_VARIABLE, "registry.example/handler:1")],
        );
        assert!(agents.images.is_empty());
    }
}
