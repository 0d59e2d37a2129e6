//! The CNI configuration of a NetworkAttachmentDefinition.

use serde_json::Value;

use crate::{
    Verdict, chain,
    go::{field, text as text_of},
    interfaces, ipam,
};

/// Returns the CNI configuration of a NetworkAttachmentDefinition. `None` if it has none: then
/// Multus takes the file on the node whose network has the name of the definition
/// (`GetCNIConfig` of network-attachment-definition-client).
pub fn text(definition: &Value) -> Option<&str> {
    definition["spec"]["config"]
        .as_str()
        .filter(|text| !text.is_empty())
}

/// A CNI configuration: one plugin, or a list of plugins.
#[derive(Clone, Debug)]
pub struct Config(Value);

/// A plugin of a CNI configuration.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'c> {
    pub(crate) fields: &'c Value,
    /// The index in the list. `None` for the only plugin of a configuration without a list.
    index: Option<usize>,
}

impl Config {
    /// Reads the text of a configuration. Any JSON is one here, and [`verdicts`](Self::verdicts)
    /// judge it.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self)
    }

    /// Returns true if the configuration is an object. Multus reads nothing else.
    pub fn is_object(&self) -> bool {
        self.0.is_object()
    }

    /// The name that the configuration has itself. Multus takes the name of the definition where it
    /// is empty.
    pub fn name(&self) -> &str {
        text_of(&self.0, "name")
    }

    /// The field `gateway` of the section `ipam` of a configuration without a list.
    pub fn gateway(&self) -> Option<&str> {
        let gateway = text_of(field(&self.0, "ipam"), "gateway");
        (!gateway.is_empty()).then_some(gateway)
    }

    /// Returns true if the configuration is a list of plugins. Multus takes one without a `type`
    /// for a list (`LoadDelegateNetConf`).
    pub fn is_list(&self) -> bool {
        chain::is_blank(field(&self.0, "type"))
    }

    /// The plugins, in the order in which they run.
    pub fn plugins(&self) -> Vec<Plugin<'_>> {
        if !self.is_list() {
            let fields = &self.0;
            return vec![Plugin {
                fields,
                index: None,
            }];
        }
        let plugins = self.0["plugins"].as_array().into_iter().flatten();
        plugins
            .enumerate()
            .map(|(index, fields)| Plugin {
                fields,
                index: Some(index),
            })
            .collect()
    }

    /// Judges the configuration by its text: returns each mistake that Multus, libcni, a plugin of
    /// containernetworking or whereabouts makes no network of, in the order of the plugins.
    pub fn verdicts(&self) -> Vec<Verdict> {
        if !self.is_object() {
            let message = "must be a JSON object: begin it with { and end it with }";
            return vec![Verdict::refused("", message)];
        }
        let mut verdicts = chain::verdicts(&self.0);
        for plugin in self.plugins() {
            interfaces::judge(&plugin, &mut verdicts);
            ipam::judge(self, &plugin, &mut verdicts);
        }
        verdicts
    }
}

impl Plugin<'_> {
    /// The name of its program.
    pub fn kind(&self) -> &str {
        text_of(self.fields, "type")
    }

    /// Returns the path of one of its fields in the configuration.
    pub(crate) fn path(&self, name: &str) -> String {
        match self.index {
            Some(index) => format!("plugins[{index}].{name}"),
            None => name.to_owned(),
        }
    }

    /// Returns true if it is the first plugin, or the only one.
    pub(crate) fn is_first(&self) -> bool {
        self.index.unwrap_or_default() == 0
    }

    /// The section about addresses, or null.
    pub(crate) fn ipam(&self) -> &Value {
        field(self.fields, "ipam")
    }

    /// The name of the interface of the node that the plugin uses. The plugins `bridge` and `ovs`
    /// name a `bridge`, `macvlan`, `ipvlan` and `vlan` a `master`, and `host-device` a `device`.
    pub fn node_interface(&self) -> Option<&str> {
        let named = ["bridge", "master", "device"]
            .into_iter()
            .find_map(|name| field(self.fields, name).as_str());
        // The plugin takes this name if there is none.
        named.or((self.kind() == "bridge").then_some("cni0"))
    }

    /// The VLAN of the plugin's ports, in decimal digits.
    pub fn vlan(&self) -> Option<String> {
        ["vlan", "vlanId"]
            .into_iter()
            .map(|name| field(self.fields, name))
            .find(|value| value.is_number())
            .map(Value::to_string)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn config(value: Value) -> Config {
        Config::read(&value.to_string()).unwrap()
    }

    #[test]
    fn a_definition_without_a_text_leads_to_a_file_on_the_node() {
        for definition in [
            json!({}),
            json!({"spec": {}}),
            json!({"spec": {"config": ""}}),
            json!({"spec": {"config": null}}),
        ] {
            assert_eq!(text(&definition), None, "{definition}");
        }
        // Multus fails to read this one.
        assert_eq!(text(&json!({"spec": {"config": " "}})), Some(" "));
    }

    #[test]
    fn a_configuration_without_a_type_is_a_list() {
        let kinds = |value: Value| {
            let config = config(value);
            let plugins = config.plugins();
            plugins
                .iter()
                .map(|plugin| format!("{} {}", plugin.path("type"), plugin.kind()))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(json!({"type": "tap"})), ["type tap"]);
        assert_eq!(
            kinds(json!({"plugins": [{"type": "ptp"}, {"Type": "sbr"}]})),
            ["plugins[0].type ptp", "plugins[1].type sbr"]
        );
        assert_eq!(
            kinds(json!({"type": "tap", "plugins": [{"type": "ptp"}]})),
            ["type tap"]
        );
        assert_eq!(kinds(json!({"type": "", "plugins": null})), [""; 0]);
        assert_eq!(kinds(json!([1])), [""; 0]);
    }

    #[test]
    fn a_plugin_uses_an_interface_of_the_node_and_a_vlan() {
        for (plugin, interface, vlan) in [
            (
                json!({"type": "bridge", "vlan": 100}),
                Some("cni0"),
                Some("100"),
            ),
            (
                json!({"type": "ovs", "bridge": "br1", "vlan": "7"}),
                Some("br1"),
                None,
            ),
            (
                json!({"type": "vlan", "Master": "eth1", "vlanId": 5}),
                Some("eth1"),
                Some("5"),
            ),
            (
                json!({"type": "host-device", "device": "eth2"}),
                Some("eth2"),
                None,
            ),
            (json!({"type": "macvlan"}), None, None),
        ] {
            let config = config(plugin);
            let plugin = &config.plugins()[0];
            assert_eq!(
                (plugin.node_interface(), plugin.vlan().as_deref()),
                (interface, vlan),
                "{config:?}"
            );
        }
    }

    #[test]
    fn the_gateway_is_that_of_the_only_plugin() {
        let gateway = |value| config(value).gateway().map(str::to_owned);
        assert_eq!(
            gateway(json!({"type": "macvlan", "ipam": {"gateway": "192.0.2.1"}})),
            Some("192.0.2.1".to_owned())
        );
        assert_eq!(gateway(json!({"ipam": {"gateway": ""}})), None);
        assert_eq!(
            gateway(json!({"plugins": [{"ipam": {"gateway": "192.0.2.1"}}]})),
            None
        );
        assert_eq!(gateway(json!("text")), None);
    }
}
