//! The API server's own record of every request.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// User, verb, object and time of every request. One event a request: at its end, or for a watch
/// when its answer starts, so that an open watch is there too. Of writes to the status of Weft's
/// kinds also the whole object that is the answer, and of no other request a body.
pub(crate) const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [patch, update]
  resources:
  - {group: networkaddonsoperator.network.kubevirt.io, resources: ['*/status']}
  - {group: networkoperator.openshift.io, resources: ['*/status']}
  - {group: nmstate.io, resources: ['*/status']}
  - {group: placement.openstack.org, resources: ['*/status']}
- level: Metadata
";

/// Where the part of a log begins that counts: the requests that came in later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Since {
    offset: u64,
    time: Timestamp,
}

impl Since {
    /// From now on.
    pub(crate) fn now(log: &Path) -> Self {
        Self {
            offset: std::fs::metadata(log).map_or(0, |metadata| metadata.len()),
            time: Timestamp::now(),
        }
    }

    /// The text of a log from there on. A request that came in before can end later, and is in it.
    fn text(self, log: &Path) -> Result<String> {
        let mut text = String::new();
        let read = File::open(log).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_string(&mut text)
        });
        read.with_context(|| format!("cannot read {}", log.display()))?;
        Ok(text)
    }
}

/// The objects of Weft's kinds, as each write of this user to their status has left them, in order.
pub(crate) fn statuses(log: &Path, since: Since, user: &str) -> Result<Vec<Value>> {
    let text = since.text(log)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let written = whole
        .lines()
        .filter(|line| line.contains("\"responseObject\""));
    let mut objects = Vec::new();
    for line in written {
        let mut event: Value =
            serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
        let received = event["requestReceivedTimestamp"]
            .as_str()
            .unwrap_or_default();
        if event["responseStatus"]["code"] == 200
            && event["user"]["username"] == user
            && received.parse::<Timestamp>()? >= since.time
        {
            objects.push(event["responseObject"].take());
        }
    }
    Ok(objects)
}

/// A request as the API server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Identifies the request. Equals [`Recorded::audit_id`](crate::proxy::Recorded::audit_id) of
    /// the proxy.
    pub id: String,
    /// `kubernetes-admin`, `system:serviceaccount:<namespace>:<name>`, and so on.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. The HTTP
    /// method in lower case for paths that are no resources.
    pub verb: String,
    /// API group, empty for the core group and for paths that are no resources.
    pub group: String,
    /// Plural resource name, empty for paths that are no resources.
    pub resource: String,
    /// `status`, `scale` and so on, or empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for list, watch and deletecollection, and for a create that leaves the name to the API
    /// server.
    pub name: String,
    /// Path with query.
    pub uri: String,
    /// HTTP status.
    pub code: u16,
    /// Why it was refused, if it was.
    pub message: String,
    /// When the request came in.
    pub received: Timestamp,
    /// When it was answered: wholly, or for a watch, when its answer began.
    pub answered: Timestamp,
    /// As sent by the client.
    pub user_agent: String,
}

impl AuditEvent {
    /// Does it change something stored? Dry runs and reviews (of tokens, of access) do not.
    pub fn is_write(&self) -> bool {
        crate::proxy::request_info::is_write(
            &self.verb,
            &self.group,
            self.uri.split_once('?').map_or("", |(_, query)| query),
        )
    }
}

/// Reads what the log has since then, of all users or of this one. A line that is still being
/// written is left out.
pub(crate) fn read(log: &Path, since: Since, user: Option<&str>) -> Result<Vec<AuditEvent>> {
    let text = since.text(log)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut seen = HashSet::new();
    let mut events = vec![];
    let named = user.map(|user| format!("\"username\":{}", serde_json::Value::from(user)));
    // Most lines are about other users, and reading them as JSON takes most of the time.
    for line in whole
        .lines()
        .filter(|line| named.as_ref().is_none_or(|named| line.contains(named)))
    {
        let raw: Raw =
            serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
        if user.is_none_or(|user| raw.user.username == user) && seen.insert(raw.audit_id.clone()) {
            let event = raw.into_event()?;
            if event.received >= since.time {
                events.push(event);
            }
        }
    }
    Ok(events)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    user: RawUser,
    #[serde(default)]
    object_ref: RawObject,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    response_status: RawStatus,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(default)]
    user_agent: String,
}

#[derive(Deserialize)]
struct RawUser {
    #[serde(default)]
    username: String,
}

/// Cuts off the last line if it has no end: the API server was killed while it wrote, and would go
/// on in that line when it is started again. Without a log, nothing is done.
pub(crate) fn end_with_whole_line(log: &Path) -> Result<()> {
    if !log.exists() {
        return Ok(());
    }
    let written = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let whole = written
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let file = std::fs::OpenOptions::new().write(true).open(log)?;
    file.set_len(whole as u64)
        .with_context(|| format!("cannot shorten {}", log.display()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawObject {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: u16,
    message: String,
}

impl Raw {
    fn into_event(self) -> Result<AuditEvent> {
        let RawObject {
            resource,
            namespace,
            name,
            api_group: group,
            subresource,
        } = self.object_ref;
        Ok(AuditEvent {
            id: self.audit_id,
            user: self.user.username,
            verb: self.verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            uri: self.request_uri,
            code: self.response_status.code,
            message: self.response_status.message,
            received: self.request_received_timestamp.parse()?,
            answered: self.stage_timestamp.parse()?,
            user_agent: self.user_agent,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_request_from_before_does_not_count_even_if_it_ends_later() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let line = |id: &str, received: Timestamp| {
            let event = serde_json::json!({
                "auditID": id, "verb": "update", "user": {"username": "operator"},
                "requestURI": "/", "responseStatus": {"code": 200}, "responseObject": {"id": id},
                "requestReceivedTimestamp": received.to_string(),
                "stageTimestamp": received.to_string(),
            });
            format!("{event}\n")
        };
        let second = jiff::SignedDuration::from_secs(1);
        let early = Timestamp::now().checked_sub(second).unwrap();
        std::fs::write(&log, line("written before", early)).unwrap();
        let since = Since::now(&log);
        let late = Timestamp::now().checked_add(second).unwrap();
        let all = ["written before", "received before", "after"].map(|id| match id {
            "after" => line(id, late),
            _ => line(id, early),
        });
        std::fs::write(&log, all.concat()).unwrap();
        let ids = |since| {
            let events = read(&log, since, Some("operator")).unwrap();
            let statuses = statuses(&log, since, "operator").unwrap();
            let statuses: Vec<_> = statuses.iter().map(|one| one["id"].clone()).collect();
            let ids: Vec<_> = events.into_iter().map(|event| event.id).collect();
            assert_eq!(statuses, ids);
            ids
        };
        assert_eq!(ids(since), ["after"]);
        assert_eq!(ids(Since::default()).len(), 3);
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        end_with_whole_line(&log).unwrap();
        assert!(!log.exists());
        for (written, left) in [("a\nb\n", "a\nb\n"), ("a\nb", "a\n"), ("a", ""), ("", "")] {
            std::fs::write(&log, written).unwrap();
            end_with_whole_line(&log).unwrap();
            assert_eq!(std::fs::read_to_string(&log).unwrap(), left);
        }
    }
}
