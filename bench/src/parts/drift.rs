//! Every object is deleted, edited and added to, one after the other: until it is right again.

mod disturb;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use weft_plan::Live;

use crate::{
    audit,
    figure::{Figure, Unit, median_and_max},
    lab::{Lab, Setup},
    objects::{Applied, content},
    recording, wait,
};

/// Made once. Then it is the user's.
const MACVTAP_CONFIG: &str = "/macvtap-deviceplugin-config";

/// An edit of an object by another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    Deleted,
    Edited,
    AddedTo,
}

/// One disturbance, in the order in which they were made.
struct Done {
    what: Disturbance,
    title: String,
    path: String,
    from: Timestamp,
    until: Timestamp,
}

pub async fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let applied = recording::applied(setup).await?;
    let (lab, operator) = Lab::available(setup).await?;
    lab.wait_quiet().await?;
    let since = Timestamp::now();
    let mut done = Vec::new();
    for what in [
        Disturbance::Deleted,
        Disturbance::Edited,
        Disturbance::AddedTo,
    ] {
        // With its namespace everything else would go, and what belongs to the user may be edited.
        let belongs_to_user = |object: &Applied| {
            what != Disturbance::Deleted && object.title().ends_with(MACVTAP_CONFIG)
        };
        for object in applied
            .iter()
            .filter(|object| object.kind() != "Namespace" && !belongs_to_user(object))
        {
            done.extend(
                disturb(&lab, object, what)
                    .await
                    .with_context(|| format!("{} is {what:?}", object.title()))?,
            );
        }
        lab.wait_available().await?;
    }
    let (ours, repairs) = (
        lab.requests_of_admin(since)?,
        lab.requests_of_operator(since)?,
    );
    drop(operator);
    let mut figures = Vec::new();
    for (what, name) in [
        (Disturbance::Deleted, "deleted"),
        (Disturbance::Edited, "edited"),
        (Disturbance::AddedTo, "added to"),
    ] {
        let mut times = Vec::new();
        for one in done.iter().filter(|one| one.what == what) {
            let within = |event: &&weft_testenv::AuditEvent| {
                event.is_write()
                    && audit::path(event) == one.path
                    && event.received >= one.from
                    && event.received <= one.until
            };
            let disturbed = ours.iter().rfind(|event| within(event) && event.code < 300);
            let repaired = repairs
                .iter()
                .filter(|event| within(event) && event.code < 300);
            times.push((
                audit::seconds(
                    audit::first_received(disturbed)?,
                    audit::last_answered(repaired)?,
                ),
                one.title.as_str(),
            ));
        }
        let (median, max) =
            median_and_max(&times.iter().map(|(time, _)| *time).collect::<Vec<_>>());
        let slowest = times
            .iter()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, title)| *title)
            .unwrap_or_default();
        figures.push(
            Figure::new(
                format!("an object is {name}: until it is right again, longest"),
                Unit::Seconds,
                max,
            )
            .at_most(1.0)
            .cnao("6 to 40 s")
            .note(format!(
                "{} objects, median {:.0} ms; slowest: {slowest}",
                times.len(),
                median * 1000.0
            )),
        );
    }
    Ok(figures)
}

/// Does it, and waits until the object is as before. `None`: there is nothing in the object that
/// this could be done to.
async fn disturb(lab: &Lab<'_>, object: &Applied, what: Disturbance) -> Result<Option<Done>> {
    let before = lab
        .rest
        .get(&object.path)
        .await?
        .context("it is not there")?;
    let from = Timestamp::now();
    match what {
        Disturbance::Deleted => drop(lab.rest.delete(&object.path).await?),
        Disturbance::Edited | Disturbance::AddedTo => {
            let change: fn(&mut Value) -> bool = if what == Disturbance::Edited {
                disturb::edit
            } else {
                disturb::add
            };
            let mut is_applicable = true;
            wait::until("nobody else writes it in between", async || {
                let mut changed = lab
                    .rest
                    .get(&object.path)
                    .await?
                    .context("it is not there")?;
                is_applicable = change(&mut changed);
                if is_applicable {
                    lab.rest
                        .replace(&object.path, &changed)
                        .await
                        .map(|replaced| replaced.map(drop))
                } else {
                    Ok(Some(()))
                }
            })
            .await?;
            if !is_applicable {
                return Ok(None);
            }
        }
    }
    let wanted = content(&before);
    wait::until("it is right again", async || {
        let Some(live) = lab.rest.get(&object.path).await? else {
            return Ok(None);
        };
        let renewed =
            what != Disturbance::Deleted || Live::of(&live).uid() != Live::of(&before).uid();
        Ok((renewed && content(&live) == wanted).then_some(()))
    })
    .await?;
    Ok(Some(Done {
        what,
        title: object.title(),
        path: object.path.clone(),
        from,
        until: Timestamp::now(),
    }))
}
