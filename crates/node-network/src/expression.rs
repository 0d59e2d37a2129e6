//! The language of `spec.capture`: `routes.running.destination=="0.0.0.0/0"`,
//! `capture.default-gw | interfaces.name:=br1`.

use std::fmt;

/// The first words of paths. Any other word is a value.
const ROOTS: [&str; 8] = [
    "interfaces",
    "routes",
    "route-rules",
    "dns-resolver",
    "hostname",
    "ovn",
    "ovs-db",
    "capture",
];

/// An expression that cannot be read or carried out, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The mistake.
    pub(crate) message: String,
    /// The expression.
    pub(crate) line: String,
    /// Which character of it is meant, from 0.
    pub(crate) position: usize,
}

impl std::error::Error for ExpressionError {}

impl fmt::Display for ExpressionError {
    /// The message, the expression, and a caret below the place, as `nmstatectl` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n| {}\n| {}^",
            self.message,
            self.line,
            ".".repeat(self.position)
        )
    }
}

/// A path, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The capture that it leads into. The state of the node if `None`.
    pub(crate) capture: Option<String>,
    /// The steps, without `capture` and its name.
    pub(crate) steps: Vec<String>,
    /// Its first character.
    pub(crate) position: usize,
}

/// The right side of a comparison or an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A text, number or boolean.
    Text(String),
    /// Any value.
    Reference(Reference),
    /// The value `null`.
    Null,
}

/// An action of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Only what the path leads to.
    Keep,
    /// The entries whose property is this.
    Equal(Operand),
    /// The entries whose property is there and is something else. nmpolicy had this. Nmstate has
    /// not.
    NotEqual(Operand),
    /// All entries, with this in the property.
    Assign(Operand),
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    /// Its text.
    pub(crate) line: String,
    /// The place that the action reads. `path.capture` is its input.
    pub(crate) path: Reference,
    /// The action at that place.
    pub(crate) action: Action,
}

impl Expression {
    /// The captures that must be there first.
    pub(crate) fn needs(&self) -> impl Iterator<Item = (&str, usize)> {
        let operand = match &self.action {
            Action::Equal(Operand::Reference(reference))
            | Action::NotEqual(Operand::Reference(reference))
            | Action::Assign(Operand::Reference(reference)) => Some(reference),
            _ => None,
        };
        [Some(&self.path), operand]
            .into_iter()
            .flatten()
            .filter_map(|reference| Some((reference.capture.as_deref()?, reference.position)))
    }

    /// Reads an expression.
    pub(crate) fn parse(line: &str) -> Result<Self, ExpressionError> {
        // Non-breaking spaces come along when examples are copied from web pages.
        let line = line.replace('\u{a0}', " ").trim().to_owned();
        let tokens = tokens(&line)?;
        let error = |message: &str, position: usize| ExpressionError {
            message: message.to_owned(),
            line: line.clone(),
            position,
        };
        let end = line.chars().count();
        let (source, rest) = match tokens.iter().position(|(token, _)| *token == Token::Pipe) {
            None => (None, tokens.as_slice()),
            Some(pipe) => match &tokens[..pipe] {
                [(Token::Word(word), position)] => {
                    let name = word
                        .strip_prefix("capture.")
                        .filter(|name| !name.is_empty() && !name.contains('.'));
                    let name = name.ok_or_else(|| {
                        error("before | stands capture.NAME and nothing else", *position)
                    })?;
                    (Some((name.to_owned(), *position)), &tokens[pipe + 1..])
                }
                _ => {
                    return Err(error(
                        "before | stands capture.NAME and nothing else",
                        tokens[pipe].1,
                    ));
                }
            },
        };
        let (path, rest) = match rest {
            [(Token::Word(word), position), rest @ ..] => (reference(word, *position), rest),
            [(_, position), ..] => {
                return Err(error(
                    "a path is expected, such as interfaces.name",
                    *position,
                ));
            }
            [] => return Err(error("a path is expected, such as interfaces.name", end)),
        };
        let mut path = path.filter(|path| !path.steps.is_empty()).ok_or_else(|| {
            error(
                &format!("a path begins with one of {}", ROOTS.join(", ")),
                0,
            )
        })?;
        if let Some((name, position)) = source {
            if path.capture.is_some() {
                return Err(error("only one capture can be worked on", path.position));
            }
            path = Reference {
                capture: Some(name),
                position: path.position.max(position),
                ..path
            };
        }
        let action = match rest {
            [] => Action::Keep,
            [
                (operator @ (Token::Equal | Token::NotEqual | Token::Assign), _),
                (value, position),
            ] => {
                let operand = operand(value, *position)
                    .ok_or_else(|| error("a value or a path is expected", *position))?;
                match operator {
                    Token::Equal => Action::Equal(operand),
                    Token::NotEqual => Action::NotEqual(operand),
                    _ => Action::Assign(operand),
                }
            }
            [(Token::Equal | Token::NotEqual | Token::Assign, position)] => {
                return Err(error("nothing stands after the operator", *position));
            }
            [_, _, (_, position), ..] => {
                return Err(error(
                    "only one comparison or assignment stands in an expression; chain captures with |",
                    *position,
                ));
            }
            [(_, position), ..] => return Err(error("expected ==, != or :=", *position)),
        };
        Ok(Self { line, path, action })
    }
}

