//! Faults that happen while a user acts.

use std::time::Duration;

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use rustix::process::Signal;
use weft_system_tests::PATIENCE;
use weft_testenv::{
    Victim,
    proxy::{Events, Fault, Injected, Match, When},
};

use super::world::World;

/// The fault next to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// None.
    Plain,
    /// The operator does not reach the API server meanwhile.
    CutOff,
    /// The operator does not run meanwhile.
    Killed,
    /// The operator is killed at one of its next writes, if there are so many.
    KilledAt(usize, When),
    /// The operator learns of nothing meanwhile.
    WatchesHeld,
    /// All watches of the operator end afterwards, with the event that they are too old.
    WatchesExpired,
    /// All watches of the operator end afterwards, by their connections.
    WatchesClosed,
    /// The API server answers the operator's next writes with this code.
    Refused(u16),
    /// The operator's next writes are done, and answered later.
    Slow,
    /// The operator never gets the answers to its next writes.
    Unanswered,
}

impl Way {
    /// Draws one. Every other action has no fault next to it.
    pub fn draw(random: &mut StdRng) -> Self {
        if random.random_bool(0.5) {
            return Self::Plain;
        }
        let when = if random.random_bool(0.5) {
            When::Before
        } else {
            When::After
        };
        let ways = [
            Self::CutOff,
            Self::Killed,
            Self::KilledAt(random.random_range(1..6), when),
            Self::WatchesHeld,
            Self::WatchesExpired,
            Self::WatchesClosed,
            Self::Refused(*[409, 429, 500, 503].choose(random).unwrap()),
            Self::Slow,
            Self::Unanswered,
        ];
        *ways.choose(random).unwrap()
    }

    /// Makes it. Returns what is to be removed after the action.
    pub async fn begin(self, world: &mut World) -> Option<Injected> {
        let all = Match::any().user(&world.user);
        let writes = all.clone().writes();
        let proxy = &world.proxy;
        match self {
            Self::Plain | Self::WatchesExpired | Self::WatchesClosed => None,
            Self::CutOff => {
                let cut = proxy.inject(all.clone(), Fault::CutBefore);
                proxy.close_watches(&all);
                Some(cut)
            }
            Self::Killed => {
                world.operator.signal(Signal::KILL);
                world.operator.wait().await;
                None
            }
            Self::KilledAt(n, when) => {
                let victim = Victim::new();
                victim.is(world.operator.child());
                proxy.on_write(all, n, when, victim.kill());
                None
            }
            Self::WatchesHeld => {
                Some(proxy.inject(all.verb("watch"), Fault::HoldEvents(Events::All)))
            }
            Self::Refused(code) => {
                proxy.inject(writes.times(3), Fault::status(code));
                None
            }
            Self::Slow => {
                let later = Fault::DelayAnswer(Duration::from_millis(300));
                proxy.inject(writes.times(5), later);
                None
            }
            Self::Unanswered => {
                proxy.inject(writes.times(2), Fault::CutAfter);
                None
            }
        }
    }

    /// Ends it, after the action.
    pub async fn end(self, world: &mut World, injected: Option<Injected>) {
        let all = Match::any().user(&world.user);
        match self {
            Self::WatchesExpired => {
                world.proxy.expire_watches(&all);
            }
            Self::WatchesClosed => {
                world.proxy.close_watches(&all);
            }
            Self::Killed => world.restart().await,
            _ => {}
        }
        let Some(injected) = injected else { return };
        if self == Self::CutOff {
            // It renews its Leases every three seconds.
            injected.wait_hits(1, PATIENCE).await.unwrap();
        }
        injected.remove();
    }
}
