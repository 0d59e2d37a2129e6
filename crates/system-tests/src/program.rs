//! The programs under test.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use weft_testenv::{built, variable_of};

/// A program of this tree: the one that its variable of the environment names, for example the
/// release build, otherwise the one that cargo builds next to this test.
///
/// Cargo builds a program for the tests of its own package only. So the first call builds the
/// programs of all packages, with the features that the tests have.
pub fn program(name: &str) -> PathBuf {
    if std::env::var_os(variable_of(name)).is_none() {
        build();
    }
    built(name).unwrap()
}

fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut command = Command::new("cargo");
        command
            .args(["build", "--quiet", "--locked", "--workspace", "--bins"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // Cargo sets these variables for this test, see
        // <https://doc.rust-lang.org/cargo/reference/environment-variables.html>. Build scripts, for
        // example that of ring, run again when they change.
        let of_this_test = |name: &str| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "LD_LIBRARY_PATH"
        };
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(of_this_test) {
                command.env_remove(name);
            }
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{command:?}: {status}");
    });
}
