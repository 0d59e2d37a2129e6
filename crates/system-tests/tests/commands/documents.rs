//! YAML and JSON mean what they mean for `kubectl`: each form here is read by both.

use std::collections::BTreeMap;

use serde_json::Value;
use weft_testenv::Programs;

/// Values of a field, as they stand behind `v: `.
const VALUES: &[&str] = &[
    // Booleans and null
    "yes",
    "Yes",
    "yEs",
    "no",
    "NO",
    "on",
    "Off",
    "y",
    "N",
    "true",
    "True",
    "tRUE",
    "false",
    "~",
    "null",
    "Null",
    "nULL",
    "",
    // Numbers
    "0",
    "00",
    "-0",
    "0100",
    "0o17",
    "0O17",
    "0x1F",
    "-0x1f",
    "0b101",
    "0B11",
    "+12",
    "-12",
    "1_000",
    "_1",
    "1_",
    "08",
    "09.5",
    "1e3",
    "1E+3",
    "1.5e3",
    "1.",
    ".5",
    "-.5",
    "1.5",
    "1500.0",
    "-0.0",
    "1e20",
    "1e21",
    "1e-7",
    "1e400",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "0x",
    "0b2",
    "0o8",
    "1e",
    "1.2.3",
    "1:30",
    "12:30:45",
    "+-1",
    "0777.5",
    ".inf",
    "-.inf",
    ".nan",
    "NaN",
    // Texts without quotes
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "02:00:00:00:00:01",
    "a:b",
    "a#b",
    "a # b",
    "a?b",
    "?a",
    "-a",
    ":a",
    "2 3",
    "=",
    "http://x:80/",
    "1,000",
    "%a",
    "@a",
    "`a",
    "a: b",
    "- a",
    "'a' b",
    "a\n    b",
    "a\n\n    b\n",
    "a\tb",
    // Texts in quotes
    "\"yes\"",
    "'12'",
    "'  a  '",
    "\"a  \\n b\"",
    "'a''b'",
    "\"\\x41\\u00e9\\U0001F600\\e\"",
    "\"\\ud83d\\ude00\"",
    "\"a\\\n      b\"",
    "\"a  \n\n   b  \"",
    "'a\n\n\n  b'",
    "'{\n    \"a\": 1\n  }'",
    "'{\n\"a\": 1\n}'",
    "\"{\n  a\n}\"",
    "\"x\n\ty\"",
    "\"a",
    "\"\\q\"",
    "\"\\/\"",
    "\"a\\\\/\"",
    "'\\/'",
    "{\"\\/\": 1}",
    "\"\u{2028}b\"",
    "\"\u{1}\"",
    "\"\u{7f}\"",
    // Blocks of text
    "|\n    a\n     b\n",
    "|-\n    a\n",
    "|+\n    a\n\n",
    "|2\n      a\n",
    "|\n\n    a\n",
    ">\n    a\n     b\n    c\n\n",
    ">-\n    a\n    b\n",
    "|x\n",
    "|\n    x\n    \ty\n",
    // Lists and objects
    "[a:b]",
    "[a:1, b]",
    "{a:1}",
    "{a: 1, b}",
    "[a: 1, b: 2]",
    "{\"a\":1}",
    "[\"a\":1]",
    "{a: 1,}",
    "[1,]",
    "[1,,2]",
    "{? a : 1}",
    "[-a]",
    "[a,\nb]",
    "{\n}",
    "{ip: fd00::, b: 1}",
    "[fd00::]",
    "{a:}",
    "[::1]",
    "{a: ::1}",
    "[a?]",
    "[?a]",
    "[http://x:80/]",
    "{\tb: 1}",
    "{\n\t\"b\": 1}",
    "[a",
    "\n  - 1\n  - 2",
    "\n    - 1\n   - 2",
    "\n\t- 1",
    "!x [1]",
    "[!x , 2]",
    // Tags
    "! 12",
    "!",
    "!!str 12",
    "!!str",
    "!!int \"12\"",
    "!!int 1.5",
    "!!float 1",
    "!!bool \"yes\"",
    "!!null \"\"",
    "!!null x",
    "!!binary aGVsbG8=",
    "!!binary _",
    "!!timestamp 2001-01-01",
    "!x yes",
    "!!set {b}",
    "!!omap [b: 1]",
    "!<tag:yaml.org,2002:str> 1",
    // Names of fields
    "{yes: 1}",
    "{1: a}",
    "{1.5: a}",
    "{0100: a}",
    "{1500.0: a}",
    "{~: a}",
    "{\"yes\": 1}",
    "{[a]: 1}",
    "{{a: 1}: 1}",
    "{2001-01-01: a}",
    "{a: 1, a: 2}",
    "{a: {b: 1}, c: 1, a: {c: 2}, a: {d: 3}}",
    "{a: 1, \"a\": 2}",
    "\n    a: 1\n    b: 2\n    a: 3\n",
    "[{a: 1, a: 2}]",
    "{<<: {a: 1}, a: 2, a: 3}",
    "{a: 1, <<: {a: 2}, a: 3}",
    "{a: 1, a: 3, <<: {a: 2}}",
    // Anchors and merges
    "[&a 1, *a]",
    "[&a {b: 1}, {<<: *a, c: 2}]",
    "[&a {b: 1, c: 1}, {c: 2, <<: *a}]",
    "{<<: [{a: 1}, {a: 2, b: 3}]}",
    "{<<: {a: 1}}",
    "{<<: 3}",
    "{<<: }",
    "{\"<<\": {a: 1}}",
    "*a",
    "&a [*a]",
    "[&a 1, &a 2, *a]",
    // Templates
    "{{ .Values.a }}",
    "\"{{ .Values.a }}\"",
    "a {{ b }}",
];

