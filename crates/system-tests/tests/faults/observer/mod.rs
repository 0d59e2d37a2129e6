//! An observer outside of Weft recomputes the truth after each of many random user actions and
//! faults, and compares it with status, kstatus and Argo CD's verdict.
//!
//! The observer reads the API server as any client does. It takes from Weft only which objects a
//! configuration asks for (`weft render`), and finds out by itself whether they are there, are as
//! they should be, and are rolled out.
//!
//! | file | has |
//! | --- | --- |
//! | `world.rs` | the cluster, and the steps of the test |
//! | `look.rs`, `report.rs` | a look at all resources, and the report about one that is wrong |
//! | `actions.rs`, `deeds.rs` | the actions that users take, and how they take them |
//! | `troubles.rs`, `ways.rs` | troubles that last until they are lifted, and faults during an action |
//! | `wanted.rs`, `truth.rs` | the objects that a resource asks for, and their state |
//! | `policies.rs` | policies of the nodes' networks, whose agents the test plays |
//! | `verdict.rs` | the rules by which status and the tools agree with a truth |
//!
//! Each change must pass 25 actions and faults, the same ones in each run, so that only a change of the
//! code can make the test fail. Four other tests draw 250 each, with `WEFT_EXHAUSTIVE=1` 1,000, and as
//! many as `WEFT_TRIALS` says if it is set. Of them, the first one repeats the seed `WEFT_SEED`.

mod actions;
mod deeds;
mod look;
mod policies;
mod report;
mod troubles;
mod truth;
mod verdict;
mod wanted;
mod ways;
mod world;

use rand::{SeedableRng, rngs::StdRng};
use weft_system_tests::{is_exhaustive, seed};

use world::World;

/// The seed of the sample.
const SAMPLE: u64 = 1;

/// Returns the number of actions that a test draws.
fn trials() -> usize {
    match std::env::var("WEFT_TRIALS") {
        Ok(text) => text.parse().expect("WEFT_TRIALS is a number"),
        Err(_) if is_exhaustive() => 1000,
        Err(_) => 250,
    }
}

async fn observe(test: &str, seed: u64, trials: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::start(test, seed).await;
    world.settle().await;
    while world.taken < trials {
        world.step(&mut random).await;
    }
    world.end().await;
}

#[tokio::test]
async fn status_and_tools_say_what_an_outside_observer_finds() {
    let test = "status_and_tools_say_what_an_outside_observer_finds";
    observe(test, SAMPLE, 25).await;
}

/// Tests that draw their actions, by the number that is added to the seed. Each has a cluster, so they
/// run next to each other.
macro_rules! random {
    ($($test:ident = $number:literal;)*) => {
        $(#[tokio::test]
        async fn $test() {
            observe(stringify!($test), seed().wrapping_add($number), trials()).await;
        })*
    };
}

random! {
    status_is_true_after_random_actions_in_a_first_cluster = 0;
    status_is_true_after_random_actions_in_a_second_cluster = 1;
    status_is_true_after_random_actions_in_a_third_cluster = 2;
    status_is_true_after_random_actions_in_a_fourth_cluster = 3;
}
