//! `scripts/suite` runs tests, and those that fail a second time: judged by a small crate whose
//! tests pass, fail always, fail the first time only, and never end.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A crate in a folder of its own, with limits of seconds.
struct Crate(tempfile::TempDir);

impl Crate {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\n[package]\nname = \"tried\"\nversion = \"0.0.0\"\nedition = \"2024\"\n",
        );
        write("src/lib.rs", "");
        write(
            ".config/nextest.toml",
            r#"
                [profile.default]
                slow-timeout = { period = "1s", terminate-after = 1, grace-period = "1s" }
                [profile.default.junit]
                path = "junit.xml"
                [profile.again]
                test-threads = 1
                [profile.again.junit]
                path = "junit.xml"
                store-success-output = true
            "#,
        );
        // The child of the last one is in a process group of its own, which nextest does not end.
        write(
            "tests/all.rs",
            r#"
                use std::process::Command;
                #[test] fn passes() {}
                #[test] fn fails() { panic!("always"); }
                #[test] fn fails_once() { assert!(std::fs::File::create_new("once").is_err(), "once"); }
                #[test] fn never_ends() {
                    let mut child = Command::new("setsid").args(["--wait", "sleep", "1000"]).spawn().unwrap();
                    std::fs::write("child", child.id().to_string()).unwrap();
                    child.wait().unwrap();
                }
            "#,
        );
        Self(folder)
    }

    /// Runs these tests. Returns the exit code and what was printed.
    fn suite(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suite");
        let mut suite = Command::new(script);
        suite.args(arguments).current_dir(self.0.path());
        // The run that this test belongs to sets variables which are not for this crate.
        let of_this_run = |name: &str| name.starts_with("NEXTEST") || name == "CARGO_TARGET_DIR";
        for (name, _) in std::env::vars().filter(|(name, _)| of_this_run(name)) {
            suite.env_remove(name);
        }
        let output = suite.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        println!("{text}{log}");
        (output.status.code(), text)
    }

    fn outputs(&self, test: &str) -> PathBuf {
        self.0.path().join("target/tests").join(test)
    }
}

#[test]
fn tests_that_pass_are_run_once() {
    let (code, text) = Crate::new().suite(&["test(passes)"]);
    assert_eq!(code, Some(0));
    assert_eq!(text.lines().last(), Some("1 passed, 0 failed, 0 flaky"));
}

#[test]
fn a_test_that_passes_the_second_time_is_flaky_and_fails_no_run() {
    let tried = Crate::new();
    let (code, text) = tried.suite(&["test(passes) | test(once)"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("FLAKY tried::all fails_once"), "{text}");
    assert!(text.ends_with("2 passed, 0 failed, 1 flaky\n"), "{text}");
    let outputs = tried.outputs("tried-all-fails_once");
    for (log, text) in [("first.log", "panicked"), ("second.log", "... ok")] {
        let log = fs::read_to_string(outputs.join(log)).unwrap();
        assert!(log.contains(text), "{log}");
    }
}

#[test]
fn a_test_that_fails_twice_fails_the_run() {
    let tried = Crate::new();
    let (code, text) = tried.suite(&["test(passes) | test(=fails)"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("FAILED tried::all fails:"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed, 0 flaky\n"), "{text}");
    for log in ["first.log", "second.log"] {
        let log = tried.outputs("tried-all-fails").join(log);
        assert!(fs::read_to_string(log).unwrap().contains("always"));
    }
}

#[test]
fn a_test_that_must_not_run_again_fails_the_run_the_first_time() {
    let (code, text) = Crate::new().suite(&["--again", "none()", "test(once)"]);
    assert_eq!(code, Some(1));
    assert!(text.ends_with("0 passed, 1 failed, 0 flaky\n"), "{text}");
}

#[test]
fn a_test_that_never_ends_is_ended_with_all_that_it_started() {
    let tried = Crate::new();
    let (code, text) = tried.suite(&["test(passes) | test(never)"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("FAILED tried::all never_ends:"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed, 0 flaky\n"), "{text}");
    let child = fs::read_to_string(tried.0.path().join("child")).unwrap();
    assert!(!Path::new("/proc").join(child).exists(), "{text}");
}

#[test]
fn tests_that_a_limit_of_the_run_leaves_out_fail_the_run() {
    let tried = Crate::new();
    let config = tried.0.path().join(".config/nextest.toml");
    let text = fs::read_to_string(&config).unwrap();
    let limited = text.replace(
        "[profile.default]",
        "[profile.default]\nglobal-timeout = \"1s\"",
    );
    fs::write(
        &config,
        limited.replace("period = \"1s\"", "period = \"100s\""),
    )
    .unwrap();
    // One at a time, and in the order of their names.
    let (code, text) = tried.suite(&["--threads", "1", "test(never) | test(passes)"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("NOT RUN tried::all passes"), "{text}");
    assert!(text.ends_with("0 passed, 2 failed, 0 flaky\n"), "{text}");
}

#[test]
fn a_name_that_no_test_has_ends_the_run_with_2() {
    let (code, text) = Crate::new().suite(&["test(=nothing)"]);
    assert_eq!((code, text.as_str()), (Some(2), ""));
}

#[test]
fn a_second_run_in_the_same_folder_ends_with_2() {
    let tried = Crate::new();
    let folder = tried.0.path().join("target/tests");
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let (code, text) = tried.suite(&["test(passes)"]);
    assert_eq!((code, text.as_str()), (Some(2), ""));
}

#[test]
fn tests_that_cannot_be_built_end_the_run_with_2() {
    let tried = Crate::new();
    fs::write(tried.0.path().join("src/lib.rs"), "broken").unwrap();
    let (code, text) = tried.suite(&["all()"]);
    assert_eq!(code, Some(2), "{text}");
}
