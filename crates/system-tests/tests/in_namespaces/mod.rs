//! The agent and facts about a host in network namespaces without NetworkManager (root).

mod agent_commands;
mod boot_clock;
mod bridge_over_card;
mod kernel;
mod mtu;
mod observe;
mod probes;
mod process;
mod report;
mod without_network_manager;
