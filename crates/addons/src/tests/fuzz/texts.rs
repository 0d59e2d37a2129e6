//! Texts with a syntax: none makes the parser panic, what is read and written again stays the same,
//! and the schema agrees.

use serde_json::json;
use weft_addons::mac::{MacAddress, MacRange};
use weft_operands::{
    duration::GoDuration,
    image::{ImageReference, Registry},
};
use weft_plan::quantity;

use super::{agree, decide, resource, text};

const INPUTS: usize = 500;

#[test]
fn durations() {
    const PIECES: [&str; 20] = [
        "0", "1", "9", "30", "999999", "9999999", ".5", ".", "+", "-", "h", "m", "s", "ms", "us",
        "\u{b5}s", "\u{3bc}s", "ns", " ", "d",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(8)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let read = text.parse::<GoDuration>();
            if let Ok(duration) = &read {
                assert!(duration.nanoseconds() > 0);
                assert_eq!(
                    duration
                        .to_string()
                        .parse::<GoDuration>()
                        .unwrap()
                        .nanoseconds(),
                    duration.nanoseconds()
                );
            }
            // CEL cannot ask for 63 bits: the schema counts digits. And kube-cel, unlike the API
            // server, does not know µ.
            let longest = text
                .split(|c: char| !c.is_ascii_digit())
                .map(str::len)
                .max()
                .unwrap_or_default();
            if text.is_empty() || longest > 6 || !text.is_ascii() {
                return;
            }
            let rotation = json!({
                "caRotateInterval": text, "caOverlapInterval": text, "certRotateInterval": text,
                "certOverlapInterval": text
            });
            assert_eq!(
                agree(&json!({"selfSignConfiguration": rotation})),
                read.is_ok(),
                "{text:?}"
            );
        });
}

#[test]
fn mac_ranges() {
    const PIECES: [&str; 20] = [
        "02:00:00:00:00:00",
        "02:00:00:00:00:",
        "0200.0000.",
        "02-00-00-00-00-",
        "00",
        "02",
        "01",
        "ff",
        "FE",
        "0a",
        "0",
        "a",
        "g",
        ":",
        "-",
        ".",
        "00:00",
        "0200",
        " ",
        "\n",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(16)
        .for_each(|bytes| {
            let (start, end) = bytes.split_at(bytes.len() / 2);
            let (start, end) = (text(start, &PIECES), text(end, &PIECES));
            for text in [&start, &end] {
                if let Ok(mac) = text.parse::<MacAddress>() {
                    assert_eq!(mac.to_string(), *text);
                    assert_eq!(MacAddress::from(mac.octets()), mac);
                }
            }
            let range = start
                .parse()
                .and_then(|start| MacRange::new(start, end.parse()?));
            if let Ok(range) = &range {
                assert!(
                    range.start() < range.end()
                        && range.start().octets()[0] % 2 == 0
                        && range.end().octets()[0] % 2 == 0
                );
            }
            if !start.is_empty() || !end.is_empty() {
                assert_eq!(
                    agree(&json!({"kubeMacPool": {"rangeStart": start, "rangeEnd": end}})),
                    range.is_ok(),
                    "{start:?} {end:?}"
                );
            }
        });
}

/// No option takes a CIDR. Addresses are what comes nearest.
#[test]
fn ip_addresses() {
    const PIECES: [&str; 18] = [
        "0",
        "1",
        "25",
        "255",
        "256",
        "00",
        ".",
        ":",
        "::",
        "ffff",
        "FFFF",
        "a",
        "192.0.2.1",
        "%eth0",
        "/24",
        "[",
        "]",
        " ",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(12)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let spec = json!({"kubeSecondaryDNS": {"nameServerIP": text}});
            if agree(&spec) && !text.is_empty() {
                let decision = decide(&resource(spec), None).unwrap();
                let written = decision.decided["kubeSecondaryDNS"]["nameServerIP"]
                    .as_str()
                    .unwrap();
                assert_eq!(
                    written.parse::<std::net::IpAddr>().unwrap(),
                    text.parse::<std::net::IpAddr>().unwrap()
                );
            }
        });
}

