//! The command line itself: help, wrong usage, completions, the name as a kubectl plugin.

use std::{os::unix::process::CommandExt, path::Path};

use super::common::{printed, weft};

const COMMANDS: [&str; 15] = [
    "validate",
    "plan",
    "graph",
    "status",
    "explain",
    "report",
    "uninstall",
    "release",
    "render",
    "manifests",
    "crds",
    "completion",
    "man",
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
fn a_log_level_outside_of_the_range_is_refused_with_the_way_out() {
    for level in ["3", "-2", "debug", "1.0"] {
        let mut command = super::common::command(Path::new("."), &["operator"]);
        let refused = super::common::run(command.env("CNAO_LOG_LEVEL", level), "");
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        for part in ["CNAO_LOG_LEVEL", level, "from -1 to 2", "0 (info)"] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
    }
}

/// The names of the commands in a help page.
fn commands(page: &str) -> Vec<String> {
    page.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Prints the help of a command on a terminal of 80 columns.
fn page(line: &[String], flag: &str) -> String {
    let words: Vec<&str> = line.iter().map(String::as_str).chain([flag]).collect();
    let mut command = super::common::command(Path::new("."), &words);
    let run = super::common::run(command.env("COLUMNS", "80"), "");
    assert_eq!(run.code, 0, "{words:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn every_help_page_fits_into_80_columns() {
    let mut open = vec![Vec::new()];
    let mut seen = 0;
    while let Some(line) = open.pop() {
        for flag in ["-h", "--help"] {
            for text in page(&line, flag).lines() {
                let columns = text.chars().count();
                assert!(columns <= 80, "{line:?} {flag}: {columns} columns: {text}");
            }
        }
        seen += 1;
        let below = commands(&page(&line, "--help"));
        open.extend(below.into_iter().filter(|name| name != "help").map(|name| {
            let mut line = line.clone();
            line.push(name);
            line
        }));
    }
    assert!(seen > COMMANDS.len() + 2, "{seen} pages");
}

#[test]
fn help_is_a_command_too() {
    assert_eq!(printed(&["help"]), printed(&["--help"]));
    for line in [&["plan"][..], &["node", "mtu"]] {
        let asked = printed(&[&["help"], line].concat());
        assert_eq!(asked, printed(&[line, &["--help"]].concat()), "{line:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH weft 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("man1");
    printed(&["man", "-o", target.to_str().unwrap()]);
    for command in COMMANDS {
        let page = target.join(format!("weft-{command}.1"));
        let text = std::fs::read_to_string(&page)
            .unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH SYNOPSIS"), "{text}");
    }
}

/// Runs the real kubectl with the plugin and these programs in its PATH.
fn kubectl_completes(folder: &Path, words: &[&str]) -> String {
    let kubectl = weft_testenv::Programs::find()
        .unwrap()
        .get("kubectl")
        .unwrap();
    let output = std::process::Command::new(kubectl)
        .args([&["__complete", "weft"], words].concat())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", folder)
        .output()
        .unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn kubectl_completes_commands_flags_and_values_of_the_plugin() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for is_link in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (weft, folder) = (weft_testenv::built("weft").unwrap(), folder.path());
        symlink(&weft, folder.join("kubectl-weft")).unwrap();
        let completer = folder.join("kubectl_complete-weft");
        if is_link {
            symlink(&weft, &completer).unwrap();
        } else {
            std::fs::write(&completer, printed(&["completion", "kubectl"])).unwrap();
            std::fs::set_permissions(&completer, PermissionsExt::from_mode(0o755)).unwrap();
        }
        for (words, wanted) in [
            (&["sta"][..], "status\tShow the state"),
            (&["status", "--dom"], "--domains\t"),
            (&["status", "--domains", "pl"], "placement\n"),
            (&["plan", "-o", ""], "json\n"),
        ] {
            let said = kubectl_completes(folder, words);
            assert!(said.contains(wanted), "{is_link} {words:?}: {said}");
        }
        // Directive 0: the shell completes names of files.
        let files = kubectl_completes(folder, &["plan", "-f", ""]);
        assert!(files.contains(":0\n"), "{files}");
    }
}

#[test]
fn as_a_kubectl_plugin_it_says_so() {
    let mut command = super::common::command(Path::new("."), &["validate", "--help"]);
    let run = super::common::run(command.arg0("/usr/local/bin/kubectl-weft"), "");
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
        (
            vec!["manifests", "--image", "https://registry.example/weft:1"],
            "\"https://registry.example/weft:1\" is not the reference of a container image",
        ),
        (
            vec!["manifests", "--agent-image", "registry.example/Agent"],
            "write it like registry.example/team/image:v1",
        ),
        (
            vec![
                "manifests",
                "--operand-images",
                "MULTUS=registry.example/a:1",
            ],
            "\"MULTUS\" is no image of an operand: weft operator --help lists them",
        ),
        (
            vec!["manifests", "--operand-images", "MULTUS_IMAGE"],
            "\"MULTUS_IMAGE\" is not VARIABLE=IMAGE",
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
