//! Patterns of interfaces' names, as shells have them.

use regex::Regex;

/// A pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is no pattern of names: {message}")]
pub struct GlobError {
    /// The pattern.
    pattern: String,
    /// Reason for the refusal.
    message: String,
}

/// A pattern as an expression for whole names: `*` stands for anything, `?` for one character,
/// `[a-c]` for one of these and `[!a-c]` for one of the others. Everything else is itself.
pub(crate) fn glob(pattern: &str) -> Result<Regex, GlobError> {
    let failed = |message: &str| GlobError {
        pattern: pattern.to_owned(),
        message: message.to_owned(),
    };
    let mut expression = String::from("^(?s:");
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '[' => {
                let class: String = rest
                    .by_ref()
                    .take_while(|character| *character != ']')
                    .collect();
                let (negated, class) = class
                    .strip_prefix(['!', '^'])
                    .map_or((false, class.as_str()), |class| (true, class));
                if class.is_empty() {
                    return Err(failed("nothing stands between [ and ]"));
                }
                let escaped: String = class
                    .chars()
                    .map(|character| {
                        if character == '-' {
                            "-".to_owned()
                        } else {
                            regex::escape(&character.to_string())
                        }
                    })
                    .collect();
                expression.push_str(&format!("[{}{escaped}]", if negated { "^" } else { "" }));
            }
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push_str(")$");
    if pattern.matches('[').count() > pattern.matches(']').count() {
        return Err(failed("a ] is missing"));
    }
    Regex::new(&expression).map_err(|_| failed("a range runs backwards"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, yes, no) in [
            ("eth0", "eth0", "eth01"),
            ("eth*", "eth", "xeth0"),
            ("eth?", "eth1", "eth12"),
            ("eth[1-9]", "eth3", "eth0"),
            ("eth[!0]", "eth3", "eth0"),
            ("en[ps]*", "enp3s0", "eno1"),
            ("eth0.100", "eth0.100", "eth0x100"),
            ("a+b", "a+b", "aab"),
        ] {
            let expression = glob(pattern).unwrap();
            assert!(
                expression.is_match(yes) && !expression.is_match(no),
                "{pattern}"
            );
        }
    }

    #[test]
    fn an_invalid_pattern_is_reported() {
        let message = |pattern: &str| glob(pattern).unwrap_err().to_string();
        assert_eq!(
            message("eth[0-9"),
            "\"eth[0-9\" is no pattern of names: a ] is missing"
        );
        assert!(message("eth[]").contains("nothing stands between"));
        assert!(message("eth[9-1]").contains("a range runs backwards"));
    }
}
