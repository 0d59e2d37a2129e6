//! The examples of the page about the network work: each as it stands, one after the other, each
//! forced over the one before as a reader would do it.

use serde_json::Value;

use super::{NAMESPACE, RECORD, holds, record, start};
use weft_system_tests::*;

#[tokio::test]
async fn every_example_of_the_page_about_the_network_becomes_available() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/cluster-network.md"
    ))
    .unwrap();
    let examples: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(
        examples.len() >= 7,
        "only {} examples were found: is this test still reading the page?",
        examples.len()
    );

    let cluster = start().await;
    let definition = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../components/network-attachment-definition/crd.yaml"
    ))
    .unwrap();
    cluster.apply(&definition).await;
    let _operator = Operator::start_default(&cluster).await;
    for example in examples {
        cluster
            .kubectl(&[
                "-n",
                NAMESPACE,
                "delete",
                "configmap",
                RECORD,
                "--ignore-not-found",
            ])
            .await;
        // kubectl refuses fields that are in no schema.
        cluster.apply(example).await;
        let resource = cluster.wait_available().await;
        let wanted = serde_saphyr::from_str::<Value>(example).unwrap();
        assert_eq!(
            resource["spec"], wanted["spec"],
            "the API server keeps every field"
        );
        let effective = &resource["status"]["effectiveConfiguration"];
        let of_example = &wanted["spec"]["defaultNetwork"];
        assert!(
            holds(&effective["defaultNetwork"], of_example),
            "{effective:#}\n{example}"
        );
        let networks = resource["status"]["additionalNetworks"]
            .as_array()
            .map_or(0, Vec::len);
        assert_eq!(
            networks,
            wanted["spec"]["additionalNetworks"]
                .as_array()
                .map_or(0, Vec::len),
            "{:#}",
            resource["status"]
        );
        wait_until("the record is that of the example", async || {
            let record = record(&cluster).await;
            if !record.is_null() && holds(effective, &record) {
                Ok(())
            } else {
                Err(format!("{record:#}"))
            }
        })
        .await;
    }
}
