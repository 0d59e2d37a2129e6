//! The rules for a CNI configuration of two programs: Multus 4.2 (`LoadDelegateNetConf`), which
//! reads it first, and libcni 1.3 (`libcni/conf.go`, `libcni/api.go`), which then runs its plugins.
//! Each plugin has more rules of its own, and checks them itself.

use serde_json::Value;

use crate::{
    Level, Verdict,
    go::{Shape, field},
};

/// The versions of the CNI specification (`version.All` of libcni). No plugin that is built with
/// libcni takes another one.
const VERSIONS: [&str; 7] = [
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];

/// The form of the name of a network, for people.
const NAME: &str =
    "must begin with a letter or digit and contain only letters and digits and _ . -";

/// The fields that the configurations of all plugins have (`types.PluginConf` of libcni).
const FIELDS: [(&str, Shape); 12] = [
    ("cniVersion", Shape::String),
    ("name", Shape::String),
    ("type", Shape::String),
    ("capabilities", Shape::Booleans),
    ("ipam", Shape::Object),
    ("ipam.type", Shape::String),
    ("dns", Shape::Object),
    ("dns.nameservers", Shape::Strings),
    ("dns.domain", Shape::String),
    ("dns.search", Shape::Strings),
    ("dns.options", Shape::Strings),
    ("prevResult", Shape::Object),
];

/// Returns each reason why Multus and libcni cannot run this configuration.
pub(crate) fn verdicts(config: &Value) -> Vec<Verdict> {
    let mut flaws = Vec::new();
    check_plugin("", config, &mut flaws);
    match config.get("name") {
        // Multus fills in the name of the definition.
        Some(Value::String(name)) if !name.is_empty() && !is_network_name(name) => {
            flaws.push(Verdict::refused("name", format!("{name:?} {NAME}")));
        }
        Some(Value::Null) => flaws.push(Verdict::refused("name", NAME)),
        _ => {}
    }
    let is_list = is_blank(field(config, "type"));
    if is_list {
        check_list(config, &mut flaws);
    }
    match config.get("cniVersions").filter(|_| is_list) {
        // libcni takes the highest one that it knows.
        Some(versions) if are_versions(versions) => {}
        Some(_) => flaws.push(Verdict::refused(
            "cniVersions",
            "must be a list of versions such as 1.0.0",
        )),
        None => {
            let version = match is_list {
                true => &config["cniVersion"],
                false => field(config, "cniVersion"),
            };
            let version = version.as_str().unwrap_or_default();
            // A configuration without a version is of 0.1.0.
            if !version.is_empty() && !VERSIONS.contains(&version) {
                let versions = VERSIONS.join(" or ");
                flaws.push(Verdict {
                    field: "cniVersion".to_owned(),
                    message: format!("{version:?} must be {versions}"),
                    level: Level::Unsupported,
                });
            }
        }
    }
    flaws
}

/// Checks a list of plugins, which Multus takes a configuration without a type for. libcni reads
/// each field of a list by its exact name, and refuses `null`.
fn check_list(config: &Value, flaws: &mut Vec<Verdict>) {
    if config.get("cniVersion").is_some_and(Value::is_null) {
        flaws.push(Verdict::refused("cniVersion", "must be a string"));
    }
    for (name, takes_text) in [
        // libcni takes a text in these two, and Multus does not.
        ("disableCheck", false),
        ("disableGC", false),
        ("loadOnlyInlinedPlugins", true),
    ] {
        let fits = |value: &Value| value.is_boolean() || (takes_text && is_boolean_text(value));
        if config.get(name).is_some_and(|value| !fits(value)) {
            flaws.push(Verdict::refused(name, "must be a boolean"));
        }
    }
    match &config["plugins"] {
        Value::Array(plugins) if !plugins.is_empty() => {
            for (index, plugin) in plugins.iter().enumerate() {
                let path = format!("plugins[{index}]");
                if !plugin.is_object() {
                    flaws.push(Verdict::refused(path.as_str(), "must be an object"));
                } else if is_blank(field(plugin, "type")) {
                    flaws.push(Verdict::refused(format!("{path}.type"), "is missing"));
                }
                check_plugin(&format!("{path}."), plugin, flaws);
            }
        }
        Value::Null => flaws.push(Verdict::refused(
            "",
            r#"a CNI configuration needs "type" or "plugins""#,
        )),
        _ => flaws.push(Verdict::refused(
            "plugins",
            "must be a list with at least one plugin",
        )),
    }
}

