//! Arguments of kube-proxy, each read as what it is. An argument that nothing has read in the end
//! has no meaning.

use std::{collections::BTreeMap, net::IpAddr, ops::RangeInclusive};

use ipnet::IpNet;
use weft_operands::duration::{DurationError, GoDuration};
use weft_plan::Problem;

/// Where the user writes them.
pub(crate) const PATH: &str = "spec.kubeProxyConfig.proxyArguments";

/// Arguments that are taken out one by one.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    left: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl Arguments {
    /// Sets an argument, over an earlier value. An empty one is none.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.left.insert(name.to_owned(), value);
        }
    }

    /// The user's: of several values the last one counts.
    pub(crate) fn set_all(&mut self, arguments: &BTreeMap<String, Vec<String>>) {
        for (name, values) in arguments {
            if let Some(value) = values.last() {
                self.set(name, value);
            }
        }
    }

    /// Returns the mistakes, and the arguments that nothing has read.
    ///
    /// # Errors
    /// All of that.
    pub(crate) fn finish(mut self) -> Result<(), Vec<Problem>> {
        if !self.left.is_empty() {
            let names: Vec<_> = self.left.into_keys().collect();
            self.problems.push(Problem {
                field: PATH.to_owned(),
                message: format!(
                    "unused arguments: {}: kube-proxy's configuration file has no place for them; remove them",
                    names.join(", ")
                ),
            });
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(self.problems)
        }
    }

    /// Any text.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.left.remove(name)
    }

    /// One of some words.
    pub(crate) fn choice(&mut self, name: &str, known: &[&str]) -> Option<String> {
        self.read(name, |text| {
            known
                .contains(&text)
                .then(|| text.to_owned())
                .ok_or_else(|| format!("choose {}", known.join(", ")))
        })
    }

    /// `true` or `false`, as Go's `strconv.ParseBool` knows them.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        self.read(name, |text| match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("write true or false".to_owned()),
        })
    }

    /// A whole number.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<i32>) -> Option<i32> {
        self.read(name, |text| {
            let number = text.parse().ok().filter(|number| range.contains(number));
            number
                .ok_or_else(|| format!("write a number from {} to {}", range.start(), range.end()))
        })
    }

    /// An IP address.
    pub(crate) fn address(&mut self, name: &str) -> Option<String> {
        self.read(name, |text| {
            text.parse::<IpAddr>()
                .map(|ip| ip.to_string())
                .map_err(|_| "write an IP address, like 0.0.0.0 or ::".to_owned())
        })
    }

    /// An IP address and a port, each an argument of its own.
    pub(crate) fn address_and_port(
        &mut self,
        address: &str,
        port: &str,
        default: u16,
    ) -> Option<String> {
        let address = self.address(address);
        let port = self.read(port, |text| {
            text.parse::<u16>()
                .map_err(|_| "write a port from 0 to 65535".to_owned())
        });
        (address.is_some() || port.is_some()).then(|| {
            super::join(
                address.as_deref().unwrap_or("0.0.0.0"),
                port.unwrap_or(default),
            )
        })
    }

    /// Blocks of addresses, separated by commas. `or` is a word that may stand instead of them.
    pub(crate) fn blocks(&mut self, name: &str, or: Option<&str>) -> Option<Vec<String>> {
        self.read(name, |text| {
            let blocks: Vec<_> = text.split(',').map(str::trim).collect();
            if or == Some(text) || blocks.iter().all(|block| block.parse::<IpNet>().is_ok()) {
                return Ok(blocks.into_iter().map(str::to_owned).collect());
            }
            let or = or.map(|word| format!(", or {word}")).unwrap_or_default();
            Err(format!(
                "write blocks of addresses separated by commas, like 10.0.0.0/8,fd00::/8{or}"
            ))
        })
    }

    /// One block of addresses, or one of each family.
    pub(crate) fn pair_of_blocks(&mut self, name: &str) -> Option<String> {
        let blocks = self.blocks(name, None)?;
        let v6 = |block: &String| block.contains(':');
        if blocks.len() > 2 || blocks.len() == 2 && v6(&blocks[0]) == v6(&blocks[1]) {
            self.refuse(
                name,
                &blocks.join(","),
                "write one block, or one of IPv4 and one of IPv6",
            );
            return None;
        }
        Some(blocks.join(","))
    }

    /// A range of ports: `a-b`, `a+size`, or one port.
    pub(crate) fn port_range(&mut self, name: &str) -> Option<String> {
        self.read(name, |text| {
            let number = |text: &str| text.trim().parse::<u16>().ok();
            let right = match (text.split_once('-'), text.split_once('+')) {
                (Some((first, last)), _) => number(first)
                    .zip(number(last))
                    .is_some_and(|(first, last)| first <= last),
                (_, Some((first, size))) => number(first)
                    .zip(number(size))
                    .is_some_and(|(first, size)| first.checked_add(size).is_some()),
                _ => number(text).is_some(),
            };
            if right {
                Ok(text.to_owned())
            } else {
                Err("write a range of ports, like 30000-32767".to_owned())
            }
        })
    }

    /// A duration as Go writes it. Zero only if that means something.
    pub(crate) fn duration(&mut self, name: &str, zero: bool) -> Option<String> {
        self.read(name, |text| match text.parse::<GoDuration>() {
            Ok(_) => Ok(text.to_owned()),
            Err(DurationError::NotPositive(_)) if zero && !text.starts_with('-') => {
                Ok("0s".to_owned())
            }
            Err(error) => Err(error.to_string()),
        })
    }

    /// Feature gates: `A=true,B=false`.
    pub(crate) fn gates(&mut self, name: &str) -> Option<BTreeMap<String, bool>> {
        self.read(name, |text| {
            let gate = |gate: &str| {
                let (name, value) = gate.trim().split_once('=')?;
                Some((name.to_owned(), value.parse().ok()?))
            };
            text.split(',')
                .map(gate)
                .collect::<Option<_>>()
                .ok_or_else(|| "write it like GateA=true,GateB=false".to_owned())
        })
    }

    /// Adds a problem of an argument.
    pub(crate) fn refuse(&mut self, name: &str, value: &str, rule: &str) {
        self.problems.push(Problem {
            field: format!("{PATH}.{name}"),
            message: format!("{value:?} is not valid: {rule}"),
        });
    }

    fn read<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.left.remove(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(rule) => {
                self.refuse(name, &text, &rule);
                None
            }
        }
    }
}
