//! The objects of an installation, as `weft manifests` prints them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The program `weft`.
pub struct Program(PathBuf);

impl Program {
    /// The program at this path.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns the objects that `weft manifests` prints with these arguments, in its order.
    ///
    /// # Errors
    /// The program cannot be started, or refuses the arguments.
    pub fn manifests(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let text = self.run(&[&["manifests", "-o", "json"], arguments].concat())?;
        let mut list: Value = serde_json::from_str(&text)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("weft manifests {} printed no list", arguments.join(" ")),
        }
    }

    /// Returns the YAML that `weft manifests` prints with these arguments.
    ///
    /// # Errors
    /// The program cannot be started, or refuses the arguments.
    pub fn text(&self, arguments: &[&str]) -> Result<String> {
        self.run(&[&["manifests"], arguments].concat())
    }

    /// Returns the version of the program.
    ///
    /// # Errors
    /// The program cannot be started, or `weft version` does not begin with `weft VERSION`.
    pub fn version(&self) -> Result<String> {
        let text = self.run(&["version"])?;
        let first = text.lines().next().unwrap_or_default();
        let version = first.strip_prefix("weft ");
        let version = version.with_context(|| format!("weft version printed {first:?}"))?;
        Ok(version.to_owned())
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.0)
            .args(arguments)
            // Without a cluster that it would look at first.
            .env("KUBECONFIG", "/dev/null")
            .output()
            .with_context(|| format!("cannot start {}", self.0.display()))?;
        if !output.status.success() {
            bail!(
                "weft {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Kind, namespace and name of an object.
pub fn key(object: &Value) -> (String, String, String) {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    (
        text("/kind"),
        text("/metadata/namespace"),
        text("/metadata/name"),
    )
}
