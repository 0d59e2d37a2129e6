//! With a Keystone, which takes half a minute to be there.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_operator::keystone::{
    Keystone,
    registration::{account, catalogue, remove},
};
use weft_placement::registration::{Access, Change, Wanted};

use crate::with_services::keystone::cloud::{Cloud, PASSWORD, at, wanted};

fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

/// Of everything in Keystone, what one has and the other has not, or has otherwise.
fn beside(all: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>) -> Vec<String> {
    all.iter()
        .filter(|(id, one)| before.get(*id) != Some(one))
        .map(|(id, _)| id.split('/').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_registration_is_kept_in_order_and_removed_without_a_trace() {
    let mut cloud = Cloud::start().await;
    cloud.others().await;
    let before = cloud.everything().await;
    let (keystone, wanted) = (cloud.client(), wanted());

    let changes = account(&keystone, &wanted).await.unwrap();
    // The roles are there in every Keystone that was bootstrapped. The project is not.
    assert_eq!(
        told(&changes),
        [
            "project service created",
            "the service's user created",
            "role admin in project service given",
            "role service in project service given"
        ]
    );
    assert!(cloud.lets_in("placement", PASSWORD).await);
    assert_eq!(catalogue(&keystone, &wanted).await.unwrap().len(), 3);
    let registered = cloud.everything().await;
    let mut added = beside(&registered, &before);
    added.sort();
    assert_eq!(
        added,
        [
            "endpoints",
            "endpoints",
            "projects",
            "role_assignments",
            "role_assignments",
            "services",
            "users"
        ]
    );

    // Again, also by an operator that has just been started: nothing is written.
    let writes = cloud.writes().len();
    assert!(writes > 0, "the log of Keystone has requests");
    for client in [&keystone, &cloud.client()] {
        assert_eq!(account(client, &wanted).await.unwrap(), []);
        assert_eq!(catalogue(client, &wanted).await.unwrap(), []);
    }
    assert_eq!(cloud.writes()[writes..], Vec::<String>::new());

    // Another address: the same endpoint leads there.
    let mut elsewhere = wanted.clone();
    elsewhere.urls[1] = "https://placement.example".into();
    let changes = catalogue(&keystone, &elsewhere).await.unwrap();
    assert_eq!(
        told(&changes),
        [
            "public endpoint changed from http://placement-public.cloud.svc:8778 to https://placement.example"
        ]
    );
    assert_eq!(
        beside(&cloud.everything().await, &registered),
        ["endpoints"]
    );

    // Another password: Keystone knows one, the new one.
    let rotated = Wanted {
        password: "another".into(),
        ..elsewhere.clone()
    };
    assert_eq!(
        told(&account(&keystone, &rotated).await.unwrap()),
        ["password of user placement changed"]
    );
    assert_eq!(
        (
            cloud.lets_in("placement", PASSWORD).await,
            cloud.lets_in("placement", "another").await
        ),
        (false, true)
    );
    assert_eq!(account(&keystone, &rotated).await.unwrap(), []);

    // Keystone's keys are changed, so that it knows no token any more: another one is asked for.
    std::fs::remove_file(cloud.site.dir().join("keystone/keys/fernet/1")).unwrap();
    std::fs::write(
        cloud.site.dir().join("keystone/keys/fernet/1"),
        "bmV3a2V5bmV3a2V5bmV3a2V5bmV3a2V5bmV3a2V5bmU=",
    )
    .unwrap();
    cloud.keystone.stop();
    cloud.keystone.resume().await.unwrap();
    assert_eq!(catalogue(&keystone, &elsewhere).await.unwrap(), []);

    // In another region, the same service has endpoints of its own: user and service stay until the
    // last has gone.
    let two = Wanted {
        region: Some("RegionTwo".into()),
        ..rotated.clone()
    };
    assert_eq!(catalogue(&keystone, &two).await.unwrap().len(), 2);
    assert_eq!(remove(&keystone, &two).await.unwrap().len(), 2);
    assert!(cloud.lets_in("placement", "another").await);

    let removed = remove(&keystone, &rotated).await.unwrap();
    assert_eq!(
        told(&removed)[2..],
        ["user placement deleted", "service placement deleted"]
    );
    let after = cloud.everything().await;
    assert_eq!(
        beside(&after, &before),
        ["projects"],
        "the project is that of all services"
    );
    assert_eq!(
        beside(&before, &after),
        Vec::<String>::new(),
        "what was there is as it was"
    );
    assert_eq!(remove(&keystone, &rotated).await.unwrap(), []);
}

#[tokio::test]
async fn errors_are_reported_without_a_password() {
    let mut cloud = Cloud::start().await;
    let wanted = wanted();
    let error = async |access: Access| {
        let error = account(&Keystone::new(access).unwrap(), &wanted)
            .await
            .unwrap_err();
        (error.to_string(), format!("{:?}", error.class()))
    };
    let (said, class) = error(Access {
        password: "wr0ng".into(),
        ..cloud.access()
    })
    .await;
    assert!(said.contains("does not let in the administrator of domain Default to administer it (scope system): 401"), "{said}");
    assert!(
        said.contains(&cloud.keystone.url()) && !said.contains("wr0ng") && class == "Forbidden",
        "{said} {class}"
    );

    // Somebody without the role.
    cloud
        .create(
            "user",
            "/users",
            json!({"name": "nova", "domain_id": "default", "password": "nova-secret"}),
        )
        .await;
    let (said, _) = error(Access {
        user: "nova".into(),
        password: "nova-secret".into(),
        ..cloud.access()
    })
    .await;
    assert!(
        said.contains("the administrator") && !said.contains("nova"),
        "{said}"
    );

    // Requests that Keystone refuses.
    let too_long = Wanted {
        user: "n".repeat(300),
        ..wanted.clone()
    };
    let said = account(&cloud.client(), &too_long)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("refuses GET /users?name=nnn") && said.contains(": 400 "),
        "{said}"
    );

    let nowhere = Wanted {
        region: Some("Nowhere".into()),
        ..wanted.clone()
    };
    let said = catalogue(&cloud.client(), &nowhere)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        said.contains(
            "spec.keystone.external.region: Keystone has no region \"Nowhere\", it has RegionOne"
        ),
        "{said}"
    );

    // TLS where there is none, and an address that is none of Keystone's.
    let plain = cloud.access().keystone.to().to_string();
    let (said, _) = error(Access {
        keystone: at(&plain.replace("http:", "https:")),
        ..cloud.access()
    })
    .await;
    assert!(said.starts_with("POST /auth/tokens at https://"), "{said}");
    let (said, class) = error(Access {
        keystone: at(&format!("{plain}/v3/users")),
        ..cloud.access()
    })
    .await;
    assert!(
        said.contains("/v3/users/v3") && class == "Forbidden" || class == "Invalid",
        "{said} {class}"
    );

    cloud.keystone.stop();
    let (said, class) = error(cloud.access()).await;
    assert!(
        said.contains("is this the address, and does Keystone run?") && class == "Transient",
        "{said} {class}"
    );
    cloud.keystone.resume().await.unwrap();
    account(&cloud.client(), &wanted).await.unwrap();
}
