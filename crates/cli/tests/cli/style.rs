//! `scripts/style` finds what docs/style.md forbids.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

/// A tree with the script and one file.
struct Tree(TempDir);

impl Tree {
    fn with(file: &str, text: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir(tree.0.path().join("scripts")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/style");
        fs::copy(script, tree.0.path().join("scripts/style")).unwrap();
        let git = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(&tree.0)
            .status();
        assert!(git.unwrap().success());
        tree.write(file, text);
        tree
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }

    fn style(&self) -> (bool, String) {
        let Output { status, stdout, .. } = Command::new(self.0.path().join("scripts/style"))
            .output()
            .unwrap();
        (status.success(), String::from_utf8(stdout).unwrap())
    }
}

#[test]
fn forbidden_openings_words_logs_and_names_are_found() {
    // In two parts, since this file is checked, too.
    let log = [
        "fn a() {\n    tracing::inf",
        "o!(n, \"Object drifted.\");\n}",
    ]
    .concat();
    let cases = [
        ("a.md", "What is gone is gone.", "name the actor first"),
        ("a.md", "- That is wrong.", "name the actor first"),
        ("a.md", "The user is told.", "instead of \"told\""),
        (
            "a.rs",
            "/// Whoever asks.\nfn a() {}",
            "name the actor first",
        ),
        (
            "a.rs",
            "fn a() {\n    // Once a pass.\n}",
            "instead of \"a pass\"",
        ),
        ("a.rs", &log, "a log message"),
        (
            "a.rs",
            "#[test]\nfn what_is_gone() {}",
            "begins with its subject",
        ),
    ];
    for (file, text, finding) in cases {
        let (passes, said) = Tree::with(file, text).style();
        assert!(!passes && said.contains(finding), "{text}: {said}");
    }
    let long = format!("#[tokio::test]\nasync fn {}() {{}}", "a".repeat(71));
    assert!(Tree::with("a.rs", &long).style().1.contains("at most 70"));
}

#[test]
fn questions_headings_code_and_tables_of_plain_words_pass() {
    let page = "# What you will see\n\nWhat is Weft? Run `weft tell`.\n\n```console\nWhat is told\n```\n\n| a | b |\n| --- | --- |\n| x | y |\n";
    assert_eq!(Tree::with("a.md", page).style(), (true, String::new()));
}
