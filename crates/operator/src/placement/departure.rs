//! The end of a PlacementAPI. Owner references remove the objects that the operator made. The
//! operator first releases only those that they do not reach.

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
    peers::Disclaim,
};
use weft_plan::{Live, ObjectKey, manager};
use weft_runtime::{
    api_server::{clock, cluster::Error},
    reconcile::events::Note,
};

use super::{place::Place, reconcile::key_of, view::View};

/// Entries in Keystone that the operator has not removed yet.
enum Left {
    Nothing,
    /// This is looked at again at the time, if there is one.
    Something(Option<Timestamp>),
}

impl Place {
    /// Releases what a PlacementAPI holds, and lets it go. The operator reads the state that it
    /// needs for that. Until it has the answer, it removes nothing.
    ///
    /// Returns when to look again, should nothing happen.
    pub(super) async fn depart(
        &self,
        resource: &Arc<Value>,
        view: &View<'_>,
    ) -> Result<Option<Timestamp>, Error> {
        if !Live::of(resource).has_finalizer(FINALIZER) {
            return Ok(None);
        }
        // One that cannot be read was never acted upon.
        let read: Option<PlacementApi> = serde_json::from_value(Value::clone(resource)).ok();
        let departure = read.as_ref().map_or_else(
            || Departure {
                settled: true,
                ..Departure::default()
            },
            |read| departure(read, view),
        );
        if let Err((key, error)) = self.disclaim(resource, &departure.disclaims).await {
            return self.keeps(resource, key, error).await;
        }
        let left = match &read {
            Some(read) => self.left_in_keystone(resource, read, view).await?,
            None => Left::Nothing,
        };
        match left {
            Left::Something(deadline) => Ok(deadline),
            Left::Nothing if !departure.settled => Ok(None),
            Left::Nothing => {
                let key = key_of(resource);
                let manager = manager(&*self.domain);
                let taken = self
                    .cluster
                    .take_finalizer(&key, resource, FINALIZER, &manager)
                    .await;
                match taken {
                    Ok(()) => Ok(None),
                    // Another client has written the finalizers in between. The next reconcile tries
                    // with those.
                    Err(error) if self.has_changed(resource) => Err(error),
                    Err(error) => self.keeps(resource, &key, error).await,
                }
            }
        }
    }

    /// Ends a reconcile in which a finalizer could not be taken off this object, which keeps the
    /// PlacementAPI.
    async fn keeps(
        &self,
        resource: &Arc<Value>,
        key: &ObjectKey,
        error: Error,
    ) -> Result<Option<Timestamp>, Error> {
        let assessment = Assessment {
            settled: true,
            ..Assessment::default()
        };
        self.refused(resource, assessment, key, error)
            .await
            .map(|_| None)
    }

    /// Reports whether the store has another version of the resource by now.
    fn has_changed(&self, resource: &Arc<Value>) -> bool {
        let version = |resource: &Value| Live::of(resource).resource_version();
        version(&self.latest(resource)) != version(resource)
    }

    /// Entries in Keystone that the operator has not removed yet. The operator reports entries that
    /// it gives up, and counts them as removed.
    async fn left_in_keystone(
        &self,
        resource: &Value,
        read: &PlacementApi,
        view: &View<'_>,
    ) -> Result<Left, Error> {
        match removal(read, self.domain.settings(), view, clock::now()) {
            Removal::Done => Ok(Left::Nothing),
            Removal::Waiting(steps, deadline) => {
                self.report(
                    resource,
                    &Assessment {
                        steps,
                        settled: true,
                        ..Assessment::default()
                    },
                    None,
                )
                .await?;
                Ok(Left::Something(deadline))
            }
            Removal::GivenUp(message) => {
                tracing::warn!(message, object = %key_of(resource).human(), "gave up what a missing peer holds");
                self.tell(
                    resource,
                    vec![Note {
                        warning: true,
                        reason: "LeftInKeystone".to_owned(),
                        message,
                    }],
                );
                Ok(Left::Nothing)
            }
        }
    }

    /// Takes finalizers off others' objects, or says which one keeps it. The operator reports
    /// entries that stay for good.
    pub(super) async fn disclaim<'a>(
        &self,
        resource: &Value,
        disclaims: &'a [Disclaim],
    ) -> Result<(), (&'a ObjectKey, Error)> {
        let mut left = Vec::new();
        let mut end = Ok(());
        for Disclaim { key, patch, leaves } in disclaims {
            match self
                .cluster
                .json_patch(key, patch, &manager(&*self.domain))
                .await
            {
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
            let message = format!(
                "not needed any more, and left to whoever needs it: {}",
                left.join(", ")
            );
            self.tell(
                resource,
                vec![Note {
                    warning: false,
                    reason: "LeftBehind".to_owned(),
                    message,
                }],
            );
        }
        end
    }
}
