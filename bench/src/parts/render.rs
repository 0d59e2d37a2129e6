//! From a configuration to its objects, without a cluster: what `weft render` and each reconcile of
//! the operator do.

use std::{hint::black_box, time::Instant};

use anyhow::{Context, Result, anyhow};
use weft_cluster_network::{ClusterNetwork, Settings};
use weft_plan::{Domain as _, Facts, Input};

use crate::{
    figure::{Figure, Unit, median_and_max},
    lab::Setup,
};

const TIMES: usize = 200;

pub fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let domain = ClusterNetwork::new(Settings::from_env(|variable| {
        variable
            .ends_with("_IMAGE")
            .then(|| "registry.example/image:1".to_owned())
    }));
    let facts = Facts::default();
    let mut times = Vec::with_capacity(TIMES);
    let mut objects = 0;
    for _ in 0..TIMES {
        let start = Instant::now();
        let input = Input {
            resource: &setup.config,
            record: None,
            decided: None,
            facts: &facts,
            random: &mut |_| {},
        };
        let decision = domain
            .decide(black_box(input))
            .map_err(|refusal| anyhow!("the configuration is refused: {:?}", refusal.problems))?;
        times.push(start.elapsed().as_secs_f64());
        objects = black_box(decision)
            .units
            .iter()
            .map(|unit| unit.objects.len())
            .sum();
    }
    let (median, max) = median_and_max(&times);
    let objects = u32::try_from(objects).context("a number of objects")?;
    Ok(vec![
        Figure::new("rendered", Unit::Seconds, median)
            .at_most(0.005)
            .note(format!(
                "{objects} objects; median of {TIMES}, longest {:.1} ms",
                max * 1000.0
            )),
    ])
}
