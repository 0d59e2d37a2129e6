//! The report about a status that does not agree with the truth.

use serde_json::Value;
use weft_testenv::health::Verdicts;

use super::{look::Seen, world::World};

/// So many actions are shown.
const SHOWN: usize = 10;

impl World {
    /// The seed, the last actions, and truth and status side by side where they do not agree.
    pub fn report(&self, seen: &[Seen], verdicts: &[Option<Verdicts>]) -> String {
        let first = self.history.len().saturating_sub(SHOWN);
        let mut text = format!(
            "WEFT_SEED={} WEFT_TRIALS={}\nThe last actions:\n",
            self.seed, self.taken
        );
        for (number, action) in self.history.iter().enumerate().skip(first) {
            text += &format!("  {number} {action}\n");
        }
        for (one, verdict) in seen.iter().zip(verdicts) {
            if one.violations.is_empty() {
                continue;
            }
            text += &format!("\n{}\n", one.title);
            for violation in &one.violations {
                text += &format!("  ! {violation}\n");
            }
            text += &beside(&one.lines, &said(one.live.as_ref(), verdict.as_ref()));
        }
        text
    }
}

/// The words of status and of the tools, a line for each part of them.
fn said(live: Option<&Value>, verdicts: Option<&Verdicts>) -> Vec<String> {
    let Some(live) = live else {
        return vec!["there is no such resource".to_owned()];
    };
    let status = &live["status"];
    let mut lines = vec![format!(
        "generation {}, observed {}",
        live["metadata"]["generation"], status["observedGeneration"]
    )];
    let list = |field: &str| status[field].as_array().cloned().unwrap_or_default();
    for one in list("conditions") {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        let all = ["type", "status", "reason", "message"].map(text);
        lines.extend(all.join(" ").lines().map(str::to_owned));
    }
    lines.extend(list("drift").iter().map(|one| format!("drift {one}")));
    if let Some(Verdicts {
        kstatus,
        flux,
        argo,
    }) = verdicts
    {
        let argo = argo.as_ref().map_or("nothing", |one| one.status.as_str());
        lines.push(format!(
            "kstatus {}, Flux {}, Argo CD {argo}",
            kstatus.status, flux.status
        ));
    }
    lines
}

/// The truth on the left, status on the right.
fn beside(left: &[String], right: &[String]) -> String {
    let longest = left.iter().map(|line| line.chars().count()).max();
    let width = longest.unwrap_or_default().min(90);
    let line = |all: &[String], row: usize| all.get(row).cloned().unwrap_or_default();
    let rows = left.len().max(right.len());
    (0..rows)
        .map(|row| format!("  {:<width$} | {}\n", line(left, row), line(right, row)))
        .collect()
}
