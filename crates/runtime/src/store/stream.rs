//! Follows the objects that a selection chooses: lists them, watches from there, and lists again
//! where a watch cannot go on.
//!
//! Guarantees:
//! - A refused or expired watch lists again at once. A list that succeeds proves access.
//! - A list is the truth. An answer that is no list with a resourceVersion counts as a failure, and no
//!   object is gone because it is not in there.
//! - If the list's resourceVersion is lower than one seen before, the API server's data went back in
//!   time, as after etcd was restored from a snapshot. [`News::Rewound`] says so before the list.
//! - A refusal counts as [passing](Failed::passing) until it has lasted for two minutes: an API
//!   server that has just started refuses requests until it knows all roles.
//! - Each kind of failure has a backoff of its own: time without any answer makes the pause after
//!   the first answer no longer.

use std::{convert::Infallible, fmt::Debug, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    api_server::{answer, cluster::Error},
    backoff::Backoff,
};

/// How long a page of a list, or the start of a watch, may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the API server keeps a watch open.
const WATCH: Duration = Duration::from_secs(290);
/// How long a watch may be silent: past its own end the connection is dead.
const SILENCE: Duration = Duration::from_secs(295);
/// A watch that ends sooner than this is worth a pause: the API server would be asked without end
/// otherwise.
const BRIEF: Duration = Duration::from_secs(1);
/// How long a refusal may last until it counts.
const PASSING: Duration = Duration::from_secs(120);
/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The objects to follow.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Label selector, empty for all.
    pub labels: String,
    /// Field selector, empty for all.
    pub fields: String,
    /// Objects in a page of a list. Small pages keep the peak of memory small.
    pub page: u32,
    /// True if a list follows a watch that breaks before its time. Without another sign that the
    /// API server's data went back in time, a watch must not be resumed. It would show nothing
    /// until the data has caught up.
    pub list_after_break: bool,
    /// The longest pause while the API server does not know the kind.
    pub longest_absence: Duration,
}

/// A message of a stream.
#[derive(Debug)]
pub enum News<K> {
    /// The API server's data is older than what was seen before: versions seen so far say nothing
    /// any more.
    Rewound,
    /// All objects that are there follow.
    Restarted,
    /// One object of a list.
    Listed(K),
    /// The end of a list at this resourceVersion. 0 if it cannot be read.
    Complete(u64),
    /// An object is there, new or changed.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// The stream works again after it had [failed](News::Failed).
    Works,
    /// The stream has failed and will try again.
    Failed(Failed),
}

/// Why a stream has failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The code of the API server's answer, if there was one.
    pub code: Option<u16>,
    /// The reason in words, for people.
    pub why: String,
    /// A refusal that may be over soon, because the API server has just started.
    pub passing: bool,
    /// When the stream tries again.
    pub pause: Duration,
}

impl Failed {
    fn new(error: kube::Error) -> Self {
        let error = Error::from(error);
        let code = match &error {
            // A line of a watch may be a `Status` without a code.
            Error::Api(status) if status.code != 0 => Some(status.code),
            _ => None,
        };
        Self {
            code,
            ..Self::without_answer(error.to_string())
        }
    }

    fn silent(what: &str) -> Self {
        Self::without_answer(format!(
            "no answer to a {what} within {} s",
            ANSWER.as_secs()
        ))
    }

    fn without_answer(why: String) -> Self {
        Self {
            code: None,
            why,
            passing: false,
            pause: Duration::ZERO,
        }
    }
}

/// Follows the selected objects for ever and reports what it finds.
pub async fn follow<K>(
    api: Api<K>,
    selection: Selection,
    mut report: impl FnMut(News<K>),
) -> Infallible
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut course = Course::new(&selection);
    loop {
        let mut version = match list(&api, &selection, &mut course, &mut report).await {
            Ok(version) => version,
            Err(failed) => {
                course.fail(failed, &mut report).await;
                continue;
            }
        };
        course.listed(&mut report);
        while watch(&api, &selection, &mut version, &mut course, &mut report).await == Next::Resume
        {
        }
    }
}

