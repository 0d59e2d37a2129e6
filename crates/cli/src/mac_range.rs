//! MAC addresses of hosts in the range from which KubeMacPool gives pods and virtual machines
//! theirs. KubeMacPool knows no host, so an address may be there twice.

use serde_json::Value;
use weft_addons::mac::{MacAddress, MacRange};
use weft_operands::text::some;
use weft_plan::kinds;
use weft_runtime::{api_server::cluster::Error, inspect::reader::Reader};

/// The name of the ConfigMap, in whatever namespace KubeMacPool runs.
const CONFIG_MAP: &str = "kubemacpool-mac-range-config";

/// Reads the range of KubeMacPool, as far as the user of this reader may look. `None` without
/// KubeMacPool.
///
/// # Errors
/// The API server refuses the request for another reason.
pub async fn read(reader: &Reader) -> Result<Option<MacRange>, Error> {
    let query = format!("fieldSelector=metadata.name={CONFIG_MAP}");
    let found = reader.list_extra(kinds::CONFIG_MAP, &query).await?;
    Ok(found.iter().find_map(|one| range(&one["data"])))
}

fn range(data: &Value) -> Option<MacRange> {
    let end = |name: &str| data[name].as_str()?.parse().ok();
    MacRange::new(end("RANGE_START")?, end("RANGE_END")?).ok()
}

/// Returns a text about the interfaces of a NodeNetworkState whose addresses are in the range. `None`
/// if there are none.
pub fn inside(range: &MacRange, state: &Value) -> Option<String> {
    let interfaces = state["status"]["currentState"]["interfaces"].as_array();
    let within = interfaces.into_iter().flatten().filter_map(|interface| {
        let address = interface["mac-address"].as_str()?;
        let parsed: MacAddress = address.parse().ok()?;
        let name = interface["name"].as_str()?;
        range
            .contains(&parsed)
            .then(|| format!("{name} ({address})"))
    });
    let within: Vec<_> = within.collect();
    if within.is_empty() {
        return None;
    }
    Some(format!(
        "MAC addresses in the range of KubeMacPool, {} to {}, which may give them to pods and virtual machines too: {}; set another range in spec.kubeMacPool of the NetworkAddonsConfig",
        range.start(),
        range.end(),
        some(&within)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn interfaces_with_an_address_of_the_range_are_named() {
        let range = range(&json!({
            "RANGE_START": "02:00:00:00:00:00", "RANGE_END": "02:00:00:00:00:ff"
        }))
        .unwrap();
        let interface = |name: &str, address: &str| json!({"name": name, "mac-address": address});
        let state =
            |interfaces: Value| json!({"status": {"currentState": {"interfaces": interfaces}}});
        let outside = state(json!([
            interface("eth0", "02:00:00:00:01:00"),
            interface("eth1", "01:FF:FF:FF:FF:FF"),
            {"name": "lo"},
        ]));
        assert_eq!(inside(&range, &outside), None);
        let two = state(json!([
            interface("eth0", "02:00:00:00:00:00"),
            interface("eth1", "02:00:00:00:00:FF"),
            interface("eth2", "02:00:00:00:01:00"),
        ]));
        let text = inside(&range, &two).unwrap();
        assert!(
            text.contains(
                ": eth0 (02:00:00:00:00:00), eth1 (02:00:00:00:00:FF); set another range"
            ),
            "{text}"
        );
        let many: Vec<_> = (0..5)
            .map(|number| interface(&format!("eth{number}"), "02:00:00:00:00:07"))
            .collect();
        let text = inside(&range, &state(many.into())).unwrap();
        assert!(
            text.contains("eth2 (02:00:00:00:00:07) and 2 more;"),
            "{text}"
        );
    }
}
