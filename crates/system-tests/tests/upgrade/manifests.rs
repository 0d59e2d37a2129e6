//! The manifests of this tree over those of each release, and those of the release over them.

use std::collections::BTreeSet;

use serde_json::Value;
use weft_testenv::ControlPlane;

use crate::upgrade::{
    fixture::{Layout, Release, objects},
    harness::*,
    populated::printed,
};

const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

#[tokio::test]
async fn manifests_of_both_layouts_apply_over_those_of_each_release_and_back() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    for (release, layout) in releases() {
        let old = release.manifests(layout);
        let new = printed(&weft_binary(), layout, "this");
        for (step, manifests) in [("install", &old), ("upgrade", &new), ("go back", &old)] {
            control_plane
                .kubectl_with_input(&["apply", "-f", "-"], manifests)
                .await
                .unwrap_or_else(|error| panic!("{step} {} {layout:?}: {error:#}", release.version));
        }
        // The API server has taken all fields as they are written.
        let changed = control_plane
            .kubectl_with_input(
                &[
                    "apply",
                    "--server-side",
                    "--dry-run=server",
                    "--force-conflicts",
                    "--validate=strict",
                    "-f",
                    "-",
                ],
                &old,
            )
            .await
            .unwrap();
        assert_eq!(changed.lines().count(), objects(&old).len(), "{changed}");
    }
}

/// `kubectl apply` removes nothing, so a user must learn which objects stay.
#[test]
fn the_changelog_names_objects_that_this_tree_no_longer_has() {
    for (release, layout) in releases() {
        let now = titles(&printed(&weft_binary(), layout, "this"));
        let unnamed: Vec<_> = titles(&release.manifests(layout))
            .into_iter()
            .filter(|title| !now.contains(title))
            .filter(|(_, name)| !CHANGELOG.contains(&format!("`{name}`")))
            .collect();
        assert!(
            unnamed.is_empty(),
            "{} {layout:?} has objects that `weft manifests` prints no longer. Name them in CHANGELOG.md, with the command that removes them: {unnamed:?}",
            release.version
        );
    }
}

fn releases() -> impl Iterator<Item = (Release, Layout)> {
    Release::all()
        .into_iter()
        .flat_map(|release| Layout::ALL.map(|layout| (release.clone(), layout)))
}

/// Kind and name of each object.
fn titles(manifests: &str) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    objects(manifests)
        .iter()
        .map(|object| (text(&object["kind"]), text(&object["metadata"]["name"])))
        .collect()
}
