//! The NodeNetworkStates of the API's first form, `examples/node-network/early`, on hosts of the
//! names that stand in them.

use std::path::Path;

use serde_json::{Value, json};
use weft_testenv::host_lab::{Capability, HostLab, Installation, capabilities};

use crate::on_hosts::agent::support::{
    Halt, addresses, condition, interface, link, wait_reported, wait_until,
};

fn document(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/node-network/early")
        .join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Waits until the agent says this of the latest generation of a host's state, and returns the
/// object.
async fn told(weft: &Installation, host: &str, phase: &str) -> Value {
    wait_until(&format!("the state of {host} is {phase}"), async || {
        let state = weft
            .get("nns", host)
            .await
            .map_err(|error| error.to_string())?
            .ok_or("it is not there")?;
        let is_current = state["status"]["observedGeneration"] == state["metadata"]["generation"];
        let holds = is_current && condition(&state, phase)["status"] == "True";
        if holds {
            Ok(state)
        } else {
            Err(format!("{:#}", state["status"]["conditions"]))
        }
    })
    .await
}

#[tokio::test]
async fn states_of_the_first_form_are_carried_out() {
    let weft = Installation::start(HostLab::builder().hosts(2).prefix("node0"))
        .await
        .unwrap();
    let host = weft.host("node01").unwrap();

    // The document asks for nothing, and the status in it is of another host, so it must not count.
    let first = document("state.yaml").to_string();
    // The agent makes the object, too. Where it is quicker by a moment, kubectl has just seen that
    // there is none, and fails.
    wait_until("the document is applied", async || {
        weft.apply(&first)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
    let reported = told(&weft, "node01", "Available").await;
    assert_eq!(
        (&reported["spec"]["managed"], &reported["spec"]["nodeName"]),
        (&json!(true), &json!("node01"))
    );
    assert_eq!(
        interface(&reported["status"]["currentState"], "eth0")["ipv4"]["address"][0]["ip"],
        "172.31.0.11"
    );
    assert_eq!(
        (addresses(host, "eth0").await, addresses(host, "eth1").await),
        (vec!["172.31.0.11".to_owned()], vec![])
    );

    let mut desired = document("state-desired.yaml");
    weft.apply(&desired.to_string()).await.unwrap();
    let lacking = capabilities::lacking(&[Capability::EthernetCards]);
    if !lacking.is_empty() {
        // Speed and duplex are a real card's, and nothing is done by halves. Without them the rest
        // is carried out.
        capabilities::skip("state-desired.yaml", &lacking);
        let state = told(&weft, "node01", "Failing").await;
        let message = condition(&state, "Failing")["message"]
            .as_str()
            .unwrap_or_default();
        assert!(message.contains("interfaces[eth1].ethernet"), "{message}");
        assert!(addresses(host, "eth1").await.is_empty(), "it is taken back");
        desired["spec"]["desiredState"]["interfaces"][0]
            .as_object_mut()
            .unwrap()
            .remove("ethernet")
            .unwrap();
        weft.apply(&desired.to_string()).await.unwrap();
    }
    told(&weft, "node01", "Available").await;
    wait_until(
        "eth1 has a lease, and the addresses of the document",
        async || {
            let eth1 = link(host, "eth1").await;
            let infos = eth1["addr_info"].as_array().cloned().unwrap_or_default();
            let locals: Vec<_> = infos
                .iter()
                .filter_map(|info| info["local"].as_str())
                .collect();
            let has = |beginning: &str| locals.iter().any(|local| local.starts_with(beginning));
            if has("172.31.1.1") && has("192.0.2.2") && has("2001:db8::1:1") {
                Ok(())
            } else {
                Err(format!("{eth1:#}"))
            }
        },
    )
    .await;

    let mut spelled = document("state-spellings.yaml");
    let lacking = capabilities::lacking(&[Capability::Link("bond"), Capability::Link("vlan")]);
    if !lacking.is_empty() {
        // A property that is not specific to bonds exists on bridges as well.
        capabilities::skip("state-spellings.yaml", &lacking);
        let interfaces = spelled["spec"]["desiredState"]["interfaces"]
            .as_array_mut()
            .unwrap();
        interfaces.truncate(1);
        interfaces[0]["type"] = "linux-bridge".into();
        interfaces[0]
            .as_object_mut()
            .unwrap()
            .remove("linkaggregation")
            .unwrap();
    }
    let host = weft.host("node02").unwrap();
    let hold = Halt::at(host, "Apply");
    weft.apply(&spelled.to_string()).await.unwrap();
    hold.reached().await;
    let state = weft.get("nns", "node02").await.unwrap().unwrap();
    assert_ne!(
        state["status"]["observedGeneration"], state["metadata"]["generation"],
        "it is not so yet: {:#}",
        state["status"]["conditions"]
    );
    drop(hold);
    told(&weft, "node02", "Available").await;
    let bond = link(host, "bond1").await;
    assert_eq!(bond["address"], "02:00:00:00:01:01");
    wait_reported(&weft, "node02", "bond1", |bond| {
        bond["ipv6"]["autoconf"] == true && bond["ipv6"]["dhcp"] == true
    })
    .await;
    if lacking.is_empty() {
        let vlan = link(host, "bond1.101").await;
        assert_eq!(
            (&vlan["link"], &vlan["linkinfo"]["info_data"]["id"]),
            (&json!("bond1"), &json!(101))
        );
        assert_eq!(bond["linkinfo"]["info_kind"], "bond");
        for port in ["eth1", "eth2"] {
            assert_eq!(link(host, port).await["master"], "bond1");
        }
    }
}
