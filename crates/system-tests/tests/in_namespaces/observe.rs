//! When the agent looks at its host. Each test in a network namespace of its own.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, channel::mpsc, stream};
use weft_agent::{
    health::Health,
    host::{Change, Changes, Machine},
    observe::{Observer, Pace},
};
use weft_testenv::namespace::in_namespace;

const HOUR: Duration = Duration::from_secs(3600);

/// Observes a host that reports these changes until a look has the number `until`. Then asks for
/// one more look, and returns its number.
fn looks(pace: Pace, changes: impl FnOnce() -> Changes + Send, until: u64) -> u64 {
    in_namespace(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (host, _) = Machine::start().unwrap();
            let observer = Observer::start_at(pace, Arc::new(host), changes(), Health::default());
            let mut looks = observer.looks();
            let number = |looks: &Option<weft_agent::observe::Look>| {
                looks.as_ref().map_or(0, |look| look.number)
            };
            let seen = tokio::time::timeout(
                Duration::from_secs(60),
                looks.wait_for(|look| number(look) >= until),
            );
            drop(seen.await.expect("no such look within a minute").unwrap());
            observer.refresh().await;
            number(&looks.borrow())
        })
    })
}

#[test]
fn changes_without_an_event_are_seen() {
    looks(
        Pace {
            safety_net: Duration::from_millis(20),
            ..Pace::default()
        },
        || stream::pending().boxed(),
        3,
    );
}

#[test]
fn events_at_the_same_time_lead_to_one_look() {
    let pace = Pace {
        safety_net: HOUR,
        ..Pace::default()
    };
    let changes = || {
        stream::repeat(Change::Kernel)
            .take(100)
            .chain(stream::pending())
            .boxed()
    };
    assert_eq!(
        looks(pace, changes, 2),
        3,
        "the first look, one for all changes, and the one asked for"
    );
}

#[test]
fn changes_without_end_put_no_look_off_for_ever() {
    let pace = Pace {
        quiet: HOUR,
        latest: Duration::from_millis(50),
        safety_net: HOUR,
    };
    // Each change comes as soon as the receiver has taken the one before.
    let (tell, told) = mpsc::channel(0);
    let endless = move || {
        tokio::spawn(stream::repeat(Ok(Change::Kernel)).forward(tell));
        told.boxed()
    };
    looks(pace, endless, 3);
}
