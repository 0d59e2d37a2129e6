//! JSON for people: a value that fits on a line has one, and so has a set of fields in
//! `managedFields`, which reviewers do not read.

use serde_json::Value;

const WIDTH: usize = 100;

/// A list of objects.
pub fn of(objects: &[Value]) -> String {
    let mut text = String::new();
    write(&Value::from(objects.to_vec()), 0, &mut text);
    text + "\n"
}

fn write(value: &Value, indent: usize, text: &mut String) {
    let line = value.to_string();
    let fits = indent + line.len() <= WIDTH;
    match value {
        Value::Object(fields) if !fits && !fields.is_empty() => {
            text.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                begin(index, indent, text);
                text.push_str(&format!("{}: ", Value::from(name.clone())));
                if name == "fieldsV1" {
                    text.push_str(&value.to_string());
                } else {
                    write(value, indent + 2, text);
                }
            }
            end('}', indent, text);
        }
        Value::Array(items) if !fits && !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                begin(index, indent, text);
                write(item, indent + 2, text);
            }
            end(']', indent, text);
        }
        _ => text.push_str(&line),
    }
}

fn begin(index: usize, indent: usize, text: &mut String) {
    let comma = if index == 0 { "" } else { "," };
    text.push_str(&format!("{comma}\n{:1$}", "", indent + 2));
}

fn end(bracket: char, indent: usize, text: &mut String) {
    text.push_str(&format!("\n{:1$}{bracket}", "", indent));
}
