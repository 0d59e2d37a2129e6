//! The examples of the page about the add-ons work: each as it stands, one after the other, as a
//! reader would apply them.

use serde_json::Value;

use weft_system_tests::*;

#[tokio::test]
async fn every_example_of_the_page_about_the_add_ons_becomes_available() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/addons.md"))
            .unwrap();
    let examples: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(
        examples.len() >= 15,
        "only {} examples were found: is this test still reading the page?",
        examples.len()
    );

    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    for example in examples {
        // An example without KubeMacPool removes what its certificate manager has made.
        cluster.play_kubemacpool().await;
        // kubectl refuses fields that are in no schema.
        cluster.apply(example).await;
        let documents = serde_saphyr::from_multiple::<Value>(example).unwrap();
        let Some(configuration) = documents
            .iter()
            .find(|document| document["kind"] == "NetworkAddonsConfig")
        else {
            continue;
        };

        let resource = cluster.wait_available().await;
        assert_eq!(
            resource["spec"], configuration["spec"],
            "the API server keeps every field"
        );
        let components = resource["status"]["components"].as_array().unwrap();
        for component in components {
            assert_eq!(
                (&component["state"], component.get("message")),
                (&"Available".into(), None),
                "{example}\n{component:#}"
            );
        }
        let add_ons = configuration["spec"]
            .as_object()
            .unwrap()
            .keys()
            .filter(|field| !OPTIONS.contains(&field.as_str()));
        for add_on in add_ons {
            assert!(
                components
                    .iter()
                    .any(|component| component["name"] == *add_on),
                "{add_on} is not deployed: {components:#?}"
            );
        }
    }
}

/// Fields of the spec that are no add-ons.
const OPTIONS: [&str; 11] = [
    "driftPolicy",
    "hostPaths",
    "imagePullPolicy",
    "imagePullSecrets",
    "imageRegistry",
    "images",
    "operatorLogLevel",
    "placementConfiguration",
    "resources",
    "selfSignConfiguration",
    "tlsSecurityProfile",
];
