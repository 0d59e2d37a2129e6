//! The values of YAML's scalars, by the rules of `sigs.k8s.io/yaml`, the library of `kubectl`.
//!
//! It follows YAML 1.1 for booleans and octal numbers (`resolve.go` of its package `goyaml.v2`).
//! Then it writes JSON, in which Go gives a whole number no fraction.

use base64::{Engine, engine::general_purpose::STANDARD};
use libyaml_safer::{BOOL_TAG, FLOAT_TAG, INT_TAG, NULL_TAG};
use serde_json::{Number, Value};

const BINARY_TAG: &str = "tag:yaml.org,2002:binary";

/// The meaning of a scalar.
#[derive(Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// The meaning of a text with this tag. `is_plain` is false for a text in quotes and for a
    /// block of text.
    ///
    /// # Errors
    /// The tag does not fit the text.
    pub(crate) fn read(tag: Option<&str>, text: String, is_plain: bool) -> Result<Self, String> {
        let tag = tag.unwrap_or_default();
        let fits = |scalar: &Self| match tag {
            NULL_TAG => matches!(scalar, Self::Null),
            BOOL_TAG => matches!(scalar, Self::Bool(_)),
            INT_TAG => matches!(scalar, Self::Int(_)),
            FLOAT_TAG => matches!(scalar, Self::Int(_) | Self::Float(_)),
            _ => true,
        };
        match tag {
            "" if is_plain => Ok(plain(&text).unwrap_or(Self::Text(text))),
            NULL_TAG | BOOL_TAG | INT_TAG | FLOAT_TAG => {
                plain(&text).filter(fits).ok_or_else(|| {
                    format!(
                        "the value does not fit its tag !!{}",
                        tag.rsplit(':').next().unwrap_or_default()
                    )
                })
            }
            BINARY_TAG => STANDARD
                .decode(text.replace(['\n', '\r'], ""))
                .map(|bytes| Self::Text(String::from_utf8_lossy(&bytes).into_owned()))
                .map_err(|_| "a text with the tag !!binary must be base64".to_owned()),
            // !!str, !!timestamp, tags of programs, and no tag at a text in quotes.
            _ => Ok(Self::Text(text)),
        }
    }

    /// The value in JSON.
    ///
    /// # Errors
    /// JSON has no such number.
    pub(crate) fn into_value(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Float(value) => Value::Number(
                number(value).ok_or("JSON has no infinite number and no \"not a number\"")?,
            ),
            Self::Text(text) => text.into(),
        })
    }

    /// The name of a field. A number or a boolean becomes a text.
    ///
    /// # Errors
    /// It is null.
    pub(crate) fn into_key(self) -> Result<String, String> {
        match self {
            Self::Null => Err("the name of a field is empty: put it in quotes".to_owned()),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Int(value) => Ok(value.to_string()),
            Self::Float(value) => Ok(value.to_string()),
            Self::Text(text) => Ok(text),
        }
    }
}

/// A number as the API server gets it: Go writes a whole one without a fraction. `None` if it is
/// not finite.
pub(crate) fn number(value: f64) -> Option<Number> {
    match value.to_string().parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(value),
    }
}

/// Reports whether a text is an octal number that looks like a decimal one with another value, as
/// `0100`, which is 64.
pub(crate) fn is_hidden_octal(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).replace('_', "");
    digits.len() > 2 && digits.starts_with('0') && digits.bytes().all(|c| c.is_ascii_digit()) && {
        let octal = u64::from_str_radix(&digits, 8).ok();
        octal.is_some() && octal != digits.parse().ok()
    }
}

/// The meaning of a text without quotes. `None` if it is just a text.
fn plain(text: &str) -> Option<Scalar> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))?
        }
        _ => return None,
    })
}

/// A whole number in the notations of Go: decimal, `0x1f`, `0b11`, `0o17` and `017`. One that is
/// too large for a signed number becomes a float.
fn integer(text: &str) -> Option<Scalar> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match prefix.as_deref() {
        Some("0b") if digits.len() > 2 => (2, &digits[2..]),
        Some("0o") if digits.len() > 2 => (8, &digits[2..]),
        Some("0x") if digits.len() > 2 => (16, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    let value = if is_negative { -magnitude } else { magnitude };
    if let Ok(value) = i64::try_from(value) {
        return Some(Scalar::Int(value));
    }
    u64::try_from(value)
        .ok()?
        .to_string()
        .parse()
        .ok()
        .map(Scalar::Float)
}

/// A decimal number with a fraction or an exponent.
fn float(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let are_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && are_digits(digits)
    });
    if !are_digits(whole)
        || !are_digits(fraction)
        || (whole.is_empty() && fraction.is_empty())
        || !exponent_fits
    {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libyaml_safer::{STR_TAG, TIMESTAMP_TAG};

    #[test]
    fn a_number_has_its_notation_and_a_text_stays_one() {
        for (text, scalar) in [
            ("0100", Some(Scalar::Int(64))),
            ("0o17", Some(Scalar::Int(15))),
            ("0b101", Some(Scalar::Int(5))),
            ("-0x1F", Some(Scalar::Int(-31))),
            ("1_000", Some(Scalar::Int(1000))),
            ("08", Some(Scalar::Float(8.0))),
            ("1.", Some(Scalar::Float(1.0))),
            ("+.5", Some(Scalar::Float(0.5))),
            ("1e3", Some(Scalar::Float(1000.0))),
            ("1e400", None),
            ("1e", None),
            ("1:30", None),
            ("02:00:00:00:00:01", None),
            ("0x", None),
            ("+-1", None),
            (".", None),
            ("+", None),
            ("192.0.2.1", None),
        ] {
            assert_eq!(plain(text), scalar, "{text}");
        }
    }

    #[test]
    fn a_whole_number_has_no_fraction() {
        assert_eq!(number(1500.0), Some(1500.into()));
        assert_eq!(number(-0.0), Some(0.into()));
        assert_eq!(number(1.5), Number::from_f64(1.5));
        assert_eq!(number(1e20), Number::from_f64(1e20));
        assert_eq!(number(f64::NAN), None);
    }

    #[test]
    fn an_octal_number_is_hidden_where_it_looks_like_another_one() {
        for text in ["0100", "-010", "0_100"] {
            assert!(is_hidden_octal(text), "{text}");
        }
        for text in ["0", "00", "07", "08", "0o100", "100", "0x10", "1.0", ""] {
            assert!(!is_hidden_octal(text), "{text}");
        }
    }

    #[test]
    fn a_tag_decides_and_must_fit() {
        let read = |tag, text: &str| Scalar::read(Some(tag), text.to_owned(), true);
        assert_eq!(read(STR_TAG, "12"), Ok(Scalar::Text("12".to_owned())));
        assert_eq!(
            read(TIMESTAMP_TAG, "2001-01-01"),
            Ok(Scalar::Text("2001-01-01".to_owned()))
        );
        assert_eq!(read("!x", "yes"), Ok(Scalar::Text("yes".to_owned())));
        assert_eq!(read(INT_TAG, "12"), Ok(Scalar::Int(12)));
        assert_eq!(
            read(BINARY_TAG, "aGVsbG8="),
            Ok(Scalar::Text("hello".to_owned()))
        );
        for (tag, text) in [(INT_TAG, "1.5"), (BOOL_TAG, "1"), (BINARY_TAG, "_")] {
            assert!(read(tag, text).is_err(), "{tag} {text}");
        }
    }
}