/// Whole files with the objects ONE and TWO.
const FILES: &[&str] = &[
    "JONE\nJTWO\n",
    "JONEJTWO",
    "JONE\n---\nJTWO",
    "JONE\n---\nYTWO",
    "YONE---\nJTWO",
    "YONEJTWO",
    "JONE\n# a comment\nJTWO",
    "# a comment\nJONE",
    "JONE,JTWO",
    "YONE--- # a comment\nYTWO",
    "YONE---  \t\nYTWO",
    "YONE--- {a: 1}\n",
    "YONE----\nYTWO",
    "YONE...\n---\nYTWO",
    "---\n---\nYONE---\n   \n---\nnull\n---\n# nothing\n---\nYTWO---\n",
    "\u{feff}YONE---\n\u{feff}YTWO",
    "%YAML 1.1\n---\nYONE",
    "apiVersion: v1\nkind: List\nitems:\n- JONE\n- JTWO\n",
    "{\"apiVersion\":\"v1\",\"kind\":\"ProbeList\",\"items\":[JONE,JTWO]}",
    "{apiVersion: v1, kind: Probe, metadata: {name: ONE}, spec: {v: 1}}\n---\nYTWO",
    "{\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{\"name\":\"ONE\"},\"spec\":{\"v\":[1500.0,1e3,9223372036854775808,-0.0,1.5,\"\\/\",\"\\ud83d\\ude00\"]}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{\"name\":\"ONE\"},\"spec\":{\"v\":1,}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{\"name\":\"ONE\"},\"spec\":{\"v\":{\"a\":1,\"a\":2}},\"spec\":{\"w\":{\"b\":1,\"b\":{\"c\":2}}}}",
    "# a comment\n{\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{\"name\":\"ONE\"},\"spec\":{\"v\":\"\\/\"}}",
    "apiVersion: v1\nkind: Probe\nmetadata: {name: TWO, name: ONE}\nspec: {v: 1}\nspec: {w: 2}\n",
    "{\n\t\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{\"name\":\"ONE\"},\"spec\":{\"v\":1}}",
];

/// Files of which `kubectl` leaves out objects without a message, each with the reason. Weft reads
/// all of their objects, and has a note.
const UNREAD: &[(&str, &str)] = &[
    (
        "# a comment\nJONE\nJTWO\n",
        "the comment makes the file YAML, of which kubectl reads the first document",
    ),
    (
        "# a comment\nJONE\nJTWO\n# the end\n",
        "the same with a comment behind the objects",
    ),
    (
        "\u{feff}\n  # a comment\n\nJONEJTWO",
        "the same without line breaks, behind blank lines",
    ),
];

