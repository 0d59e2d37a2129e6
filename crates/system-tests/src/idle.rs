//! An operator that has nothing left to do.

use std::collections::BTreeMap;

use weft_testenv::{
    proxy::{Proxy, Recorded},
    wait::{PATIENCE, wait_until},
};

/// Waits until the operator has done its last work (status, events, new watches). Fails if the
/// operator then sends any other request until it has renewed one of its Leases this many times.
///
/// An operator renews one Lease for each of its domains, at about the same time. So the renewals of
/// several Leases say nothing about the time between them.
pub async fn operator_is_idle(proxy: &Proxy, during: &str, renewals: usize) {
    let others = || {
        let mut others = proxy.requests();
        others.retain(|request| !is_lease(request) && request.info.verb != "watch");
        others
            .iter()
            .map(|request| {
                format!(
                    "{} {} {:?}",
                    request.info.verb, request.info.path, request.code
                )
            })
            .collect::<Vec<_>>()
    };
    let renewed = async |times: usize| {
        proxy.clear();
        let enough = |requests: &[Recorded]| most_renewals(requests) >= times;
        proxy.wait_for(PATIENCE, enough).await.unwrap();
    };
    wait_until(
        &format!("the operator sends nothing between two renewals of a Lease during {during}"),
        async || {
            renewed(2).await;
            if others().is_empty() {
                Ok(())
            } else {
                Err(format!("{:#?}", others()))
            }
        },
    )
    .await;
    renewed(renewals).await;
    assert!(
        others().is_empty(),
        "requests during {during}: {:#?}",
        others()
    );
}

fn is_lease(request: &Recorded) -> bool {
    request.info.resource == "leases"
}

/// How often the operator has renewed the Lease that it has renewed most often.
fn most_renewals(requests: &[Recorded]) -> usize {
    let mut renewals = BTreeMap::new();
    for request in requests.iter().filter(|request| is_lease(request)) {
        *renewals.entry(&request.info.path).or_insert(0) += 1;
    }
    renewals.into_values().max().unwrap_or_default()
}
