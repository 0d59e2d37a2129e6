//! Answers that are not the API server's own.
//!
//! A load balancer or a proxy in front of the API server may answer in its place, with a page of its
//! own, or with nothing. Such an answer is no verdict of the API server: an object that is not in it
//! may exist, and a list without objects is no empty cluster. So an answer counts only if it proves
//! that it is the answer to the request.

use kube::core::Status;
use serde_json::Value;

/// The reason that kube gives to an answer whose body is no `Status` (`handle_api_errors` in
/// `kube_client::client`).
const NO_STATUS: &str = "Failed to parse error data";
/// The API server's own answer about a path that it does not serve, in plain text (`http.NotFound` of
/// Go).
const NOT_SERVED: &str = "404 page not found";
/// How many characters of a page people are shown. A condition has no room for a whole one.
const SHOWN: usize = 200;

/// Returns a failure as the API server means it, or the words of a stranger's 404. With this code
/// the API server itself says that an object or a kind does not exist.
pub(crate) fn status(mut status: Box<Status>) -> Result<Box<Status>, String> {
    // Any JSON with the code 404 is read as a status. Only that of the API server says that it is one.
    if status.reason != NO_STATUS && (status.is_failure() || status.code != 404) {
        return Ok(status);
    }
    status.message = excerpt(&status.message);
    match status.code {
        404 if status.message != NOT_SERVED => {
            Err(format!("404, not from the API server: {}", status.message))
        }
        _ => Ok(status),
    }
}

/// Reports whether `kind` and `metadata.resourceVersion` of an answer are those of a list of one
/// kind. `kubectl get -o json` prints the kind `List` without a version.
#[must_use]
pub fn is_list(kind: &str, version: &str) -> bool {
    let of = kind.strip_suffix("List").unwrap_or_default();
    !of.is_empty() && version.parse::<u64>().is_ok_and(|version| version > 0)
}

/// Returns the objects of a list.
///
/// # Errors
/// The answer is no list, in words.
pub(crate) fn items(list: Value) -> Result<Vec<Value>, String> {
    let version = list["metadata"]["resourceVersion"].as_str();
    let is_one = is_list(kind_of(&list), version.unwrap_or_default());
    match list {
        Value::Object(mut fields) if is_one => match fields.remove("items") {
            // Go may write an empty list as null.
            Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) if items.iter().all(Value::is_object) => Ok(items),
            _ => Err("it is a list whose items are no objects".to_owned()),
        },
        other => Err(unlike("a list with a resourceVersion", &other)),
    }
}

/// Returns the answer if it is the object of this kind and name.
///
/// # Errors
/// The answer is something else, in words.
pub(crate) fn object(answer: Value, kind: &str, name: &str) -> Result<Value, String> {
    if kind_of(&answer) == kind && answer["metadata"]["name"] == name {
        Ok(answer)
    } else {
        Err(unlike(&format!("{kind} {name}"), &answer))
    }
}

/// Returns the answer if it is of this kind.
///
/// # Errors
/// The answer is something else, in words.
pub(crate) fn of_kind(answer: Value, kind: &str) -> Result<Value, String> {
    if kind_of(&answer) == kind {
        Ok(answer)
    } else {
        Err(unlike(kind, &answer))
    }
}

fn kind_of(answer: &Value) -> &str {
    answer["kind"].as_str().unwrap_or_default()
}

fn unlike(wanted: &str, answer: &Value) -> String {
    match kind_of(answer) {
        "" => format!("it is not {wanted}, and no object at all"),
        kind => format!("it is not {wanted}, but of the kind {}", excerpt(kind)),
    }
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn failure(code: u16, text: &str) -> Box<Status> {
        Box::new(Status::failure(text, NO_STATUS).with_code(code))
    }

    #[test]
    fn a_page_that_says_404_is_no_word_about_an_object() {
        let page = "<html>\n<body>default backend - 404</body>\n</html>";
        assert_eq!(
            status(failure(404, page)).unwrap_err(),
            "404, not from the API server: <html> <body>default backend - 404</body> </html>"
        );
        // The API server's own answers.
        assert!(status(failure(404, NOT_SERVED)).is_ok());
        let own = Status::failure("pods \"p\" not found", "NotFound").with_code(404);
        assert_eq!(status(Box::new(own.clone())), Ok(Box::new(own)));
    }

    #[test]
    fn a_long_page_is_cut() {
        let page = format!("<html>{}</html>", "x".repeat(100_000));
        let shown = status(failure(502, &page)).unwrap();
        assert_eq!(
            (shown.code, shown.message.len()),
            (502, SHOWN),
            "{}",
            shown.message
        );
    }

    #[test]
    fn only_a_list_with_a_version_says_what_there_is() {
        let list = |kind: &str, version: Value, items: Value| {
            items_of(
                json!({"kind": kind, "metadata": {"resourceVersion": version}, "items": items}),
            )
        };
        assert_eq!(list("PodList", json!("7"), json!([])), Some(0));
        assert_eq!(list("PodList", json!("7"), Value::Null), Some(0));
        assert_eq!(list("PodList", json!("7"), json!([{}, {}])), Some(2));
        for strange in [
            list("PodList", json!(""), json!([])),
            list("PodList", Value::Null, json!([])),
            list("PodList", json!("0"), json!([])),
            list("PodList", json!("7"), json!({})),
            list("PodList", json!("7"), json!(["pod"])),
            list("List", json!("7"), json!([])),
            list("Status", json!("7"), json!([])),
        ] {
            assert_eq!(strange, None);
        }
        for strange in [json!({}), json!([]), json!("text"), json!(7), Value::Null] {
            assert_eq!(items_of(strange), None);
        }
    }

    fn items_of(list: Value) -> Option<usize> {
        items(list).ok().map(|items| items.len())
    }

    #[test]
    fn an_answer_about_another_object_is_none() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "p"}});
        assert_eq!(object(pod.clone(), "Pod", "p"), Ok(pod.clone()));
        for (kind, name) in [("Pod", "q"), ("Node", "p")] {
            assert!(object(pod.clone(), kind, name).is_err(), "{kind} {name}");
        }
        let status = json!({"kind": "Status", "status": "Success"});
        assert_eq!(
            object(status, "Pod", "p").unwrap_err(),
            "it is not Pod p, but of the kind Status"
        );
        assert_eq!(
            object(json!([]), "Pod", "p").unwrap_err(),
            "it is not Pod p, and no object at all"
        );
        assert!(of_kind(pod.clone(), "Pod").is_ok() && of_kind(pod, "Node").is_err());
    }
}
