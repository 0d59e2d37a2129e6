#![allow(clippy::unwrap_used)]
use super::*;

const KINDS: [Kind; 2] = [
    kinds::MUTATING_WEBHOOK_CONFIGURATION,
    kinds::MUTATING_ADMISSION[0][0],
];

/// Watches of two kinds, whose streams a test feeds.
pub(crate) struct Fed(pub Arc<Watching>);

impl Fed {
    pub(crate) fn new() -> Self {
        let sight = Sight::default();
        sight.kinds.set(KINDS.to_vec()).unwrap();
        Self(Arc::new(Watching {
            sight: Arc::new(sight),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        }))
    }

    fn take(&self, kind: Kind, change: Change) {
        let shared = Shared::default();
        self.eye(kind, &shared).take(change);
    }

    fn eye<'a>(&'a self, kind: Kind, shared: &'a Shared) -> Eye<'a> {
        Eye {
            kind,
            sight: &self.0.sight,
            shared,
            refused: Notify::new(),
            known: Mutex::default(),
        }
    }

    /// The first lists of all kinds are there.
    pub(crate) fn answer(&self) {
        for kind in KINDS {
            self.take(kind, Change::Complete(1));
        }
    }

    /// A policy is there, new or changed.
    pub(crate) fn change(&self) {
        self.take(KINDS[1], Change::Applied(Value::Null));
    }

    /// The operator may not watch webhooks any more.
    pub(crate) fn refuse(&self) {
        let shared = Shared::default();
        self.eye(KINDS[0], &shared).failed(refusal(false));
    }
}

fn refusal(passing: bool) -> Failed {
    Failed {
        code: Some(403),
        why: "no".to_owned(),
        passing,
        pause: Duration::ZERO,
    }
}

#[tokio::test]
async fn changes_are_seen_once_each_kind_has_answered() {
    let fed = Fed::new();
    let watching = &fed.0;
    fed.take(KINDS[0], Change::Restarted);
    fed.take(KINDS[0], Change::Complete(1));
    assert_eq!((watching.changed(), watching.shows_all()), (None, false));
    fed.take(KINDS[1], Change::Complete(1));
    let begun = watching.changed().unwrap();
    assert!(watching.shows_all());

    fed.take(KINDS[0], Change::Restarted);
    fed.take(KINDS[0], Change::Listed(Value::Null));
    assert_eq!(
        watching.changed(),
        Some(begun),
        "a list that is not complete"
    );
    let mut last = begun;
    for change in [
        Change::Complete(2),
        Change::Applied(Value::Null),
        Change::Deleted(Value::Null),
    ] {
        while Instant::now() == last {
            std::hint::spin_loop();
        }
        fed.take(KINDS[0], change);
        let now = watching.changed().unwrap();
        assert!(now > last);
        last = now;
    }
}

#[tokio::test]
async fn a_change_of_the_metadata_alone_is_none() {
    let fed = Fed::new();
    fed.answer();
    let (shared, begun) = (Shared::default(), fed.0.changed().unwrap());
    let eye = fed.eye(KINDS[1], &shared);
    let policy = |generation: i64, note: &str| {
        serde_json::json!({"metadata": {
            "name": "p", "uid": "u", "generation": generation, "annotations": {"note": note}
        }})
    };
    eye.take(Change::Listed(policy(1, "")));
    eye.take(Change::Applied(policy(1, "another")));
    assert_eq!(fed.0.changed(), Some(begun));
    eye.take(Change::Applied(policy(2, "another")));
    let changed = fed.0.changed().unwrap();
    assert!(changed > begun);
    eye.take(Change::Deleted(policy(2, "another")));
    assert!(fed.0.changed().unwrap() > changed);
}

#[tokio::test]
async fn a_kind_that_may_not_be_watched_holds_up_no_other() {
    let fed = Fed::new();
    let shared = Shared::default();
    let eye = fed.eye(KINDS[0], &shared);
    eye.failed(refusal(true));
    fed.take(KINDS[1], Change::Complete(1));
    assert_eq!(fed.0.changed(), None, "it may be allowed in a moment");
    eye.failed(refusal(false));
    assert!(fed.0.changed().is_some() && !fed.0.shows_all());
    // The stream ends.
    eye.refused.notified().await;
}
