//! Another password and an application credential while requests go on, from the user's Secret to
//! the pods: they are replaced as the Deployment says.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join3;
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::services::{DATABASE_PORT, Keystone, MariaDb, Site};

use crate::with_services::placement_life::{
    DATABASE, PASSWORD,
    cluster::{
        NAMESPACE, get, placement_api, secret, secret_for, start_without_nodes, wait, wait_gone,
        wait_ready,
    },
    harness::*,
    kubelet::Kubelet,
    registry::{application_credential, lets_in, registered},
};

/// The number of processes of a pod that answer at an endpoint. Each remembers for some minutes
/// which tokens Keystone has confirmed.
const PROCESSES: usize = 3;

/// Requests of clients of Placement.
struct Load<'a> {
    kubelet: &'a Kubelet<'a>,
    keystone: &'a Keystone,
    good: AtomicUsize,
    /// Status and body.
    bad: Mutex<Vec<(u16, String)>>,
}

impl Load<'_> {
    /// One after the other with the same token, for ever.
    async fn with(&self, token: &str) {
        loop {
            self.ask(token).await;
        }
    }

    /// One after the other, each with a token that no pod has seen.
    async fn with_new_tokens(&self) {
        loop {
            self.ask(&token(self.keystone).await).await;
        }
    }

    async fn ask(&self, token: &str) {
        match self
            .kubelet
            .next()
            .get("/resource_providers", &[&format!("x-auth-token: {token}")])
            .await
            .unwrap()
        {
            (200, _) => {
                self.good.fetch_add(1, Ordering::Relaxed);
            }
            other => self.bad.lock().unwrap().push(other),
        }
    }

    /// Waits until some more are answered.
    async fn goes_on(&self) {
        let before = self.good.load(Ordering::Relaxed);
        wait_until("requests are answered", async || {
            let now = self.good.load(Ordering::Relaxed);
            if now >= before + 10 {
                Ok(())
            } else {
                Err(format!("{now} good, bad {:?}", self.bad.lock().unwrap()))
            }
        })
        .await;
    }

    fn check(&self) {
        let bad = self.bad.lock().unwrap();
        assert!(
            bad.is_empty(),
            "{} good, {} bad: {:?}",
            self.good.load(Ordering::Relaxed),
            bad.len(),
            bad.first()
        );
    }
}

async fn token(keystone: &Keystone) -> String {
    let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
    keystone
        .token("admin", keystone.admin_password(), &scope)
        .await
        .unwrap()
}

