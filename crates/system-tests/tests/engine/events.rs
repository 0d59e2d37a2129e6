//! Events on a real API server: what a person sees who reads them.

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, api::ListParams};
use weft_plan::{ObjectKey, kinds};
use weft_runtime::reconcile::events::{EventRecorder, Note};
use weft_testenv::{ControlPlane, wait::wait_until};

fn note(message: &str) -> Note {
    Note {
        warning: true,
        reason: "DBReady".to_owned(),
        message: message.to_owned(),
    }
}

/// Returns each message with its count.
async fn told(client: &Client) -> BTreeMap<String, i32> {
    let events = Api::<Event>::namespaced(client.clone(), "default")
        .list(&ListParams::default())
        .await
        .unwrap();
    let ours = events
        .items
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some("DBReady"));
    ours.map(|event| {
        (
            event.note.unwrap(),
            event.series.map_or(1, |series| series.count),
        )
    })
    .collect()
}

#[tokio::test]
async fn equal_events_are_counted_and_others_of_the_same_reason_are_shown() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let client = control_plane.client();
    let recorder = EventRecorder::new(client.clone(), "placement", "replica");
    let about = ObjectKey::new(kinds::CONFIG_MAP, "default", "about");
    recorder.publish_in(
        &about,
        "uid".to_owned(),
        ["no host", "no user", "no host", "no host"]
            .map(note)
            .into(),
    );
    let expected = BTreeMap::from([("no host".to_owned(), 3), ("no user".to_owned(), 1)]);
    wait_until("all are told", async || match told(&client).await {
        told if told == expected => Ok(()),
        told => Err(format!("{told:?}")),
    })
    .await;
}
