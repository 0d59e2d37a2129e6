#![allow(clippy::unwrap_used)]

use super::*;

fn report() -> Report {
    let mut report = Report::default();
    for (name, outcome) in [
        ("good", Outcome::Passed),
        ("bad", Outcome::Failed("one\ntwo <b>".to_owned())),
        ("absent", Outcome::LeftOut("no node".to_owned())),
    ] {
        report.add(name, Duration::from_millis(1200), outcome);
    }
    report
}

#[test]
fn summary_counts_each_outcome_and_one_failure_decides() {
    let mut all = report();
    assert_eq!(all.summary(), "1 passed, 1 failed, 1 left out, 3 s");
    assert!(!all.is_good());
    all.results.remove(1);
    assert!(all.is_good(), "a test that is left out is no failure");
}

#[test]
fn line_names_test_seconds_and_cause() {
    let failed = line(
        "bad",
        Duration::from_millis(1250),
        &Outcome::Failed("one\ntwo".to_owned()),
    );
    assert!(
        failed.starts_with("bad ") && failed.contains(" 1.2 s  FAILED"),
        "{failed}"
    );
    assert!(failed.ends_with("\n    one\n    two"), "{failed}");
}

#[test]
fn junit_file_has_each_test_with_its_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("junit.xml");
    report().write_junit(&file).unwrap();
    let read = quick_junit::Report::deserialize_from_str(&std::fs::read_to_string(&file).unwrap())
        .unwrap();
    assert_eq!((read.tests, read.failures), (3, 1));
    let cases = &read.test_suites[0].test_cases;
    assert_eq!(cases[1].name.as_str(), "bad");
    assert!(matches!(cases[2].status, TestCaseStatus::Skipped { .. }));
}