/// The files of a probe by their names, each with what it holds.
fn forms() -> BTreeMap<String, Vec<u8>> {
    let yaml = |name: &str| {
        format!("apiVersion: v1\nkind: Probe\nmetadata: {{name: {name}}}\nspec: {{v: {name}}}\n")
    };
    let json = |name: &str| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Probe\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"v\":\"{name}\"}}}}"
        )
    };
    let values = VALUES.iter().zip(0..).map(|(value, number)| {
        let name = format!("value-{number:03}");
        let text = format!(
            "apiVersion: v1\nkind: Probe\nmetadata: {{name: {name}}}\nspec:\n  v: {value}\n"
        );
        (name, text.into_bytes())
    });
    let unread = UNREAD.iter().map(|(text, _)| text);
    let files = FILES.iter().chain(unread).zip(0..).map(|(text, number)| {
        let name = format!("file-{number:03}");
        let (one, two) = (format!("{name}-a"), format!("{name}-b"));
        let text = text
            .replace("JONE", &json(&one))
            .replace("JTWO", &json(&two))
            .replace("YONE", &yaml(&one))
            .replace("YTWO", &yaml(&two))
            .replace("ONE", &one);
        (name, text.into_bytes())
    });
    let text = |name: &str| format!("\u{feff}{}", yaml(name));
    let encodings = [
        (
            "utf-16-le",
            text("utf-16-le")
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
        ),
        (
            "utf-16-be",
            text("utf-16-be")
                .encode_utf16()
                .flat_map(u16::to_be_bytes)
                .collect(),
        ),
        (
            "latin-1",
            [b"# \xe9\n".to_vec(), yaml("latin-1").into_bytes()].concat(),
        ),
        ("crlf", yaml("crlf").replace('\n', "\r\n").into_bytes()),
    ];
    let encodings = encodings.map(|(name, bytes): (_, Vec<u8>)| (name.to_owned(), bytes));
    values.chain(files).chain(encodings).collect()
}

/// The field `spec` of each object by the name of the object.
fn specs(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects
        .into_iter()
        .filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?.to_owned();
            Some((name, object["spec"].clone()))
        })
        .collect()
}

/// Go writes large floats with all their digits.
fn with_floats(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => *value = number.as_f64().into(),
        Value::Array(items) => items.iter_mut().for_each(with_floats),
        Value::Object(fields) => fields.values_mut().for_each(with_floats),
        _ => {}
    }
}

/// One `kubectl label --local` reads all forms. It continues after a file that it cannot read.
#[tokio::test]
async fn a_file_means_the_same_for_weft_and_kubectl() {
    let forms = forms();
    assert!(forms.len() > 200, "{}", forms.len());
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &forms {
        std::fs::write(folder.path().join(format!("{name}.yaml")), bytes).unwrap();
    }
    let kubectl = Programs::find().unwrap().get("kubectl").unwrap();
    let output = tokio::process::Command::new(kubectl)
        .args(["label", "--local", "-o", "json", "x=y", "-f"])
        .arg(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .output()
        .await
        .unwrap();
    let printed = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut theirs = specs(printed.map(Result::unwrap));
    assert!(theirs.len() > 150, "{output:?}");
    theirs.values_mut().for_each(with_floats);

    let complaints = String::from_utf8_lossy(&output.stderr);
    let (mut differences, mut noted) = (Vec::new(), 0);
    for (name, bytes) in &forms {
        let text = weft_documents::decode(bytes.clone());
        let is_of_this = |(object, _): &(&String, &Value)| object.starts_with(name.as_str());
        let mut wanted: BTreeMap<_, _> = theirs.iter().filter(is_of_this).collect();
        let parsed = weft_documents::parse(&text);
        let refusal = parsed.as_ref().err().map(|refusal| format!("{refusal:?}"));
        let values = parsed.into_iter().flatten().map(|document| document.value);
        let mut ours = specs(values);
        ours.values_mut().for_each(with_floats);
        if weft_documents::unread(&text).is_some() {
            noted += 1;
            assert_eq!((wanted.len(), ours.len()), (1, 2), "{text:?}: {wanted:?}");
            wanted.extend(ours.iter().filter(|(object, _)| object.ends_with("-b")));
        }
        // Where `kubectl` stops in the middle of a file, Weft refuses all of it.
        let is_half = refusal.is_some() && complaints.contains(&format!("/{name}.yaml"));
        if !is_half && ours.iter().collect::<BTreeMap<_, _>>() != wanted {
            differences.push(format!(
                "{text:?}\n  kubectl: {wanted:?}\n  Weft: {ours:?} {refusal:?}"
            ));
        }
        if let Ok(objects) = weft_documents::objects(&text) {
            let mut objects = specs(objects);
            objects.values_mut().for_each(with_floats);
            assert_eq!(objects, ours, "{text:?}");
        }
    }
    assert_eq!(noted, UNREAD.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
