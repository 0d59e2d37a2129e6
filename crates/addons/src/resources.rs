//! Requests and limits of containers, over those in the manifests.

use k8s_openapi::{api::core::v1::PodSpec, apimachinery::pkg::api::resource::Quantity};
use weft_api::{
    QuantityText,
    addons::{Amounts, CONTAINERS, ContainerResources},
};
use weft_operands::pod::containers;
use weft_plan::{Problem, quantity};

/// The requested resources, less specific entries first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(Vec<ContainerResources>);

/// Amounts by the names of their resources.
type Amount<'a> = (&'static str, &'a str);

/// The resources that can be set, by the names that Kubernetes has for them.
type Named<'a> = [(&'static str, &'a Option<QuantityText>); 3];

fn named(amounts: &Option<Amounts>) -> Named<'_> {
    const NOTHING: &Option<QuantityText> = &None;
    let Some(Amounts {
        cpu,
        memory,
        ephemeral_storage,
    }) = amounts
    else {
        return [
            ("cpu", NOTHING),
            ("memory", NOTHING),
            ("ephemeral-storage", NOTHING),
        ];
    };
    [
        ("cpu", cpu),
        ("memory", memory),
        ("ephemeral-storage", ephemeral_storage),
    ]
}

impl Resources {
    /// Checks all entries, each alone and with the others.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn of(entries: &[ContainerResources]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let mut problem = |field: &str, message: String| {
                problems.push(Problem {
                    field: format!("spec.resources[{index}]{field}"),
                    message,
                });
            };
            if let Some(same) = entries[..index]
                .iter()
                .position(|other| target(other) == target(entry))
            {
                problem(
                    "",
                    format!(
                        "is about the same containers as spec.resources[{same}]: make one entry of both"
                    ),
                );
            }
            check_target(entry, &mut problem);
            for (list, amounts) in [("requests", &entry.requests), ("limits", &entry.limits)] {
                for (name, amount) in named(amounts)
                    .into_iter()
                    .filter_map(|(name, amount)| Some((name, amount.as_ref()?)))
                {
                    if quantity(&amount.0).is_none_or(|amount| amount < 0) {
                        let message = format!(
                            "{:?} is not a quantity: write it like 100m, 2, 64Mi or 1Gi, not below zero",
                            amount.0
                        );
                        problem(&format!(".{list}.{name}"), message);
                    }
                }
            }
        }
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|entry| (entry.container.is_some(), entry.workload.is_some()));
        let resources = Self(sorted);
        if problems.is_empty() {
            problems.extend(resources.requests_above_limits());
        }
        if problems.is_empty() {
            Ok(resources)
        } else {
            Err(problems)
        }
    }

    /// The entries, as a specification has them.
    pub fn to_spec(&self) -> Option<Vec<ContainerResources>> {
        (!self.0.is_empty()).then(|| self.0.clone())
    }

    /// Reports whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets what is asked for in the pods of a workload, and leaves the rest as it is.
    pub(crate) fn apply(&self, component: &str, workload: &str, pod: &mut PodSpec) {
        for container in containers(pod) {
            let (requests, limits) = self.merged(component, workload, &container.name);
            if requests.is_empty() && limits.is_empty() {
                continue;
            }
            let resources = container.resources.get_or_insert_default();
            let amount = |text: &str| Quantity(text.to_owned());
            let all = resources.requests.get_or_insert_default();
            for (name, limit) in &limits {
                // The API server refuses a request above its limit. One that nobody asked for gives
                // way.
                if let Some(request) = all.get_mut(*name)
                    && quantity(&request.0) > quantity(limit)
                {
                    *request = amount(limit);
                }
            }
            all.extend(
                requests
                    .into_iter()
                    .map(|(name, text)| (name.to_owned(), amount(text))),
            );
            if !limits.is_empty() {
                resources.limits.get_or_insert_default().extend(
                    limits
                        .into_iter()
                        .map(|(name, text)| (name.to_owned(), amount(text))),
                );
            }
        }
    }

    /// Requests and limits of a container, by name, from all entries.
    fn merged(
        &self,
        component: &str,
        workload: &str,
        container: &str,
    ) -> (Vec<Amount<'_>>, Vec<Amount<'_>>) {
        let concerns = |entry: &&ContainerResources| {
            let (of_component, of_workload, of_container) = target(entry);
            of_component == component
                && of_workload.is_none_or(|name| name == workload)
                && of_container.is_none_or(|name| name == container)
        };
        let (mut requests, mut limits): (Vec<Amount<'_>>, Vec<Amount<'_>>) = Default::default();
        for entry in self.0.iter().filter(concerns) {
            for (list, amounts) in [
                (&mut requests, &entry.requests),
                (&mut limits, &entry.limits),
            ] {
                for (name, text) in named(amounts)
                    .into_iter()
                    .filter_map(|(name, amount)| Some((name, amount.as_ref()?)))
                {
                    list.retain(|(known, _)| *known != name);
                    list.push((name, &text.0));
                }
            }
        }
        (requests, limits)
    }

    fn requests_above_limits(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (component, workload, container) in CONTAINERS {
            let (requests, limits) = self.merged(component, workload, container);
            for (name, request) in requests {
                let limit = limits
                    .iter()
                    .find(|(limited, _)| *limited == name)
                    .map(|(_, limit)| *limit);
                if let Some(limit) = limit.filter(|limit| quantity(request) > quantity(limit)) {
                    let message = format!(
                        "container {container} of {component} ({workload}) would request {request} {name}, more than its limit of {limit}: lower the request or raise the limit"
                    );
                    problems.push(Problem {
                        field: "spec.resources".to_owned(),
                        message,
                    });
                }
            }
        }
        problems
    }
}

/// Which containers an entry is about. An empty text counts as left out.
fn target(entry: &ContainerResources) -> (&str, Option<&str>, Option<&str>) {
    (
        &entry.component,
        entry.workload.as_deref().filter(|text| !text.is_empty()),
        entry.container.as_deref().filter(|text| !text.is_empty()),
    )
}

fn check_target(entry: &ContainerResources, problem: &mut impl FnMut(&str, String)) {
    let (component, workload, container) = target(entry);
    let names = |mut names: Vec<&str>| {
        names.dedup();
        names.join(", ")
    };
    let of_component: Vec<_> = CONTAINERS
        .iter()
        .filter(|(name, _, _)| *name == component)
        .collect();
    if of_component.is_empty() {
        let known = names(
            CONTAINERS
                .iter()
                .map(|(component, _, _)| *component)
                .collect(),
        );
        return problem(
            ".component",
            format!("{component:?} is not a component: use one of {known}"),
        );
    }
    let of_workload: Vec<_> = of_component
        .iter()
        .filter(|(_, name, _)| workload.is_none_or(|workload| workload == *name))
        .collect();
    if of_workload.is_empty() {
        let known = names(
            of_component
                .iter()
                .map(|(_, workload, _)| *workload)
                .collect(),
        );
        let workload = workload.unwrap_or_default();
        return problem(
            ".workload",
            format!(
                "{workload:?} is not a DaemonSet or Deployment of {component}: use one of {known}, or leave it out"
            ),
        );
    }
    if let Some(container) = container
        && !of_workload.iter().any(|(_, _, name)| *name == container)
    {
        let known = names(
            of_workload
                .iter()
                .map(|(_, _, container)| *container)
                .collect(),
        );
        problem(
            ".container",
            format!("{container:?} is not a container there: use one of {known}, or leave it out"),
        );
    }
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
