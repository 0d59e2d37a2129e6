//! A configuration is created: until its last object is there, and until it is Available. In turns
//! with a bare client that applies the same bodies, each time in a fresh control plane.

use anyhow::Result;
use jiff::Timestamp;

use crate::{
    audit,
    figure::{Figure, Unit, median_and_max},
    lab::{Lab, Setup},
    objects::{self, Applied},
    recording, wait,
};

/// The times of an installation, in seconds since its start.
struct Times {
    created: f64,
    rolled_out: f64,
}

pub async fn measure(setup: &Setup, rounds: u32, timeline: bool) -> Result<Vec<Figure>> {
    let applied = recording::applied(setup).await?;
    let (mut weft, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(by_bare_client(setup, applied).await?);
        weft.push(by_weft(setup, applied, timeline).await?);
    }
    let of =
        |times: &[Times], value: fn(&Times) -> f64| times.iter().map(value).collect::<Vec<_>>();
    let each = |times: &[Times]| {
        times
            .iter()
            .map(|times| format!("{:.0}", times.created * 1000.0))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let ((created, _), (least, _)) = (
        median_and_max(&of(&weft, |times| times.created)),
        median_and_max(&of(&bare, |times| times.created)),
    );
    let ((available, _), (rolled_out, _)) = (
        median_and_max(&of(&weft, |times| times.rolled_out)),
        median_and_max(&of(&bare, |times| times.rolled_out)),
    );
    Ok(vec![
        Figure::new(
            "installed: to the last object, times the lower bound",
            Unit::Ratio,
            created / least,
        )
        .at_most(1.5)
        .cnao("4 to 6 ×")
        .note(format!(
            "{} objects; ms: Weft {}, bare client {}",
            applied.len(),
            each(&weft),
            each(&bare)
        )),
        Figure::new("installed: to the last object", Unit::Seconds, created)
            .lower_bound(least)
            .cnao("0.85 to 1.23 s, bare 0.20 s")
            .note(format!("median of {rounds}")),
        Figure::new("installed: to Available", Unit::Seconds, available)
            .lower_bound(rolled_out)
            .cnao("1.6 s, bare 1.1 s")
            .note("bare client: to all workloads rolled out"),
    ])
}

async fn by_weft(setup: &Setup, applied: &[Applied], timeline: bool) -> Result<Times> {
    let (lab, operator) = Lab::with_operator(setup).await?;
    // The pooled connection of an administrator's tool is not what is measured.
    lab.rest.warm().await?;
    let since = Timestamp::now();
    lab.create_config().await?;
    lab.wait_available().await?;
    let created = lab
        .requests_of_admin(since)?
        .into_iter()
        .find(|event| event.verb == "create" && event.resource == setup.domain.resource);
    let start = audit::first_received(&created)?;
    let requests = lab.requests_of_operator(since)?;
    if timeline {
        let all = lab.requests_of_operator(since - jiff::SignedDuration::from_mins(1))?;
        eprint!(
            "{}{}",
            audit::timeline(start, created.as_slice()),
            audit::timeline(start, &all)
        );
    }
    let objects = requests.iter().filter(|event| {
        event.code == 201
            && applied
                .iter()
                .any(|object| object.path == audit::path(event))
    });
    let status = requests
        .iter()
        .filter(|event| event.resource == setup.domain.resource && event.subresource == "status");
    let times = Times {
        created: audit::seconds(start, audit::last_answered(objects)?),
        rolled_out: audit::seconds(start, audit::last_answered(status)?),
    };
    drop(operator);
    Ok(times)
}

async fn by_bare_client(setup: &Setup, applied: &[Applied]) -> Result<Times> {
    let lab = Lab::start(setup).await?;
    let config = lab.create_config().await?;
    let client = lab.as_operator().await?;
    client.warm().await?;
    let since = Timestamp::now();
    objects::apply_all(&client, applied, &config).await?;
    for object in applied {
        wait::until(&format!("{} is rolled out", object.title()), async || {
            Ok(lab
                .rest
                .get(&object.path)
                .await?
                .filter(objects::is_rolled_out))
        })
        .await?;
    }
    let rolled_out = Timestamp::now();
    let requests = lab.requests_of_operator(since)?;
    let applies: Vec<_> = requests
        .iter()
        .filter(|event| event.verb == "patch")
        .collect();
    let start = audit::first_received(applies.iter().copied())?;
    Ok(Times {
        created: audit::seconds(start, audit::last_answered(applies)?),
        rolled_out: audit::seconds(start, rolled_out),
    })
}
