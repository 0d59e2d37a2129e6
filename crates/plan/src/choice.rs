//! Settings that are one of a few words.

/// Text that is none of the words of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: use {}", list(choices))]
pub struct NotAChoice {
    /// The text as written.
    pub text: String,
    /// The expected type with an article, for example `a pull policy`.
    pub what: &'static str,
    /// The words that are understood.
    pub choices: &'static [&'static str],
}

/// `A, B or C`.
fn list(choices: &[&str]) -> String {
    match choices {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => choices.concat(),
    }
}

/// An enumeration that is written, in the API and for people, by the names of its variants:
///
/// ```
/// weft_plan::choice! {
///     /// The size.
///     #[derive(Default)]
///     pub enum Size("a size") {
///         /// Not large.
///         #[default]
///         Small,
///         /// Not small.
///         Large,
///     }
/// }
/// assert_eq!("Large".parse(), Ok(Size::Large));
/// assert_eq!("large".parse::<Size>().unwrap_err().to_string(), r#""large" is not a size: use Small or Large"#);
/// ```
#[macro_export]
macro_rules! choice {
    ($(#[$meta:meta])* $vis:vis enum $name:ident($what:literal) { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            /// Their names, in the same order.
            pub const NAMES: &[&'static str] = &[$(stringify!($variant)),+];

            /// The name, as it is written in the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::NotAChoice;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|choice| choice.as_str() == text);
                found.copied().ok_or_else(|| $crate::NotAChoice { text: text.to_owned(), what: $what, choices: Self::NAMES })
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
