//! `None`: the default network is another user's.

use weft_api::cluster_network::DefaultNetwork;
use weft_plan::{FieldChange, Manifest, Problem};

use crate::{
    config::{Effective, Valid},
    error::BuildError,
    provider::{Capabilities, Context, Provider},
};

/// No default network of Weft's.
pub struct None;

impl Provider for None {
    fn name(&self) -> &'static str {
        "None"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            blocks_per_family: Option::None,
            ipv6: true,
            uses_host_subnet_length: false,
            own_service_proxy: false,
            grows: true,
            adds_family: true,
        }
    }

    fn needs_blocks(&self) -> bool {
        false
    }

    fn validate(&self, _config: &Valid) -> Vec<Problem> {
        Vec::new()
    }

    fn overhead(&self, _config: &Valid) -> u16 {
        0
    }

    fn fill(&self, _network: &mut DefaultNetwork, _previous: Option<&DefaultNetwork>, _mtu: u16) {}

    fn unsafe_changes(
        &self,
        _previous: &DefaultNetwork,
        _next: &DefaultNetwork,
    ) -> Vec<FieldChange> {
        Vec::new()
    }

    fn render(
        &self,
        _config: &Effective,
        _context: &Context<'_>,
    ) -> Result<Vec<Manifest>, BuildError> {
        Ok(Vec::new())
    }
}
