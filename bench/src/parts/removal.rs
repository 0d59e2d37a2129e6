//! A component is removed, a configuration is deleted: until their objects are gone.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};
use weft_plan::Live;

use crate::{
    domain::Domain,
    figure::{Figure, Unit, median_and_max},
    lab::{Lab, Setup},
    objects::Applied,
    recording, wait,
};

pub async fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let applied = recording::applied(setup).await?;
    let lab = Lab::start(setup).await?;
    let nothing = recording::everything(&lab).await?;
    let operator = lab.operator("weft-1", None).await?;
    lab.leads(&operator).await?;
    lab.create_config().await?;
    lab.wait_available().await?;

    let mut times = Vec::new();
    let mut notes = Vec::new();
    for component in components(&setup.config) {
        let gone = of_component(setup, applied, component)?;
        lab.wait_quiet().await?;
        let start = Instant::now();
        lab.patch_config(&json!({"spec": {component: null}}))
            .await?;
        wait_gone(&lab, &gone).await?;
        times.push(start.elapsed().as_secs_f64());
        notes.push(format!(
            "{component} {:.0} ms ({})",
            start.elapsed().as_secs_f64() * 1000.0,
            gone.len()
        ));
        lab.wait_available().await?;
        lab.patch_config(&json!({"spec": {component: setup.config["spec"][component]}}))
            .await?;
        lab.wait_available().await?;
    }

    lab.wait_quiet().await?;
    let all: Vec<_> = applied
        .iter()
        .filter(|object| !matches!(object.kind(), "Namespace" | "CustomResourceDefinition"))
        .collect();
    let start = Instant::now();
    lab.delete_config().await?;
    wait::until("the configuration is gone", async || {
        Ok(lab.config().await?.is_none().then_some(()))
    })
    .await?;
    let config_gone = start.elapsed().as_secs_f64();
    wait_gone(&lab, &all).await?;
    wait::until("the pods are gone", async || {
        Ok(has_no_pods(&lab).await?.then_some(()))
    })
    .await?;
    let everything_gone = start.elapsed().as_secs_f64();
    let left: Vec<_> = recording::everything(&lab)
        .await?
        .into_iter()
        .filter(|title| !nothing.contains(title))
        .collect();
    let (definitions, other): (Vec<_>, Vec<_>) = left
        .into_iter()
        .partition(|title| title.starts_with("CustomResourceDefinition "));
    drop(operator);
    Ok(vec![
        Figure::new(
            "component removed: until its objects are gone",
            Unit::Seconds,
            median_and_max(&times).1,
        )
        .at_most(0.5)
        .cnao("0.4 to 0.8 s")
        .note(format!("longest of {}", notes.join(", "))),
        Figure::new(
            "configuration deleted: until nothing is left, pods included",
            Unit::Seconds,
            everything_gone,
        )
        .at_most(3.0)
        .cnao("5 s")
        .note(format!("the configuration itself after {config_gone:.2} s")),
        Figure::new(
            "configuration deleted: what is left but CRDs",
            Unit::Count,
            f64::from(u32::try_from(other.len())?),
        )
        .at_most(0.0)
        .cnao("a label")
        .note(if other.is_empty() {
            definitions.join(", ")
        } else {
            other.join(", ")
        }),
    ])
}

/// The components that a configuration asks for and that no other one needs: its fields that are
/// objects and lead to objects.
fn components(config: &Value) -> Vec<&str> {
    let spec = &config["spec"];
    let is_needed = |name: &str| name == "multus" && spec["multusDynamicNetworks"].is_object();
    let optional = spec.as_object().into_iter().flatten();
    optional
        .filter(|(name, value)| {
            let is_option = matches!(
                name.as_str(),
                "placementConfiguration" | "tlsSecurityProfile" | "selfSignConfiguration"
            );
            value.is_object() && !is_option && !is_needed(name)
        })
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Objects that Weft renders no longer without the component. Definitions stay, because objects of
/// other users may exist.
fn of_component<'a>(
    setup: &Setup,
    applied: &'a [Applied],
    component: &str,
) -> Result<Vec<&'a Applied>> {
    let mut without = setup.config.clone();
    if let Some(spec) = without["spec"].as_object_mut() {
        spec.remove(component);
    }
    let kept = recording::rendered(setup, &without)?;
    Ok(applied
        .iter()
        .filter(|object| {
            !kept.contains(&object.title()) && object.kind() != "CustomResourceDefinition"
        })
        .collect())
}

async fn wait_gone(lab: &Lab<'_>, objects: &[&Applied]) -> Result<()> {
    for object in objects {
        wait::until(&format!("{} is gone", object.title()), async || {
            Ok(lab.rest.get(&object.path).await?.is_none().then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// But for the pod of the operator's own Deployment, which is not removed.
async fn has_no_pods(lab: &Lab<'_>) -> Result<bool> {
    let Domain {
        namespace,
        operator,
        ..
    } = lab.setup.domain;
    let pods = lab
        .rest
        .get(&format!("/api/v1/namespaces/{namespace}/pods"))
        .await?
        .unwrap_or_default();
    Ok(pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .all(|pod| Live::of(pod).label("name") == Some(*operator)))
}
