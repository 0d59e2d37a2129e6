//! The workloads: the Services, the Job that prepares the database, the Deployment.

use std::{cmp::Reverse, sync::Arc};

use serde_json::Value;
use weft_plan::{
    Live, ObjectKey, kinds,
    rollout::{PodView, Rollout, last_words, rollout, unexplained, with_causes},
};

use super::{End, Pending, Walk, direct::RETRY, object, told};
use crate::{
    Inputs,
    conditions::{State, Step},
    objects::{self, JOB_HASH},
    peers,
};

impl Walk<'_> {
    /// Both Services, and the address of each load balancer among them.
    pub(super) fn services(&mut self) -> Result<(), End> {
        let services =
            objects::services(self.config).map_err(|error| Step::CreateService.fails(error).into());
        let mut waiting = Vec::new();
        for service in self.take(Step::CreateService, services)? {
            let live = self.make(Step::CreateService, service)?;
            if live["spec"]["type"] == "LoadBalancer"
                && live["status"]["loadBalancer"]["ingress"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
            {
                waiting.push(Live::of(&live).name().to_owned());
            }
        }
        if waiting.is_empty() {
            self.done(Step::CreateService);
            return Ok(());
        }
        let message = format!(
            "Create service in progress: waiting for the LoadBalancer IP of {}",
            waiting.join(" and ")
        );
        self.take(Step::CreateService, Err(State::requested(message).into()))
    }

    /// The database at the release of the image, by a Job for each image and database. A Job cannot
    /// be changed, so the one before it is deleted.
    pub(super) fn preparation(&mut self, inputs: &Inputs) -> Result<(), End> {
        let job = objects::preparation(self.config, inputs)
            .map_err(|error| Step::DbSync.fails(error).into());
        let mut job = self.take(Step::DbSync, job)?;
        let hash = Live::of(job.body())
            .annotation(JOB_HASH)
            .unwrap_or_default()
            .to_owned();
        let known = self
            .before
            .hash
            .as_ref()
            .and_then(|hashes| hashes.get("dbsync"));
        if known != Some(&hash) {
            if let Some(retry) = self.retry {
                job.set_annotation(RETRY, retry);
            }
            let name = job.key().name.clone();
            self.make_way(job.key(), &hash)?;
            self.try_again(job.key())?;
            let live = self.make(Step::DbSync, job)?;
            let outcome = match ended(&live) {
                None => {
                    let trouble = self
                        .trouble(&name)?
                        .map(|trouble| format!(": {trouble}"))
                        .unwrap_or_default();
                    Err(State::requested(format!("DBsync job still running{trouble}")).into())
                }
                Some(Err(why)) => {
                    let trouble = self
                        .trouble(&name)?
                        .map(|trouble| format!("; {trouble}"))
                        .unwrap_or_default();
                    // In the words of lib-common, and then why and how to go on.
                    let failed = "Internal error occurred: Job has reached the specified backoff limit. Check job logs";
                    let way_out = format!(
                        "Delete Job {name}, or set another value of the annotation {RETRY}, and it is tried again"
                    );
                    Err(Step::DbSync
                        .fails(format!("{failed} ({why}{trouble}). {way_out}"))
                        .into())
                }
                Some(Ok(())) => Ok(()),
            };
            self.take(Step::DbSync, outcome)?;
        }
        self.assessment.found.sync_hash = Some(hash);
        self.done(Step::DbSync);
        Ok(())
    }

    /// Waits for a Job of an earlier configuration, or of placement-operator: two at once would
    /// change the same tables. One that has ended is deleted, and one that only fails, which
    /// changes no table.
    fn make_way(&mut self, wanted: &ObjectKey, hash: &str) -> Result<(), End> {
        let live = self.take(Step::DbSync, object(Step::DbSync, self.world, wanted))?;
        let theirs = live.filter(|job| peers::is_of_placement(job));
        let is_other = |job: &Arc<Value>| Live::of(job).annotation(JOB_HASH) != Some(hash);
        let Some(other) = self.world.own(wanted).or(theirs).filter(is_other) else {
            return Ok(());
        };
        let has_ended = ended(&other).is_some();
        if has_ended || self.only_fails(&wanted.name)? {
            self.assessment
                .deletions
                .push((wanted.clone(), Live::of(&other).uid().to_owned()));
        }
        let pending = match has_ended {
            true => Pending::Unmade,
            false => State::requested(format!(
                "DBsync job still running: {}, of an earlier configuration",
                wanted.name
            ))
            .into(),
        };
        self.take(Step::DbSync, Err(pending))
    }

    /// Takes a Job that failed out of the way if it was made before the annotation had the value
    /// that it has now.
    fn try_again(&mut self, key: &ObjectKey) -> Result<(), End> {
        let has_failed = |live: &Arc<Value>| matches!(ended(live), Some(Err(_)));
        let Some(live) = self.world.own(key).filter(has_failed) else {
            return Ok(());
        };
        let live = Live::of(&live);
        if self.retry.is_none() || live.annotation(RETRY) == self.retry {
            return Ok(());
        }
        self.assessment
            .deletions
            .push((key.clone(), live.uid().to_owned()));
        self.take(Step::DbSync, Err(Pending::Unmade))
    }

    /// Returns the reason why a pod of a Job does not run or has failed, in the pod's own words. The
    /// latest pod that has a reason counts: after a failure, the next pod begins without one.
    fn trouble(&mut self, job: &str) -> Result<Option<String>, End> {
        let pods = self.pods_of(job)?;
        Ok(pods.iter().find_map(|pod| self.trouble_of(pod)))
    }

    /// Reports whether the latest pod of a Job does not run or has failed.
    fn only_fails(&mut self, job: &str) -> Result<bool, End> {
        let pods = self.pods_of(job)?;
        let latest = pods.first();
        Ok(latest.is_some_and(|pod| self.trouble_of(pod).is_some()))
    }

    /// Returns the pods of a Job that are not being deleted, the latest first.
    fn pods_of(&mut self, job: &str) -> Result<Vec<Arc<Value>>, End> {
        let pods = told(
            Step::DbSync,
            self.world
                .selected(kinds::POD, &format!("batch.kubernetes.io/job-name={job}")),
        );
        let mut pods = self.take(Step::DbSync, pods.map(Option::unwrap_or_default))?;
        pods.retain(|pod| !Live::of(pod).is_being_deleted());
        pods.sort_by_cached_key(|pod| {
            let pod = Live::of(pod);
            Reverse((pod.created().map(str::to_owned), pod.name().to_owned()))
        });
        Ok(pods)
    }

    fn trouble_of(&self, pod: &Value) -> Option<String> {
        let view = PodView::of(pod)?;
        // A pod that has lost its sandbox has the trouble of its life before that, too.
        let by_events = view.is_starting.then(|| self.world.held_up(&view));
        let trouble = by_events
            .flatten()
            .or_else(|| last_words(pod))
            .or_else(|| view.trouble.clone())?;
        let who = view.human();
        Some(format!("{who}: {}: {}", trouble.reason, trouble.message))
    }

    /// The pods.
    pub(super) fn deployment(&mut self, inputs: &Inputs) -> Result<(), End> {
        let deployment = objects::deployment(self.config, inputs)
            .map_err(|error| Step::Deployment.fails(error).into());
        let deployment = self.take(Step::Deployment, deployment)?;
        let live = self.make(Step::Deployment, deployment)?;
        let selector = self
            .config
            .labels()
            .iter()
            .map(|(label, value)| format!("{label}={value}"))
            .collect::<Vec<_>>()
            .join(",");
        let pods = told(Step::Deployment, self.world.selected(kinds::POD, &selector))
            .map(Option::unwrap_or_default);
        let pods = self.take(Step::Deployment, pods)?;
        let is_observed = Live::of(&live).observed_generation() >= Live::of(&live).generation();
        if is_observed {
            let ready = live["status"]["readyReplicas"].as_i64().unwrap_or_default();
            self.assessment.found.ready_count = i32::try_from(ready).ok();
        }
        self.disclaim_topologies()?;
        self.attachments(&live, &pods);
        let views: Vec<_> = pods.iter().filter_map(|pod| PodView::of(pod)).collect();
        let explained = unexplained(&live, &views)
            .and_then(|pod| Some(pod.with_trouble(self.world.held_up(pod)?)));
        let views = with_causes(&views, explained.as_slice());
        let outcome = match rollout(&live, views, &[], self.now) {
            Rollout::Ready => Ok(()),
            Rollout::Stuck { message, .. } => Err(Step::Deployment.fails(message).into()),
            Rollout::Progressing { .. }
                if is_observed && let Some(why) = deadline_exceeded(&live) =>
            {
                Err(Step::Deployment.fails(why).into())
            }
            Rollout::Progressing { deadline: None, .. } => {
                Err(State::requested("Deployment in progress").into())
            }
            Rollout::Progressing { deadline, message } => {
                self.assessment.deadline = deadline;
                Err(State::requested(format!("Deployment in progress: {message}")).into())
            }
        };
        self.take(Step::Deployment, outcome)?;
        self.assessment
            .found
            .applied_hash
            .clone_from(&self.assessment.found.input_hash);
        self.done(Step::Deployment);
        // Nothing is registered that cannot be reached yet.
        if self
            .assessment
            .steps
            .get(Step::NetworkAttachments)
            .is_some_and(State::is_ready)
        {
            Ok(())
        } else {
            Err(End)
        }
    }
}

/// How a Job ended, if it has, and if badly, why.
fn ended(job: &Value) -> Option<Result<(), String>> {
    let mut conditions = job["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|condition| condition["status"] == "True");
    conditions.find_map(|condition| match condition["type"].as_str() {
        Some("Complete") => Some(Ok(())),
        Some("Failed") => Some(Err(condition["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned())),
        _ => None,
    })
}

/// Returns the Deployment's message if its pods are not ready before its deadline.
fn deadline_exceeded(deployment: &Value) -> Option<String> {
    let mut conditions = deployment["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let found = conditions.find(|condition| {
        condition["type"] == "Progressing" && condition["reason"] == "ProgressDeadlineExceeded"
    })?;
    Some(format!(
        "ProgressDeadlineExceeded: {}",
        found["message"].as_str().unwrap_or_default()
    ))
}
