#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn wanted() -> Wanted {
    let urls = [
        "http://placement-internal.cloud.svc:8778".to_owned(),
        "https://placement.example".to_owned(),
    ];
    Wanted {
        user: "placement".into(),
        password: "geheim".into(),
        region: None,
        urls,
    }
}

/// An answer with all that an answer to a creation has.
fn answer(change: &Change, number: usize) -> Value {
    let id = format!("id-{number}");
    match change {
        Change::CreateEndpoint {
            interface,
            region,
            url,
            ..
        } => {
            json!({
                "endpoint": {
                    "id": id, "interface": interface, "region_id": region, "url": url,
                    "enabled": true
                }
            })
        }
        _ => {
            json!({
                "project": {"id": id}, "user": {"id": id}, "role": {"id": id}, "service": {"id": id}
            })
        }
    }
}

fn next(wanted: &Wanted, found: &Found) -> Option<Change> {
    next_for_account(wanted, found).or_else(|| next_for_catalogue(wanted, found).unwrap())
}

/// All changes until nothing is left to do.
fn carried_out(
    wanted: &Wanted,
    found: &mut Found,
    next: impl Fn(&Wanted, &Found) -> Option<Change>,
) -> Vec<Change> {
    let mut changes = vec![];
    while let Some(change) = next(wanted, found) {
        assert!(changes.len() < 50, "no end: {changes:?}");
        found
            .learn(&change, &answer(&change, changes.len()))
            .unwrap();
        changes.push(change);
    }
    changes
}

fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

fn registered() -> Found {
    let mut found = Found {
        region: "RegionOne".into(),
        domain: "default".into(),
        ..Found::default()
    };
    found.roles("admin", &[json!({"id": "r-admin"})]).unwrap();
    carried_out(&wanted(), &mut found, next);
    found
}

#[test]
fn an_empty_keystone_gets_everything_in_order_and_then_nothing() {
    let mut found = Found {
        region: "RegionOne".into(),
        ..Found::default()
    };
    found.roles("admin", &[json!({"id": "r-admin"})]).unwrap();
    let changes = carried_out(&wanted(), &mut found, next);
    assert_eq!(
        told(&changes),
        [
            "project service created",
            "the service's user created",
            "role admin in project service given",
            "role service created",
            "role service in project service given",
            "service placement created",
            "internal endpoint http://placement-internal.cloud.svc:8778 in region RegionOne created",
            "public endpoint https://placement.example in region RegionOne created",
        ]
    );
    assert_eq!(next(&wanted(), &found), None);
}

#[test]
fn another_address_and_another_password_are_one_change_each() {
    let mut found = registered();
    let mut other = wanted();
    other.urls[1] = "https://elsewhere.example".into();
    found.knows_password = false;
    let changes = carried_out(&other, &mut found, next);
    assert_eq!(
        told(&changes),
        [
            "password of user placement changed",
            "public endpoint changed from https://placement.example to https://elsewhere.example"
        ]
    );
    let request = changes[0].request(&other, &found);
    assert_eq!(
        (
            request.method,
            request.body.unwrap()["user"]["password"].clone()
        ),
        ("PATCH", json!("geheim"))
    );
    assert!(
        !format!("{changes:?}{other:?}").contains("geheim"),
        "no password is shown"
    );
}

#[test]
fn a_disabled_entry_is_enabled_again() {
    let mut found = registered();
    found.user.as_mut().unwrap().enabled = false;
    found.service.as_mut().unwrap().enabled = false;
    found.endpoints[0].enabled = false;
    let changes = carried_out(&wanted(), &mut found, next);
    assert_eq!(changes.len(), 3, "{changes:?}");
}

#[test]
fn several_endpoints_where_one_is_meant_are_named() {
    let mut found = registered();
    let twin = Endpoint {
        id: "twin".into(),
        ..found.endpoints[0].clone()
    };
    found.endpoints.push(twin);
    let error = next_for_catalogue(&wanted(), &found)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Keystone has 2 internal endpoints of Placement in region RegionOne")
            && error.contains("twin"),
        "{error}"
    );
    // A removal takes both.
    let changes = carried_out(&wanted(), &mut found, next_to_remove);
    assert_eq!(changes.len(), 5, "{changes:?}");
}

