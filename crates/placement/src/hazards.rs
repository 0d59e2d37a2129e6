//! Values that people have in their Secrets, for tests.

/// Values that break or change the file of placement-operator. The tests with the real Placement
/// read it, too.
pub const HAZARDS: [&str; 22] = [
    "a$b",
    "a$$b",
    r"a\$b",
    r"\\$$",
    "${a}",
    "$",
    r"\",
    "%41",
    "100%",
    "%(a)s",
    "a@b/c:d?e#f",
    " leading",
    "trailing ",
    "\"quoted\"",
    "'quoted'",
    "\"",
    "'",
    "[section]",
    "a = b",
    "# comment",
    "ünïcode £ 鍵",
    "",
];
