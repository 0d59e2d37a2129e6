//! The API server's warnings to the operator.

use weft_testenv::proxy::{Match, Proxy};

use super::cluster::Cluster;

/// Fails if the API server has warned the operator about one of the requests that the proxy has
/// recorded. Only for tests in which the operator writes no deprecated value of a user.
pub fn assert_not_warned(cluster: &Cluster, proxy: &Proxy) {
    let of_operator = Match::any().user(&cluster.operator_user());
    let writes = of_operator.clone().writes();
    assert!(
        proxy
            .requests()
            .iter()
            .any(|request| writes.selects(&request.info)),
        "the proxy has recorded no write of the operator"
    );
    let warnings = proxy.warnings(&of_operator);
    assert!(warnings.is_empty(), "{warnings:#?}");
}
