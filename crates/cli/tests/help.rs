//! The command line itself: help, wrong usage, completions, the name as a kubectl plugin.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{os::unix::process::CommandExt, path::Path};

use common::{printed, weft};

const COMMANDS: [&str; 13] = [
    "validate",
    "plan",
    "status",
    "explain",
    "report",
    "uninstall",
    "release",
    "render",
    "manifests",
    "crds",
    "completion",
    "node",
    "version",
];

#[test]
fn help_names_every_command_and_each_has_help_of_its_own() {
    let help = printed(&["--help"]);
    for command in COMMANDS {
        assert!(
            help.lines()
                .any(|line| line.trim_start().starts_with(&format!("{command} "))),
            "{command} is missing in\n{help}"
        );
        let own = printed(&[command, "--help"]);
        assert!(own.contains(&format!("Usage: weft {command}")), "{own}");
        assert!(
            own.lines().next().is_some_and(|line| line.len() > 20),
            "{own}"
        );
    }
}

#[test]
fn as_a_kubectl_plugin_it_says_so() {
    let mut command = common::command(Path::new("."), &["validate", "--help"]);
    let run = common::run(command.arg0("/usr/local/bin/kubectl-weft"), "");
    assert!(
        run.stdout.contains("Usage: kubectl weft validate"),
        "{}",
        run.stdout
    );
}

#[test]
fn wrong_usage_is_told_with_the_way_out() {
    for (arguments, said) in [
        (vec![], "Usage: weft <COMMAND>"),
        (vec!["manifest"], "'manifests'"),
        (vec!["validate"], "--filename <FILE>"),
        (
            vec!["manifests", "--components", "multus,linuxbridge"],
            "a similar value exists: 'linux-bridge'",
        ),
        (
            vec!["manifests", "--domains", "addon"],
            "a similar value exists: 'addons'",
        ),
        (
            vec!["manifests", "--image-pull-policy", "always"],
            "[possible values: Always, IfNotPresent, Never]",
        ),
    ] {
        let run = weft(Path::new("."), &arguments);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.stderr
        );
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn completions_know_commands_and_flags() {
    for (shell, sign) in [
        ("bash", "complete -F _weft"),
        ("zsh", "#compdef weft"),
        ("fish", "complete -c weft"),
    ] {
        let script = printed(&["completion", shell]);
        assert!(script.contains(sign), "{shell}");
        for word in COMMANDS.into_iter().chain(["components", "linux-bridge"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_version_comes_with_the_apis() {
    let text = printed(&["version"]);
    assert!(
        text.starts_with(&format!("weft {}\n", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert!(
        text.contains(
            "serves NetworkAddonsConfig networkaddonsoperator.network.kubevirt.io/v1alpha1\n"
        ),
        "{text}"
    );
}

/// Plain text in a pipe. The tests of `weft validate` compare whole lines, so they would see colour
/// as well.
#[test]
fn there_is_no_colour_in_a_pipe() {
    let run = weft(Path::new("."), &["validate", "-f", "nowhere"]);
    assert!(!run.stderr.contains('\x1b'), "{:?}", run.stderr);
}
