//! The room in the pods' blocks of addresses, as `weft status` shows it.

use serde_json::{Value, json};
use weft_cluster_network::room::{self, Room};
use weft_plan::kinds;
use weft_runtime::{api_server::cluster::Error, inspect::reader::Reader};

use crate::output::Style;

/// Reads the room in the blocks of a NetworkConfig. A user who may not list nodes sees the size of
/// each block alone.
///
/// # Errors
/// The API server refuses the request for another reason.
pub async fn read(reader: &Reader, resource: &Value) -> Result<Vec<Room>, Error> {
    let nodes = reader.list_extra(kinds::NODE, "").await?;
    let of_nodes = (!nodes.is_empty()).then(|| room::of_nodes(&nodes));
    let effective = &resource["status"]["effectiveConfiguration"];
    Ok(room::rooms(effective, of_nodes.as_deref()))
}

/// Returns the line about a block, for people.
pub fn line(room: &Room, style: Style) -> String {
    let title = style.bold(&format!("addresses {}", room.block));
    let share = match room.pods {
        Some(pods) => format!("a /{} ({})", room.share, count(pods, "pod")),
        None => format!("a /{}", room.share),
    };
    let state = match (room.taken, room.left()) {
        (Some(taken), Some(0)) => style.pending(&format!(
            "{} it, none is left for another node",
            have(taken)
        )),
        (Some(taken), Some(left)) => {
            let pods = room.pods.map(|pods| pods.saturating_mul(left));
            let pods = pods.map(|pods| format!(" with {}", count(pods, "pod")));
            let left = count(left, "node");
            format!(
                "{} it, {left}{} left",
                have(taken),
                pods.unwrap_or_default()
            )
        }
        _ => format!("up to {}", count(room.shares, "node")),
    };
    format!("{title}: {share} for each node, {state}")
}

fn have(nodes: u64) -> String {
    let verb = if nodes == 1 { "has" } else { "have" };
    format!("{} {verb}", count(nodes, "node"))
}

fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the room in a block as JSON, for programs.
pub fn json(room: &Room) -> Value {
    json!({
        "block": room.block.to_string(),
        "nodePrefix": room.share,
        "podsPerNode": room.pods,
        "nodes": room.shares,
        "nodesLeft": room.left(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn room(taken: Option<u64>) -> Room {
        Room {
            block: "10.244.0.0/22".parse().unwrap(),
            share: 24,
            shares: 4,
            taken,
            pods: Some(253),
        }
    }

    #[test]
    fn a_line_says_for_how_many_nodes_and_pods_addresses_are_left() {
        let text = |taken| line(&room(taken), Style::plain());
        let begin = "addresses 10.244.0.0/22: a /24 (253 pods) for each node";
        for (taken, end) in [
            (Some(1), "1 node has it, 3 nodes with 759 pods left"),
            (Some(3), "3 nodes have it, 1 node with 253 pods left"),
            (Some(4), "4 nodes have it, none is left for another node"),
            (None, "up to 4 nodes"),
        ] {
            assert_eq!(text(taken), format!("{begin}, {end}"));
        }
        let uncounted = Room {
            pods: None,
            ..room(Some(1))
        };
        assert_eq!(
            line(&uncounted, Style::plain()),
            "addresses 10.244.0.0/22: a /24 for each node, 1 node has it, 3 nodes left"
        );
    }

    #[test]
    fn programs_get_the_same_numbers() {
        assert_eq!(
            json(&room(Some(1))),
            json!({
                "block": "10.244.0.0/22", "nodePrefix": 24, "podsPerNode": 253, "nodes": 4,
                "nodesLeft": 3
            })
        );
        assert_eq!(json(&room(None))["nodesLeft"], Value::Null);
    }
}
