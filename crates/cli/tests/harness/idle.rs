//! An operator that has nothing left to do.

use weft_testenv::{
    proxy::{Proxy, Recorded},
    wait::{PATIENCE, wait_until},
};

/// Waits until the operator has done its last work (status, events, new watches). Fails if the
/// operator then sends any request other than this many renewals of its Leases.
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
        let enough = |requests: &[Recorded]| {
            requests.iter().filter(|request| is_lease(request)).count() >= times
        };
        proxy.wait_for(PATIENCE, enough).await.unwrap();
    };
    wait_until(
        &format!("the operator sends nothing between two renewals of the Lease during {during}"),
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
