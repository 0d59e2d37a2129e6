//! Tests that cannot run everywhere. A list names each of them, so that no test stops to run unseen.

/// The tests that older versions of Kubernetes cannot run: a name, the version from which on the test
/// runs, and the reason.
const OF_VERSIONS: &str = include_str!("../../../testenv/skips-versions");

/// Prints that a test, or a part of it, is left out on Kubernetes 1.`minor`, because `why`.
///
/// # Panics
/// `testenv/skips-versions` does not list the test, or says that this version runs it.
#[allow(clippy::panic)]
pub fn skip_on_version(test: &str, minor: u32, why: &str) {
    eprintln!("LEFT OUT: {test}, because Kubernetes 1.{minor} {why}");
    if !is_too_old(OF_VERSIONS, test, minor) {
        panic!(
            "{test} is left out on Kubernetes 1.{minor}, and testenv/skips-versions does not list it for this version"
        );
    }
}

/// Reports whether the list says that a test needs a newer version than 1.`minor`.
fn is_too_old(list: &str, test: &str, minor: u32) -> bool {
    let needed = line_of(list, test)
        .and_then(|mut words| words.next())
        .and_then(|version| version.strip_prefix("1.")?.parse::<u32>().ok());
    needed.is_some_and(|needed| minor < needed)
}

/// Reports whether a list has a line for this name.
pub(crate) fn is_listed(list: &str, name: &str) -> bool {
    line_of(list, name).is_some()
}

/// Returns the words after the name in the line of a list.
fn line_of<'a>(list: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then_some(words)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_line_counts() {
        let list = "# vlan.yaml is not listed\nbond.yaml  no bonding\n";
        assert!(is_listed(list, "bond.yaml"));
        assert!(!is_listed(list, "vlan.yaml"));
        assert!(!is_listed(list, "no"));
    }

    #[test]
    fn a_test_is_left_out_only_on_versions_before_the_listed_one() {
        let list = "a_policy_is_named  1.36  policies are served by default\nno_version  why\n";
        assert!(is_too_old(list, "a_policy_is_named", 35));
        assert!(!is_too_old(list, "a_policy_is_named", 36));
        assert!(!is_too_old(list, "another_test", 35));
        assert!(!is_too_old(list, "no_version", 35));
    }
}