/// Waits until all pods run with something else than before, which no request has noticed.
async fn wait_replaced(cluster: &Cluster, kubelet: &Kubelet<'_>, before: &[String]) -> Value {
    wait_until("other pods serve", async || {
        let now = kubelet.pods();
        if now.len() == 1 && now != before {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    wait(cluster, "all pods run with it", |live| {
        let status = &live["status"];
        status["hash"]["input"] == status["appliedInputSecretHash"]
            && condition(status, "Ready")["status"] == "True"
    })
    .await
}

#[tokio::test]
async fn every_request_succeeds_while_password_and_credential_are_replaced() {
    let site = Site::start(&[DATABASE]).unwrap();
    let database = MariaDb::start(&site).await.unwrap();
    database
        .create("placement", "placement", PASSWORD)
        .await
        .unwrap();
    let keystone = Keystone::start(&site, &database).await.unwrap();
    let cluster = start_without_nodes().await;
    let _operator = Operator::start_default(&cluster).await;
    let kubelet = Kubelet::new(&cluster, &site, [DATABASE_PORT, keystone.port()]);
    tokio::select! {
        () = life(&cluster, &keystone, &kubelet) => {}
        never = kubelet.run() => match never {},
    }
}

async fn life(cluster: &Cluster, keystone: &Keystone, kubelet: &Kubelet<'_>) {
    let before = registered(keystone).await;
    secret_for(
        &keystone.url(),
        cluster,
        "placement-secret",
        &[("PlacementPassword", "first")],
    )
    .await;
    secret(
        cluster,
        "placement-db",
        &[("username", "placement"), ("password", PASSWORD)],
    )
    .await;
    secret_for(
        &keystone.url(),
        cluster,
        "keystone-admin",
        &[
            ("username", "admin"),
            ("password", keystone.admin_password()),
        ],
    )
    .await;
    let spec = json!({
        "secret": "placement-secret",
        "database": {"host": DATABASE, "credentialsSecret": {"name": "placement-db"}},
        "keystone": {
            "external": {"authURL": keystone.url()}, "registration": "Direct",
            "adminSecret": {"name": "keystone-admin"}
        },
    });
    cluster.apply(&placement_api(&spec)).await;
    wait_ready(cluster).await;
    let token = token(keystone).await;
    let load = Load {
        kubelet,
        keystone,
        good: AtomicUsize::new(0),
        bad: Mutex::default(),
    };
    tokio::select! {
        () = changes(cluster, &load) => {}
        _ = join3(load.with(&token), load.with(&token), load.with(&token)) => {}
    }
    load.check();

    cluster
        .delete(kinds::PLACEMENT_API, NAMESPACE, "placement")
        .await;
    wait_gone(cluster).await;
    let after = registered(keystone).await;
    let left: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(
        left,
        ["projects \"service\""],
        "the project is that of all services"
    );
    assert!(before.iter().all(|line| after.contains(line)), "{after:#?}");
    let credential = get(cluster, kinds::SECRET, "placement-ac").await.unwrap();
    assert_eq!(
        credential["metadata"]["finalizers"],
        Value::Null,
        "it is the user's again"
    );
    wait_until("no pod is left", async || {
        if kubelet.pods().is_empty() {
            Ok(())
        } else {
            Err(format!("{:?}", kubelet.pods()))
        }
    })
    .await;
}

async fn changes(cluster: &Cluster, load: &Load<'_>) {
    let Load {
        kubelet, keystone, ..
    } = load;
    // Until then a pod asks Keystone who the client is, as which it has to log in itself: between
    // the change there and its end it could not.
    wait_until("all processes of the pod know the client", async || {
        let log = keystone.log();
        if log.matches("\"GET /v3/auth/tokens HTTP").count() >= PROCESSES {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    load.goes_on().await;
    let pods = kubelet.pods();
    secret_for(
        &load.keystone.url(),
        cluster,
        "placement-secret",
        &[("PlacementPassword", "second")],
    )
    .await;
    wait_replaced(cluster, kubelet, &pods).await;
    load.goes_on().await;
    assert!(lets_in(keystone, "second").await && !lets_in(keystone, "first").await);

    let (id, value) = application_credential(keystone, "second").await;
    secret(
        cluster,
        "placement-ac",
        &[("AC_ID", &id), ("AC_SECRET", &value)],
    )
    .await;
    let pods = kubelet.pods();
    let auth = json!({"spec": {"auth": {"applicationCredentialSecret": "placement-ac"}}});
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", auth)
        .await;
    let live = wait_replaced(cluster, kubelet, &pods).await;
    assert_eq!(
        live["status"]["applicationCredentialSecret"],
        "placement-ac"
    );
    load.goes_on().await;

    // Pods that do not need the password are not replaced for another one, and let in whom they
    // have never seen.
    let pods = kubelet.pods();
    let rotation = async {
        load.goes_on().await;
        secret_for(
            &load.keystone.url(),
            cluster,
            "placement-secret",
            &[("PlacementPassword", "third")],
        )
        .await;
        wait_until("Keystone knows it", async || {
            if lets_in(keystone, "third").await {
                Ok(())
            } else {
                Err("no".into())
            }
        })
        .await;
        load.goes_on().await;
        wait_ready(cluster).await;
    };
    tokio::select! {
        () = rotation => {}
        () = load.with_new_tokens() => {}
    }
    assert_eq!(kubelet.pods(), pods);
}
