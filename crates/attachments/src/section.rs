//! The section `ipam` of a plugin, and the parts of it that several programs for addresses share.

use std::net::IpAddr;

use serde_json::Value;

use crate::{
    Plugin, Verdict,
    address::{self, Block},
    go::{Shape, field, text},
};

const AN_ADDRESS: &str = "an IP address: write it like 192.0.2.1";
pub(crate) const A_BLOCK: &str = "a block of addresses: write it like 192.0.2.0/24";
const WITH_PREFIX: &str = "an address with the length of its prefix: write it like 192.0.2.10/24";

/// The judge of one section.
pub(crate) struct Judge<'p, 'v> {
    /// The section `ipam`.
    pub(crate) section: &'p Value,
    /// Its path in the configuration.
    path: String,
    verdicts: &'v mut Vec<Verdict>,
}

impl<'p, 'v> Judge<'p, 'v> {
    pub(crate) fn of(plugin: &'p Plugin<'_>, verdicts: &'v mut Vec<Verdict>) -> Self {
        Self {
            section: plugin.ipam(),
            path: plugin.path("ipam"),
            verdicts,
        }
    }

    /// Returns the path of a field of the section in the configuration.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub(crate) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let verdict = Verdict::refused(self.path(name), message);
        self.verdicts.push(verdict);
    }

    pub(crate) fn doubt(&mut self, name: &str, message: impl Into<String>) {
        let verdict = Verdict::doubtful(self.path(name), message);
        self.verdicts.push(verdict);
    }

    /// Refuses fields of an object in the section that have another shape. Returns true if there
    /// are none. `path` is the place of the object, with a dot at its end.
    pub(crate) fn shapes(&mut self, path: &str, object: &Value, fields: &[(&str, Shape)]) -> bool {
        let mut fits = true;
        for (name, shape) in fields {
            let value = field(object, name);
            if !shape.fits(value) {
                self.refuse(&format!("{path}{name}"), shape.mistake(value));
                fits = false;
            }
        }
        fits
    }

    /// Reads an address. `None` if the text is empty, or is none, which is refused.
    pub(crate) fn ip(
        &mut self,
        name: &str,
        text: &str,
        read: impl Fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        if text.is_empty() {
            return None;
        }
        let found = read(text);
        if found.is_none() {
            self.refuse(name, format!("{text:?} is not {AN_ADDRESS}"));
        }
        found
    }

    /// Checks the addresses that all pods get (`addresses` of `static` and whereabouts).
    pub(crate) fn addresses(&mut self, read: impl Fn(&str) -> Option<Block>) {
        if !self.shapes("", self.section, &[("addresses", Shape::Objects)]) {
            return;
        }
        let entries = field(self.section, "addresses").as_array();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let path = format!("addresses[{index}].");
            let fields = [("address", Shape::String), ("gateway", Shape::String)];
            if !self.shapes(&path, entry, &fields) {
                continue;
            }
            let address = text(entry, "address");
            if read(address).is_none() {
                let message = format!("{address:?} is not {WITH_PREFIX}");
                self.refuse(&format!("{path}address"), message);
            }
            self.ip(
                &format!("{path}gateway"),
                text(entry, "gateway"),
                address::ip,
            );
        }
    }

    /// Checks the routes (`types.Route` of libcni).
    pub(crate) fn routes(&mut self) {
        if !self.shapes("", self.section, &[("routes", Shape::Objects)]) {
            return;
        }
        let entries = field(self.section, "routes").as_array();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let path = format!("routes[{index}].");
            let fields = [("dst", Shape::String), ("gw", Shape::String)];
            if !self.shapes(&path, entry, &fields) {
                continue;
            }
            // Go leaves out a field that is not there, and reads an empty text.
            if let Some(block) = field(entry, "dst").as_str()
                && Block::parse(block).is_none()
            {
                self.refuse(&format!("{path}dst"), format!("{block:?} is not {A_BLOCK}"));
            }
            self.ip(&format!("{path}gw"), text(entry, "gw"), address::ip);
        }
    }
}
