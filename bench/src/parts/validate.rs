//! From the files of a repository to the verdict about each of their objects, without a cluster, by
//! `weft validate`. The lower bound is a YAML parser that reads the same documents.

use std::{ffi::OsStr, fs, hint::black_box, time::Instant};

use anyhow::Result;
use serde_json::Value;

use super::offline::{Folder, run};
use crate::{
    figure::{Figure, Unit},
    lab::Setup,
};

/// How many small policies one file has.
const POLICIES: usize = 1000;
/// How many files a folder has. Weft serves the kind of every third one.
const FILES: usize = 930;

pub fn measure(setup: &Setup) -> Result<Vec<Figure>> {
    let folder = Folder::new("validate")?;
    let policies: Vec<String> = (0..POLICIES).map(policy).collect();
    let file = folder.0.join("policies.yaml");
    fs::write(&file, policies.join("---\n"))?;
    let repository = folder.0.join("repository");
    fs::create_dir_all(&repository)?;
    let files: Vec<String> = (0..FILES)
        .map(|number| match number % 3 {
            0 => policy(number),
            1 => deployment(number),
            _ => network(number),
        })
        .collect();
    for (number, text) in files.iter().enumerate() {
        fs::write(repository.join(format!("{number:04}.yaml")), text)?;
    }
    let mut figures = Vec::new();
    for (what, path, documents, at_most) in [
        (
            format!("validate {POLICIES} small policies"),
            &file,
            &policies,
            0.5,
        ),
        (
            format!("validate a folder of {FILES} files"),
            &repository,
            &files,
            1.0,
        ),
    ] {
        let arguments = [OsStr::new("validate"), OsStr::new("-f"), path.as_os_str()];
        let seconds = run(&setup.weft, &arguments, 0)?.seconds;
        figures.push(
            Figure::new(what, Unit::Seconds, seconds)
                .at_most(at_most)
                .lower_bound(reading(documents)?)
                .note("a YAML parser reads the documents"),
        );
    }
    Ok(figures)
}

/// Returns how many seconds a parser takes for these documents.
fn reading(documents: &[String]) -> Result<f64> {
    let start = Instant::now();
    for document in documents {
        let _: Value = black_box(serde_saphyr::from_str(document)?);
    }
    Ok(start.elapsed().as_secs_f64())
}

fn policy(number: usize) -> String {
    let (high, low) = (number / 250, number % 250 + 1);
    format!(
        "apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata:
  name: node-{number}
spec:
  nodeSelector:
    kubernetes.io/hostname: node-{number}
  desiredState:
    interfaces:
    - name: eth1
      type: ethernet
      state: up
      ipv4:
        enabled: true
        address:
        - ip: 10.0.{high}.{low}
          prefix-length: 16
"
    )
}

fn deployment(number: usize) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{number}
  namespace: web
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web-{number}
  template:
    metadata:
      labels:
        app: web-{number}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        ports:
        - containerPort: 8080
"
    )
}

fn network(number: usize) -> String {
    format!(
        "apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: net-{number}
spec:
  config: '{{\"cniVersion\": \"1.0.0\", \"type\": \"bridge\", \"bridge\": \"br{number}\"}}'
"
    )
}
