//! Weft and Go programs read the same text in the same way. The table was made by real Go, see
//! oracle.go.

use weft_addons::mac::MacAddress;
use weft_operands::duration::GoDuration;

use super::{broken_rules, decide, resource};
use serde_json::{Value, json};

/// Text and answer of each row of a kind. `None`: Go refuses it.
fn rows(kind: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let rows = include_str!("go.tsv").lines().filter_map(|line| {
        line.strip_prefix(kind)?
            .strip_prefix('\t')?
            .rsplit_once('\t')
    });
    let rows: Vec<_> = rows
        .map(|(text, answer)| (text, (answer != "error").then_some(answer)))
        .collect();
    let accepted = rows.iter().filter(|(_, answer)| answer.is_some()).count();
    assert!(
        accepted >= 50 && rows.len() - accepted >= 50,
        "{kind}: {accepted} of {}",
        rows.len()
    );
    rows
}

/// Every row in a specification: accepted by Weft and by the schema exactly if Go accepts it.
fn in_a_specification(kind: &str, spec: impl Fn(&str) -> Value) {
    // An empty text means that nothing is given.
    for (text, answer) in rows(kind).into_iter().filter(|(text, _)| !text.is_empty()) {
        let resource = resource(spec(text));
        let expected = answer.is_some();
        assert_eq!(
            decide(&resource, None).is_ok(),
            expected,
            "{text:?}: Go says {answer:?}"
        );
        assert_eq!(
            broken_rules(&resource).is_empty(),
            expected,
            "{text:?}: Go says {answer:?}"
        );
    }
}

#[test]
fn durations() {
    for (text, answer) in rows("duration") {
        let positive = answer
            .and_then(|nanoseconds| nanoseconds.parse().ok())
            .filter(|nanoseconds| *nanoseconds > 0);
        assert_eq!(
            text.parse::<GoDuration>()
                .ok()
                .map(|duration| duration.nanoseconds()),
            positive,
            "{text:?}"
        );
    }
}

#[test]
fn mac_addresses() {
    for (text, answer) in rows("mac") {
        // The Go that made the table reads addresses without separators, that of KubeMacPool may
        // not.
        let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let octets = answer.filter(|hex| hex.len() == 12 && !plain);
        let read = text.parse::<MacAddress>().ok().map(|mac| {
            mac.octets()
                .iter()
                .map(|octet| format!("{octet:02x}"))
                .collect::<String>()
        });
        assert_eq!(read.as_deref(), octets, "{text:?}");
    }
}

#[test]
fn ip_addresses() {
    in_a_specification(
        "ip",
        |text| json!({"kubeSecondaryDNS": {"nameServerIP": text}}),
    );
}

#[test]
fn quantities() {
    let mut compared = 0;
    for (text, answer) in rows("quantity") {
        // Go rounds up to billionths, cuts what is beyond 63 bits, and reads a number without
        // digits as zero, which the pattern in Kubernetes' own schemas does not.
        let is_fine = text
            .split(|c: char| !c.is_ascii_digit())
            .any(|digits| digits.len() > 9)
            || text.contains(['n', 'u']) && text.contains('.');
        let number = text
            .split(|c: char| c.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        let is_lone = !number.contains(|c: char| c.is_ascii_digit());
        let amount: Option<i128> = answer.map(|amount| amount.parse().unwrap_or(i128::MAX));
        let is_huge = amount.is_some_and(|amount| {
            amount.unsigned_abs() >= (1 << 63) * 1_000_000_000 - 1_000_000_000
        });
        if is_fine || is_lone || is_huge || text.contains("e-") {
            continue;
        }
        compared += 1;
        assert_eq!(weft_plan::quantity(text), amount, "{text:?}");
    }
    assert!(compared >= 100, "{compared}");
}

#[test]
fn names_of_objects() {
    in_a_specification(
        "name",
        |text| json!({"macvtap": {"devicePluginConfig": text}}),
    );
}

#[test]
fn names_of_namespaces() {
    in_a_specification(
        "label",
        |text| json!({"kubevirtIpamController": {"defaultNetworkNADNamespace": text}}),
    );
}

#[test]
fn images() {
    in_a_specification("image", |text| json!({"images": {"ovsCni": text}}));
}
