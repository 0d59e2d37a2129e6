//! The names of the parts of the table.

use clap::ValueEnum;

/// A part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Requests while nothing changes, of the leader and of a second replica
    Idle,
    /// Requests of an operator that is restarted while nothing changes
    Restart,
    /// From the creation of the configuration to the last object, and to Available
    Install,
    /// From the creation of a PlacementAPI to its last object, and to Ready
    Service,
    /// From a change of the configuration to the first word about it in status
    Answer,
    /// Resident memory, also with 3,000 foreign ConfigMaps of 10 KiB
    Memory,
    /// How soon each object that somebody deletes, edits or adds to is put right
    Drift,
    /// How soon the objects of a removed component, and of a deleted configuration, are gone
    Removal,
    /// From a configuration to its objects, without a cluster
    Render,
    /// From 1,000 small policies, and from a folder of 930 files, to the verdict about each object
    Validate,
    /// From a policy and the states of 500 and 5,000 nodes in a file to the plan of each node
    Plan,
    /// The same for 1 and 40 nodes with 3,000 interfaces each: time, and memory
    LargeHosts,
    /// Size of the stripped binary
    Size,
    /// From a change on a host to its NodeNetworkState, with 20, 200 and 1,000 interfaces
    Freshness,
    /// From NetworkManager's start on a host to a report of the networks of policies
    Reboot,
    /// A policy on a host, next to nmstate itself with the same change: time, and processes
    Apply,
    /// Writes and watch events for one policy on some hosts
    Traffic,
    /// Requests while nothing changes on some hosts
    HostsIdle,
    /// Resident memory of the agent, with 50 and 1,000 interfaces
    AgentMemory,
    /// 1,000 simulated agents: the real agent's code over a recorded host
    Fleet,
}

impl Part {
    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}
