//! The parts of the table.

mod answer;
mod drift;
pub mod hosts;
mod idle;
mod install;
mod large_hosts;
mod memory;
mod offline;
mod plan;
mod removal;
mod render;
mod restart;
mod service;
mod size;
mod validate;

use anyhow::Result;

use crate::{cli::Args, figure::Figure, lab::Setup, part::Part};

/// Measures a part, in a control plane of its own.
pub async fn measure(part: Part, setup: &Setup, args: &Args) -> Result<Vec<Figure>> {
    match part {
        Part::Idle => idle::measure(setup, args.idle_seconds).await,
        Part::Restart => restart::measure(setup).await,
        Part::Install => install::measure(setup, args.rounds, args.timeline).await,
        Part::Service => service::measure(setup, args.rounds).await,
        Part::Answer => answer::measure(setup).await,
        Part::Memory => memory::measure(setup).await,
        Part::Drift => drift::measure(setup).await,
        Part::Removal => removal::measure(setup).await,
        Part::Render => render::measure(setup),
        Part::Validate => validate::measure(setup),
        Part::Plan => plan::measure(setup),
        Part::LargeHosts => large_hosts::measure(setup),
        Part::Size => size::measure(setup),
        Part::Freshness => hosts::freshness::measure().await,
        Part::Reboot => hosts::reboot::measure().await,
        Part::Apply => hosts::apply::measure().await,
        Part::Traffic => hosts::traffic::measure().await,
        Part::HostsIdle => hosts::idle::measure(args.idle_seconds).await,
        Part::AgentMemory => hosts::memory::measure().await,
        Part::Fleet => hosts::fleet::measure(args.agents).await,
    }
}