#[test]
fn quantities() {
    const PIECES: [&str; 26] = [
        "0",
        "1",
        "5",
        "12",
        "100",
        "999999999999",
        ".",
        ".5",
        "+",
        "-",
        "n",
        "u",
        "m",
        "k",
        "M",
        "G",
        "T",
        "P",
        "E",
        "Ki",
        "Gi",
        "Ei",
        "e",
        "3",
        "K",
        " ",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(6)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let amount = quantity(&text);
            if let Some(amount) = amount.filter(|amount| *amount >= 0) {
                // In other words.
                assert_eq!(quantity(&format!("{amount}n")), Some(amount), "{text:?}");
            }
            // Kubernetes reads signs, but no amount of a resource has one, and what is too fine or
            // too much for Weft has more digits than these.
            let longest = text
                .split(|c: char| !c.is_ascii_digit())
                .map(str::len)
                .max()
                .unwrap_or_default();
            let exponent = text
                .split_once(['e', 'E'])
                .map_or(0, |(_, digits)| digits.len());
            if !text.contains(['+', '-']) && longest <= 6 && exponent <= 1 {
                let spec = json!({
                    "multus": {}, "resources": [{"component": "multus", "limits": {"memory": text}}]
                });
                assert_eq!(agree(&spec), amount.is_some(), "{text:?}: {amount:?}");
            }
        });
}

#[test]
fn names() {
    const PIECES: [&str; 14] = [
        "a", "b", "z9", "0", "-", ".", "..", "_", "A", "\u{e4}", " ", "\n", "/", "aaaaaaaa",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(7)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let is_name = agree(&json!({"macvtap": {"devicePluginConfig": text}}));
            let is_domain = agree(&json!({"kubeSecondaryDNS": {"domain": text}}));
            let is_label =
                agree(&json!({"kubevirtIpamController": {"defaultNetworkNADNamespace": text}}));
            assert!(
                is_name || !is_domain && !is_label,
                "{text:?}: domains and labels are names"
            );
            assert_eq!(
                is_label,
                is_name && !text.contains('.') && text.len() <= 63,
                "{text:?}"
            );
        });
}

#[test]
fn host_paths() {
    const PIECES: [&str; 12] = [
        "/",
        "//",
        "run",
        ".",
        "..",
        "a b",
        ":",
        "\n",
        "\u{7f}",
        "\u{85}",
        "\u{e4}",
        "containerd.sock",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(7)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let is_folder = agree(&json!({"hostPaths": {"kubeletDir": text}}));
            let is_socket =
                agree(&json!({"multus": {}, "multusDynamicNetworks": {"hostCRISocketPath": text}}));
            assert_eq!(is_folder, is_socket, "{text:?}");
            if is_socket && !text.is_empty() {
                assert!(
                    text.starts_with('/') && !text.ends_with('/') && !text.contains(':'),
                    "{text:?}"
                );
            }
        });
}

/// A fuzzer has found it: the schema's class of control characters is that of ASCII.
#[test]
fn control_characters_beyond_ascii_are_part_of_a_path() {
    assert!(agree(&json!({"hostPaths": {"kubeletDir": "/a\u{85}"}})));
    assert!(!agree(&json!({"hostPaths": {"kubeletDir": "/a\u{7f}"}})));
}

#[test]
fn images_and_registries() {
    const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const PIECES: [&str; 24] = [
        "a",
        "b.c",
        "r.example",
        "localhost",
        ":",
        "/",
        "5000",
        "v1",
        "_",
        "__",
        "-",
        "--",
        ".",
        "A",
        "@",
        "sha256",
        "@sha256:",
        DIGEST,
        "[::1]",
        "[",
        "https://",
        " ",
        "\n",
        "0",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(9)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            let (image, registry) = (text.parse::<ImageReference>(), text.parse::<Registry>());
            if !text.is_empty() {
                assert_eq!(
                    agree(&json!({"images": {"ovsCni": text}})),
                    image.is_ok(),
                    "{text:?}"
                );
                assert_eq!(
                    agree(&json!({"imageRegistry": text})),
                    registry.is_ok(),
                    "{text:?}"
                );
            }
            if let Ok(image) = &image {
                assert_eq!(image.to_string(), text);
                // A copy in a registry is an image too.
                let copy = "registry.example:5000/mirror"
                    .parse::<Registry>()
                    .unwrap()
                    .copy_of(&text);
                assert!(
                    copy.parse::<ImageReference>().is_ok() || copy.len() > 255,
                    "{text:?}: {copy:?}"
                );
            }
        });
}
