//! An operator that has nothing left to do.

use weft_testenv::proxy::{Proxy, Recorded};

use crate::harness::*;

/// How many renewals of the Lease count as idle.
const RENEWALS: usize = 6;

/// Waits until the operator is done, and fails if it then does more than to renew its Lease.
pub async fn wait(proxy: &Proxy) {
    let others = || -> Vec<_> {
        let all = proxy.requests().into_iter();
        all.filter(|request| !is_lease(request) && request.info.verb != "watch")
            .map(|request| format!("{} {}", request.info.verb, request.info.path))
            .collect()
    };
    let renewed = async |times: usize| {
        proxy.clear();
        let enough = |all: &[Recorded]| all.iter().filter(|one| is_lease(one)).count() >= times;
        proxy.wait_for(PATIENCE, enough).await.unwrap();
    };
    wait_until("the operator asks and writes nothing", async || {
        renewed(2).await;
        if others().is_empty() {
            Ok(())
        } else {
            Err(format!("{:#?}", others()))
        }
    })
    .await;
    renewed(RENEWALS).await;
    assert_eq!(
        others(),
        Vec::<String>::new(),
        "requests of an idle operator"
    );
}

fn is_lease(request: &Recorded) -> bool {
    request.info.resource == "leases"
}
