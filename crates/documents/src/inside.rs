//! Places inside of a text that spans several lines of a file.

use crate::{Position, Quotes};

/// The part of a text before a mistake in its JSON.
pub(crate) fn before<'t>(text: &'t str, error: &serde_json::Error) -> &'t str {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let mut end = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    // The comma is the mistake, and not what follows it.
    match before.trim_end().strip_suffix(',') {
        Some(before) if error.to_string().starts_with("trailing comma") => before,
        _ => before,
    }
}

/// The part of a text before a place in it.
pub(crate) fn until(text: &str, place: Position) -> &str {
    let number = |counted: u64| usize::try_from(counted.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text
        .split_inclusive('\n')
        .take(number(place.line))
        .map(str::len)
        .sum();
    let rest = &text[start..];
    let end = rest.char_indices().nth(number(place.column));
    &text[..start + end.map_or(rest.len(), |(at, _)| at)]
}

/// The place in a file of the character that follows `before` in a text, which begins at `start`.
/// A character that is no white space, since lines of a text may be joined.
pub(crate) fn position(
    source: &str,
    start: Position,
    quotes: Quotes,
    before: &str,
) -> Option<Position> {
    let mut reader = Reader::new(source, start)?;
    match quotes {
        Quotes::None => {}
        // An anchor or a tag may stand before the quote.
        Quotes::Single => while reader.next()? != '\'' {},
        Quotes::Double => while reader.next()? != '"' {},
        Quotes::Block => while reader.next()? != '\n' {},
    }
    let mut left = before.chars().filter(|c| !c.is_whitespace()).count();
    loop {
        let place = reader.at;
        let c = reader.next()?;
        if c.is_whitespace() {
            continue;
        }
        if left == 0 {
            return Some(place);
        }
        let is_counted = match (quotes, c) {
            (Quotes::Single, '\'') => {
                reader.next();
                true
            }
            (Quotes::Double, '\\') => reader.escape()?,
            _ => true,
        };
        left -= usize::from(is_counted);
    }
}

struct Reader<'t> {
    chars: std::str::Chars<'t>,
    at: Position,
}

impl<'t> Reader<'t> {
    fn new(source: &'t str, start: Position) -> Option<Self> {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let mut reader = Self {
            chars: source.chars(),
            at: Position { line: 1, column: 1 },
        };
        while reader.at < start {
            reader.next()?;
        }
        Some(reader)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        if c == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    /// Reads the rest of an escape. True if it is a character that is no white space.
    fn escape(&mut self) -> Option<bool> {
        let digits = match self.next()? {
            '\n' | '\r' | 'n' | 'r' | 't' | 'v' | 'f' | ' ' | '\t' => return Some(false),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        for _ in 0..digits {
            self.next()?;
        }
        Some(true)
    }
}