/// Lists all objects, page by page. Returns the list's resourceVersion.
async fn list<K>(
    api: &Api<K>,
    selection: &Selection,
    course: &mut Course,
    report: &mut impl FnMut(News<K>),
) -> Result<String, Failed>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default()
        .labels(&selection.labels)
        .fields(&selection.fields)
        .limit(selection.page);
    let mut first = true;
    loop {
        let page = match timeout(ANSWER, api.list(&params)).await {
            Ok(page) => page.map_err(Failed::new)?,
            Err(_) => return Err(Failed::silent("list")),
        };
        let version = page.metadata.resource_version.unwrap_or_default();
        if !answer::is_list(&page.types.kind, &version) {
            let stranger = Error::Unreadable("it is not a list with a resourceVersion".to_owned());
            return Err(Failed::without_answer(stranger.to_string()));
        }
        if first {
            if course.is_rewound_to(&version) {
                report(News::Rewound);
            }
            report(News::Restarted);
            first = false;
        }
        page.items
            .into_iter()
            .for_each(|object| report(News::Listed(object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => {
                report(News::Complete(version.parse().unwrap_or_default()));
                return Ok(version);
            }
        }
    }
}

/// The step after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Resume,
    List,
}

/// Watches until the watch ends.
async fn watch<K>(
    api: &Api<K>,
    selection: &Selection,
    version: &mut String,
    course: &mut Course,
    report: &mut impl FnMut(News<K>),
) -> Next
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let seconds = u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX);
    let params = WatchParams::default()
        .labels(&selection.labels)
        .fields(&selection.fields)
        .timeout(seconds);
    let after_break = if selection.list_after_break {
        Next::List
    } else {
        Next::Resume
    };
    let began = Instant::now();
    let stream = match timeout(ANSWER, api.watch(&params, version)).await {
        Ok(Ok(stream)) => stream,
        failed => {
            let failed = match failed {
                Ok(Err(error)) => Failed::new(error),
                _ => Failed::silent("watch"),
            };
            return course
                .watch_failed(failed, report)
                .await
                .unwrap_or(after_break);
        }
    };
    course.watches(report);
    let mut stream = std::pin::pin!(stream);
    loop {
        let (object, is_there) = match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                (object, true)
            }
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => (object, false),
            Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                *version = bookmark.metadata.resource_version;
                course.seen(version);
                continue;
            }
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                let failed = Failed {
                    code: Some(status.code),
                    why: status.message,
                    passing: false,
                    pause: Duration::ZERO,
                };
                return course
                    .watch_failed(failed, report)
                    .await
                    .unwrap_or(after_break);
            }
            Ok(Some(Err(error))) => {
                return course
                    .watch_failed(Failed::new(error), report)
                    .await
                    .unwrap_or(after_break);
            }
            Ok(None) | Err(_) => {
                if began.elapsed() < BRIEF {
                    course.rest(report).await;
                } else {
                    course.was_brief = false;
                }
                let in_time = began.elapsed() >= WATCH.mul_f64(0.9);
                return if in_time { Next::Resume } else { after_break };
            }
        };
        let Some(now) = object.meta().resource_version.clone() else {
            return Next::List;
        };
        *version = now;
        course.seen(version);
        course.works();
        report(if is_there {
            News::Applied(object)
        } else {
            News::Deleted(object)
        });
    }
}

/// The state of a stream from list to list: versions, refusals, and the pauses after each kind of
/// failure.
struct Course {
    /// The highest resourceVersion that the API server has mentioned.
    highest: u64,
    /// After failures without an answer.
    unanswered: Backoff,
    /// After lists that the API server answered with an error.
    refused_lists: Backoff,
    /// After watches that the API server answered with an error.
    refused_watches: Backoff,
    longest_absence: Duration,
    /// True if a watch has ever begun.
    has_watched: bool,
    /// True if the last watch was refused: then a list proves nothing.
    watch_is_refused: bool,
    refused_since: Option<Instant>,
    /// True if the last watch ended as soon as it began.
    was_brief: bool,
    /// True if the last thing reported is a failure.
    has_failed: bool,
}

