//! The text of a file.

/// Decodes the content of a file as `kubectl` does: UTF-16 with a byte order mark, as PowerShell
/// writes it, or else UTF-8. A character stands in for what is neither.
pub fn decode(bytes: Vec<u8>) -> String {
    let utf16 = |from: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks(2).map(|unit| match unit {
            [a, b] => from([*a, *b]),
            // Half a character.
            _ => 0xfffd,
        });
        char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    match bytes.get(..2) {
        Some([0xff, 0xfe]) => utf16(u16::from_le_bytes),
        Some([0xfe, 0xff]) => utf16(u16::from_be_bytes),
        _ => {
            let text = String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            match text.strip_prefix('\u{feff}') {
                Some(rest) => rest.to_owned(),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_says_how_the_text_is_written() {
        let units = |to: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}a: \u{1f600}\n"
                .encode_utf16()
                .flat_map(to)
                .collect()
        };
        for bytes in [
            units(u16::to_le_bytes),
            units(u16::to_be_bytes),
            "a: \u{1f600}\n".into(),
            "\u{feff}a: \u{1f600}\n".into(),
        ] {
            assert_eq!(decode(bytes), "a: \u{1f600}\n");
        }
        assert_eq!(decode(b"# \xe9\na: 1\n".to_vec()), "# \u{fffd}\na: 1\n");
        assert_eq!(decode(Vec::new()), "");
    }
}
