//! The end of a PlacementAPI. What was made for it goes by its owner references; only what they do not reach has to be released first.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use weft_api::placement::PlacementApi;
use weft_placement::{
    Assessment,
    assess::{
        Departure,
        direct::{Removal, removal},
    },
    departure,
    domain::FINALIZER,
    peers::Release,
};
use weft_plan::{ObjectKey, manager};
use weft_runtime::{cluster::Error, events::Note};

use super::{
    caches::{Place, View},
    pass::{has_finalizer, key_of},
};

impl Place {
    /// Releases what a PlacementAPI holds, and lets it go. What has to be known for that is asked for; until it is, nothing goes.
    pub(super) async fn depart(&self, resource: &Arc<Value>, view: &View<'_>) -> Result<(), Error> {
        if !has_finalizer(resource) {
            return Ok(());
        }
        // One that cannot be read was never acted upon.
        let read: Option<PlacementApi> = serde_json::from_value(Value::clone(resource)).ok();
        let departure = read.as_ref().map_or_else(|| Departure { settled: true, ..Departure::default() }, |read| departure(read, view));
        if let Err((key, error)) = self.release(resource, &departure.releases).await {
            return self.refused(resource, Assessment { settled: true, ..Assessment::default() }, key, error).await.map(drop);
        }
        let is_out = match &read {
            Some(read) => self.is_out_of_keystone(resource, read, view).await?,
            None => true,
        };
        if !departure.settled || !is_out {
            return Ok(());
        }
        self.cluster.take_finalizer(&key_of(resource), resource, FINALIZER, &manager(&*self.domain)).await
    }

    /// Whether nothing is left to be removed from Keystone, or it was given up, which is told.
    async fn is_out_of_keystone(&self, resource: &Value, read: &PlacementApi, view: &View<'_>) -> Result<bool, Error> {
        match removal(read, view, Timestamp::now()) {
            Removal::Done => Ok(true),
            Removal::Waiting(steps) => {
                self.report(resource, &Assessment { steps, settled: true, ..Assessment::default() }).await?;
                Ok(false)
            }
            Removal::GivenUp(message) => {
                tracing::warn!(message, object = %key_of(resource).human(), "let go");
                self.tell(resource, vec![Note { warning: true, reason: "LeftInKeystone".to_owned(), message }]);
                Ok(true)
            }
        }
    }

    /// Takes finalizers off others' objects, or says which one keeps it. What stays for good is told.
    pub(super) async fn release<'a>(&self, resource: &Value, releases: &'a [Release]) -> Result<(), (&'a ObjectKey, Error)> {
        let mut left = Vec::new();
        let mut end = Ok(());
        for Release { key, patch, leaves } in releases {
            match self.cluster.json_patch(key, patch, &manager(&*self.domain)).await {
                Ok(written) => {
                    tracing::info!(object = %key.human(), leaves, "released");
                    left.extend(leaves.then(|| key.human()));
                    self.shared.lock().wrote(&written);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    end = Err((key, error));
                    break;
                }
            }
        }
        if !left.is_empty() {
            let message = format!("not needed any more, and left to whoever needs it: {}", left.join(", "));
            self.tell(resource, vec![Note { warning: false, reason: "LeftBehind".to_owned(), message }]);
        }
        end
    }
}