impl Course {
    fn new(selection: &Selection) -> Self {
        let backoff = |seconds| Backoff::new(FIRST_PAUSE, Duration::from_secs(seconds));
        Self {
            highest: 0,
            unanswered: backoff(10),
            refused_lists: backoff(30),
            refused_watches: backoff(5),
            longest_absence: selection.longest_absence,
            has_watched: false,
            watch_is_refused: false,
            refused_since: None,
            was_brief: false,
            has_failed: false,
        }
    }

    /// Notes a resourceVersion. (They are numbers, and grow with every write: Kubernetes API
    /// concepts, "Resource versions".)
    fn seen(&mut self, version: &str) {
        self.highest = self.highest.max(version.parse().unwrap_or_default());
    }

    /// Notes the resourceVersion of a list. Returns whether it is lower than one that was seen
    /// before.
    fn is_rewound_to(&mut self, version: &str) -> bool {
        let Ok(version) = version.parse::<u64>() else {
            return false;
        };
        let rewound = version < self.highest;
        self.highest = version;
        rewound
    }

    fn works(&mut self) {
        self.unanswered.reset();
        self.refused_lists.reset();
        self.refused_watches.reset();
        self.was_brief = false;
    }

    fn listed<K>(&mut self, report: &mut impl FnMut(News<K>)) {
        self.unanswered.reset();
        self.refused_lists.reset();
        if !self.watch_is_refused {
            self.recovered(report);
        }
    }

    fn watches<K>(&mut self, report: &mut impl FnMut(News<K>)) {
        (self.has_watched, self.watch_is_refused) = (true, false);
        self.recovered(report);
    }

    fn recovered<K>(&mut self, report: &mut impl FnMut(News<K>)) {
        self.refused_since = None;
        if std::mem::take(&mut self.has_failed) {
            report(News::Works);
        }
    }

    /// Reports a failure and pauses.
    async fn fail<K>(&mut self, mut failed: Failed, report: &mut impl FnMut(News<K>)) {
        failed.pause = match failed.code {
            None => self.unanswered.next_pause(),
            Some(code) => {
                // The API server is there: how long it was away does not matter any more.
                self.unanswered.reset();
                let longest = match code {
                    403 | 410 => Duration::from_secs(5),
                    404 => self.longest_absence,
                    _ => Duration::MAX,
                };
                self.refused_lists.next_pause().min(longest)
            }
        };
        self.report(failed, report).await;
    }

    /// Handles the failure of a watch: reports it unless a list may help, and pauses. Returns what
    /// to do next. `None` means to go on as after any break.
    async fn watch_failed<K>(
        &mut self,
        mut failed: Failed,
        report: &mut impl FnMut(News<K>),
    ) -> Option<Next> {
        let next = matches!(failed.code, Some(403 | 404 | 410)).then_some(Next::List);
        let first = !std::mem::replace(&mut self.watch_is_refused, failed.code == Some(403));
        if next.is_none() {
            self.fail(failed, report).await;
            return next;
        }
        self.unanswered.reset();
        failed.pause = self.refused_watches.next_pause();
        if failed.code == Some(410) || first && self.has_watched {
            // Not reported: the list shows whether anything is wrong.
            self.refused_since.get_or_insert_with(Instant::now);
            sleep(failed.pause).await;
        } else {
            self.report(failed, report).await;
        }
        next
    }

    async fn report<K>(&mut self, mut failed: Failed, report: &mut impl FnMut(News<K>)) {
        if matches!(failed.code, Some(403 | 410)) {
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            failed.passing = self.has_watched && since.elapsed() < PASSING;
        } else {
            self.refused_since = None;
        }
        self.has_failed = true;
        let pause = failed.pause;
        report(News::Failed(failed));
        sleep(pause).await;
    }

    /// Pauses after a watch that ended as soon as it began. A connection may be closed at any time.
    /// But if the next watch ends so, too, nothing is seen any more, and that is a failure.
    async fn rest<K>(&mut self, report: &mut impl FnMut(News<K>)) {
        let pause = self.refused_watches.next_pause();
        if std::mem::replace(&mut self.was_brief, true) {
            let why = "the watch ended as soon as it began".to_owned();
            let failed = Failed {
                pause,
                ..Failed::without_answer(why)
            };
            self.report(failed, report).await;
        } else {
            sleep(pause).await;
        }
    }
}
