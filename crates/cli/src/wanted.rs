//! Resources that a user names on the command line, as `nncp/br1`.

use weft_plan::Kind;

use crate::{
    domains::{self, Entry},
    suggest::did_you_mean,
};

/// A resource, or all of a kind, that a user names.
#[derive(Clone)]
pub struct Wanted {
    /// The domain that serves it.
    pub entry: &'static Entry,
    /// Its kind.
    pub kind: Kind,
    /// Its name. None: all of the kind.
    pub name: Option<String>,
}

/// A kind, and the names that a user may call it by, in lower case.
struct Named {
    entry: &'static Entry,
    kind: Kind,
    names: Vec<String>,
}

/// Returns the kinds of all domains with their names, as kubectl knows them.
fn kinds() -> Vec<Named> {
    let mut all = Vec::new();
    for entry in domains::ALL {
        for (_, definition) in entry.definitions() {
            let spec = &definition.spec;
            let Some(kind) = Kind::find_in_group(&spec.group, &spec.names.kind) else {
                continue;
            };
            let names = [kind.kind, kind.plural].map(str::to_lowercase).into_iter();
            let short = spec.names.short_names.clone().unwrap_or_default();
            let mut names: Vec<_> = names.chain(short).collect();
            let in_full = [kind.kind, kind.plural].map(|name| format!("{name}.{}", kind.group));
            names.extend(in_full.map(|name| name.to_lowercase()));
            all.push(Named { entry, kind, names });
        }
    }
    all
}

impl Wanted {
    /// Reads `KIND/NAME` or `KIND`: the kind by its name, its plural or a short name, in upper or
    /// lower case.
    ///
    /// # Errors
    /// No domain has the kind, or it cannot be shown by itself.
    pub fn read(text: &str) -> Result<Self, String> {
        let (word, name) = match text.split_once('/') {
            Some((word, name)) => (word, Some(name)),
            None => (text, None),
        };
        if name.is_some_and(|name| name.is_empty() || name.contains('/')) {
            return Err(format!(
                "{text:?} is no resource: write KIND/NAME, for example nncp/br1"
            ));
        }
        let all = kinds();
        let called = word.to_lowercase();
        let Some(named) = all.iter().find(|named| named.names.contains(&called)) else {
            let known = all.iter().filter(|named| named.is_shown());
            let names = known.clone().flat_map(|named| &named.names);
            return Err(match did_you_mean(word, names.map(String::as_str)) {
                Some(close) => format!("Weft has no kind {word:?}; did you mean {close:?}?"),
                None => {
                    let known: Vec<_> = known.map(|named| named.kind.kind).collect();
                    format!("Weft has no kind {word:?}; it has {}", known.join(", "))
                }
            });
        };
        if !named.is_shown() {
            return Err(format!(
                "a {} is a part of its policy: weft status nncp/POLICY",
                named.kind.kind
            ));
        }
        Ok(Self {
            entry: named.entry,
            kind: named.kind,
            name: name.map(str::to_owned),
        })
    }

    /// Reports whether the user names the object of this kind and name.
    pub fn is(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

impl Named {
    /// Reports whether `weft status` shows an object of the kind by itself.
    fn is_shown(&self) -> bool {
        self.kind == self.entry.resource
            || self.entry.has_policies
                && [
                    weft_plan::kinds::NODE_NETWORK_CONFIGURATION_POLICY,
                    weft_plan::kinds::NODE_NETWORK_STATE,
                ]
                .contains(&self.kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weft_plan::kinds;

    #[test]
    fn kinds_are_known_by_kind_plural_and_short_name() {
        for (text, kind, name) in [
            (
                "networkaddonsconfig/cluster",
                kinds::NETWORK_ADDONS_CONFIG,
                Some("cluster"),
            ),
            ("nac/cluster", kinds::NETWORK_ADDONS_CONFIG, Some("cluster")),
            (
                "NetworkConfigs/default",
                kinds::NETWORK_CONFIG,
                Some("default"),
            ),
            ("NMState/nmstate", kinds::NMSTATE, Some("nmstate")),
            (
                "NNCP/br1",
                kinds::NODE_NETWORK_CONFIGURATION_POLICY,
                Some("br1"),
            ),
            ("nns", kinds::NODE_NETWORK_STATE, None),
            (
                "placementapis.placement.openstack.org/placement",
                kinds::PLACEMENT_API,
                Some("placement"),
            ),
        ] {
            let wanted = Wanted::read(text).unwrap();
            assert_eq!(
                (wanted.kind, wanted.name.as_deref()),
                (kind, name),
                "{text}"
            );
            assert!(wanted.entry.definitions().next().is_some());
        }
    }

    #[test]
    fn a_mistyped_kind_gets_a_suggestion_or_the_list() {
        let error = |text: &str| Wanted::read(text).err().unwrap();
        assert_eq!(
            error("networkaddonconfig/cluster"),
            "Weft has no kind \"networkaddonconfig\"; did you mean \"networkaddonsconfig\"?"
        );
        assert!(error("pods/x").ends_with(
            "it has NetworkAddonsConfig, NetworkConfig, NMState, NodeNetworkState, \
             NodeNetworkConfigurationPolicy, PlacementAPI"
        ));
        assert!(error("nnce/node-1.br1").contains("weft status nncp/POLICY"));
        for text in ["nncp/", "nncp/a/b"] {
            assert!(error(text).contains("write KIND/NAME"), "{text}");
        }
    }
}