#[test]
fn a_removal_keeps_what_serves_another_region() {
    let mut found = registered();
    let elsewhere = Endpoint {
        id: "elsewhere".into(),
        region: "RegionTwo".into(),
        ..found.endpoints[0].clone()
    };
    found.endpoints.push(elsewhere.clone());
    let changes = carried_out(&wanted(), &mut found, next_to_remove);
    assert_eq!(told(&changes).len(), 2, "{changes:?}");
    assert!(found.user.is_some() && found.service.is_some());
    assert_eq!(found.endpoints, [elsewhere]);
    let mut alone = registered();
    let changes = told(&carried_out(&wanted(), &mut alone, next_to_remove));
    assert_eq!(
        changes[2..],
        ["user placement deleted", "service placement deleted"]
    );
    assert!(alone.project.is_some());
}

#[test]
fn the_region_is_named_or_the_only_one() {
    let two = [json!({"id": "RegionOne"}), json!({"id": "RegionTwo"})];
    let mut found = Found::default();
    found.regions(&wanted(), &two[..1]).unwrap();
    assert_eq!(found.region, "RegionOne");
    let error = found.regions(&wanted(), &two).unwrap_err().to_string();
    assert!(error.contains("RegionOne, RegionTwo"), "{error}");
    let asked = Wanted {
        region: Some("Three".into()),
        ..wanted()
    };
    let error = found.regions(&asked, &two).unwrap_err().to_string();
    assert!(
        error.contains("\"Three\"") && error.contains("spec.keystone.external.region"),
        "{error}"
    );
    found
        .regions(
            &Wanted {
                region: Some("RegionTwo".into()),
                ..wanted()
            },
            &two,
        )
        .unwrap();
    assert_eq!(found.region, "RegionTwo");
}

#[test]
fn names_are_encoded_in_paths() {
    let odd = Wanted {
        user: "a b&domain_id=x".into(),
        ..wanted()
    };
    assert_eq!(
        user_query(&odd, "default").0,
        "/users?name=a%20b%26domain_id%3Dx&domain_id=default"
    );
}

proptest! {
    /// Wherever it begins, it ends, and then there is nothing left to do, and a removal leaves
    /// nothing of this region.
    #[test]
    fn it_always_ends(
        has in prop::array::uniform8(any::<bool>()),
        interfaces in prop::sample::subsequence(vec![("internal", "RegionOne"), ("public", "RegionOne"), ("admin", "RegionOne"), ("public", "Two")], 0..=4),
    ) {
        let wanted = wanted();
        let [project, user, enabled, knows_password, admin, service_role, granted, service] = has;
        let text = |is: bool, text: &str| is.then(|| text.to_owned());
        let mut found = Found {
            project: text(project, "p"),
            user: user.then(|| User { id: "u".into(), enabled }),
            knows_password,
            service: service.then(|| Service { id: "s".into(), enabled }),
            region: "RegionOne".into(),
            ..Found::default()
        };
        for (role, there) in ROLES.iter().zip([admin, service_role]) {
            if there {
                found.roles.insert((*role).to_owned(), (*role).to_owned());
            }
        }
        if granted {
            found.granted.insert("admin".into());
        }
        for (index, (interface, region)) in interfaces.iter().enumerate() {
            let (id, interface, region) = (format!("e{index}"), (*interface).to_owned(), (*region).to_owned());
            found.endpoints.push(Endpoint { id, interface, region, url: "http://old".into(), enabled });
        }
        let foreign = found.endpoints.iter().filter(|one| one.region != "RegionOne" || one.interface == "admin").cloned().collect::<Vec<_>>();
        carried_out(&wanted, &mut found, next);
        prop_assert_eq!(next(&wanted, &found), None);
        prop_assert!(foreign.iter().all(|one| found.endpoints.contains(one)), "others' endpoints stay as they are");
        carried_out(&wanted, &mut found, next_to_remove);
        prop_assert_eq!(&found.endpoints, &foreign);
        prop_assert_eq!(found.user.is_none() && found.service.is_none(), foreign.is_empty());
    }
}