/// Checks the fields of a plugin. `path` is the place of the plugin, with a dot at its end.
fn check_plugin(path: &str, plugin: &Value, flaws: &mut Vec<Verdict>) {
    let value = |name: &'static str| name.split('.').fold(plugin, field);
    for (name, shape) in FIELDS {
        if !shape.fits(value(name)) {
            let message = format!("must be {}", shape.in_words());
            flaws.push(Verdict::refused(format!("{path}{name}"), message));
        }
    }
    for name in ["type", "ipam.type"] {
        // libcni looks for the program in the folder of the plugins, and takes no path.
        let program = value(name).as_str();
        if program.is_some_and(|program| program.contains('/')) {
            let message = "must be a name without /";
            flaws.push(Verdict::refused(format!("{path}{name}"), message));
        }
    }
}

/// Returns true if Go reads a field as an empty text.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A text that libcni takes for a boolean.
fn is_boolean_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        ["true", "false"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
    })
}

/// The name of a network (`utils.ValidateNetworkName` of libcni).
fn is_network_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Up to three numbers each (`version.ParseVersion` of libcni).
fn are_versions(value: &Value) -> bool {
    let is_version = |text: &str| {
        text.split('.').count() <= 3 && text.split('.').all(|part| part.parse::<u32>().is_ok())
    };
    value.as_array().is_some_and(|versions| {
        versions
            .iter()
            .all(|version| version.as_str().is_some_and(is_version))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flaws(config: &Value) -> Vec<String> {
        verdicts(config).iter().map(Verdict::to_string).collect()
    }

    #[test]
    fn a_configuration_that_runs_has_no_flaws() {
        for config in [
            json!({"type": "tap"}),
            json!({"Type": "tap"}),
            json!({"CNIVersion": "0.4.0", "TYPE": "ipvlan", "IPAM": {"Type": "static"}}),
            json!({"cniVersion": "", "name": "", "type": "tap"}),
            json!({"cniVersion": null, "type": "tap", "loadOnlyInlinedPlugins": 1}),
            json!({"cniVersion": "0.4.0", "name": "Lab_7.x-y", "type": "ipvlan", "ipam": {}}),
            json!({"type": "ipvlan", "ipam": null, "dns": {"nameservers": null}}),
            json!({"cniVersion": "1.1.0", "plugins": [
                {"type": "ptp", "ipam": {"type": "static"}, "dns": {"search": ["example.com"]}},
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ]}),
            json!({"type": "", "disableCheck": true, "plugins": [{"type": "sbr"}]}),
            json!({"loadOnlyInlinedPlugins": true, "plugins": [{"Type": "sbr"}]}),
            json!({"loadOnlyInlinedPlugins": "False", "plugins": [{"type": "sbr"}]}),
            json!({"cniVersion": "9.9.9", "cniVersions": ["1.0.0", "9.9"], "plugins": [{"type": "vrf"}]}),
            // The fields of a list mean nothing next to a type.
            json!({"type": "tap", "plugins": [], "disableGC": "no", "cniVersions": 1}),
        ] {
            assert_eq!(flaws(&config), [""; 0], "{config}");
        }
    }

    #[test]
    fn each_flaw_is_named_with_its_place() {
        let version = |given: &str| {
            format!(
                "cniVersion {given} must be 0.1.0 or 0.2.0 or 0.3.0 or 0.3.1 or 0.4.0 or 1.0.0 or 1.1.0"
            )
        };
        let name = |given: &str| {
            format!(
                "name {given}must begin with a letter or digit and contain only letters and digits and _ . -"
            )
        };
        let neither = r#"a CNI configuration needs "type" or "plugins""#;
        for (config, expected) in [
            (json!({}), vec![neither]),
            (
                json!({"name": "lab", "type": null, "plugins": null}),
                vec![neither],
            ),
            (json!({"type": 7}), vec!["type must be a string"]),
            (
                json!({"type": "/opt/tap"}),
                vec!["type must be a name without /"],
            ),
            (
                json!({"plugins": []}),
                vec!["plugins must be a list with at least one plugin"],
            ),
            (
                json!({"plugins": {"type": "tap"}}),
                vec!["plugins must be a list with at least one plugin"],
            ),
            (
                json!({"plugins": [{"type": "tap"}, "tuning", {"type": ""}, {"mtu": 1400}]}),
                vec![
                    "plugins[1] must be an object",
                    "plugins[2].type is missing",
                    "plugins[3].type is missing",
                ],
            ),
            (
                json!({"plugins": [{"type": "tap", "capabilities": ["ips"], "ipam": {"type": "a/b"}}]}),
                vec![
                    "plugins[0].capabilities must be an object with booleans",
                    "plugins[0].ipam.type must be a name without /",
                ],
            ),
            (
                json!({"plugins": [{"type": "tap"}], "disableCheck": "true", "disableGC": null}),
                vec![
                    "disableCheck must be a boolean",
                    "disableGC must be a boolean",
                ],
            ),
            (
                json!({"plugins": [{"type": "tap"}], "cniVersions": ["1.x"]}),
                vec!["cniVersions must be a list of versions such as 1.0.0"],
            ),
            (
                json!({"type": "tap", "cniVersion": "0.3"}),
                vec![&*version(r#""0.3""#)],
            ),
            (
                json!({"Type": "tap", "CniVersion": "v1.0.0"}),
                vec![&*version(r#""v1.0.0""#)],
            ),
            (
                json!({"plugins": [{"type": "tap"}], "cniVersion": null}),
                vec!["cniVersion must be a string"],
            ),
            (
                json!({"plugins": [{"type": "tap"}], "loadOnlyInlinedPlugins": "yes"}),
                vec!["loadOnlyInlinedPlugins must be a boolean"],
            ),
            (
                json!({"plugins": [{"type": "tap"}], "loadOnlyInlinedPlugins": null}),
                vec!["loadOnlyInlinedPlugins must be a boolean"],
            ),
            (
                json!({"type": "tap", "cniVersion": 1.1}),
                vec!["cniVersion must be a string"],
            ),
            (
                json!({"type": "tap", "name": "my lab"}),
                vec![&*name(r#""my lab" "#)],
            ),
            (
                json!({"type": "tap", "name": "-lab"}),
                vec![&*name(r#""-lab" "#)],
            ),
            (json!({"type": "tap", "name": null}), vec![&*name("")]),
            (
                json!({"type": "tap", "name": ["lab"]}),
                vec!["name must be a string"],
            ),
            (
                json!({"type": "tap", "ipam": "dhcp"}),
                vec!["ipam must be an object"],
            ),
            (
                json!({"Type": "tap", "Ipam": {"TYPE": 7}}),
                vec!["ipam.type must be a string"],
            ),
            (
                json!({"plugins": [{"Type": "/opt/tap", "IPAM": {"Type": "a/b"}}]}),
                vec![
                    "plugins[0].type must be a name without /",
                    "plugins[0].ipam.type must be a name without /",
                ],
            ),
            (
                json!({"type": "tap", "dns": {"nameservers": "192.0.2.53", "domain": 1}}),
                vec![
                    "dns.nameservers must be a list of strings",
                    "dns.domain must be a string",
                ],
            ),
        ] {
            assert_eq!(flaws(&config), expected, "{config}");
        }
    }
}