/// A path out of its text. `None` if it is none.
pub(crate) fn reference(word: &str, position: usize) -> Option<Reference> {
    let mut steps: Vec<String> = word.split('.').map(str::to_owned).collect();
    if !ROOTS.contains(&steps.first()?.as_str()) || steps.iter().any(String::is_empty) {
        return None;
    }
    if steps[0] != "capture" {
        return Some(Reference {
            capture: None,
            steps,
            position,
        });
    }
    let rest = steps.split_off(2.min(steps.len()));
    Some(Reference {
        capture: Some(steps.get(1)?.clone()),
        steps: rest,
        position,
    })
}

fn operand(token: &Token, position: usize) -> Option<Operand> {
    match token {
        Token::Text(text) => Some(Operand::Text(text.clone())),
        Token::Word(word) if word.eq_ignore_ascii_case("null") => Some(Operand::Null),
        Token::Word(word) if word.contains('.') => Some(
            reference(word, position)
                .map_or_else(|| Operand::Text(word.clone()), Operand::Reference),
        ),
        Token::Word(word) => Some(Operand::Text(word.clone())),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Pipe,
    Equal,
    NotEqual,
    Assign,
}

fn tokens(line: &str) -> Result<Vec<(Token, usize)>, ExpressionError> {
    let characters: Vec<char> = line.chars().collect();
    let error = |message: &str, position: usize| ExpressionError {
        message: message.to_owned(),
        line: line.to_owned(),
        position,
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(character) = characters.get(at) {
        let start = at;
        let next = characters.get(at + 1);
        match (character, next) {
            (space, _) if space.is_whitespace() => at += 1,
            ('|', _) => {
                found.push((Token::Pipe, start));
                at += 1;
            }
            ('=', Some('=')) | ('!', Some('=')) | (':', Some('=')) => {
                let token = match character {
                    '=' => Token::Equal,
                    '!' => Token::NotEqual,
                    _ => Token::Assign,
                };
                found.push((token, start));
                at += 2;
            }
            ('=' | '!' | ':', _) => return Err(error("expected ==, != or :=", start)),
            ('"', _) => {
                let length = characters[at + 1..]
                    .iter()
                    .position(|character| *character == '"');
                let length = length.ok_or_else(|| {
                    error(
                        "the text that begins here has no end: a \" is missing",
                        start,
                    )
                })?;
                found.push((
                    Token::Text(characters[at + 1..at + 1 + length].iter().collect()),
                    start + 1,
                ));
                at += length + 2;
            }
            _ => {
                let ends =
                    |character: &char| character.is_whitespace() || "=!|\":".contains(*character);
                let length = characters[at..]
                    .iter()
                    .position(ends)
                    .unwrap_or(characters.len() - at);
                found.push((
                    Token::Word(characters[at..at + length].iter().collect()),
                    start,
                ));
                at += length;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        Expression::parse(line).unwrap_err().to_string()
    }

    #[test]
    fn expressions_are_read() {
        let parsed =
            Expression::parse("capture.gw-routes | routes.running.next-hop-interface := \"br1\"")
                .unwrap();
        assert_eq!(parsed.path.capture.as_deref(), Some("gw-routes"));
        assert_eq!(
            parsed.path.steps,
            ["routes", "running", "next-hop-interface"]
        );
        assert_eq!(
            parsed.action,
            Action::Assign(Operand::Text("br1".to_owned()))
        );
        let parsed =
            Expression::parse("interfaces.name==capture.gw.routes.running.0.next-hop-interface")
                .unwrap();
        assert_eq!(
            parsed.needs().map(|(name, _)| name).collect::<Vec<_>>(),
            ["gw"]
        );
        assert_eq!(
            Expression::parse("capture.eths | interfaces.lldp.enabled:=true")
                .unwrap()
                .action,
            Action::Assign(Operand::Text("true".to_owned()))
        );
        assert_eq!(
            Expression::parse("interfaces.controller:=null")
                .unwrap()
                .action,
            Action::Assign(Operand::Null)
        );
        assert_eq!(
            Expression::parse("interfaces.type!=ethernet")
                .unwrap()
                .action,
            Action::NotEqual(Operand::Text("ethernet".to_owned()))
        );
        assert_eq!(
            Expression::parse("routes.running.destination==0.0.0.0/0")
                .unwrap()
                .action,
            Action::Equal(Operand::Text("0.0.0.0/0".to_owned()))
        );
        assert_eq!(
            Expression::parse("interfaces").unwrap().action,
            Action::Keep
        );
    }

    #[test]
    fn errors_point_at_the_place() {
        assert_eq!(
            error("interfaces.name=eth1"),
            "expected ==, != or :=\n| interfaces.name=eth1\n| ...............^"
        );
        assert_eq!(
            error("interfaces.name==\"eth1"),
            "the text that begins here has no end: a \" is missing\n| interfaces.name==\"eth1\n| .................^"
        );
        assert!(error("interfaces.name==").starts_with("nothing stands after the operator"));
        assert!(error("interfaces.name==a==b").ends_with("| ..................^"));
        assert!(error("capture.x").starts_with("a path begins with"));
        assert!(error("foo | interfaces.name==eth1").starts_with("before | stands capture.NAME"));
        assert!(error("nics.name==eth1").starts_with("a path begins with one of interfaces"));
        assert!(error("capture.x |").starts_with("a path is expected"));
        assert!(error("").starts_with("a path is expected"));
    }
}
