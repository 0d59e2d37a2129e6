//! The behaviours in placement-operator's own tests, each as a function with the original name, as
//! far as that is a valid name, and the behaviours that those tests leave open. Where Weft differs
//! on purpose, `docs/compatibility/placement-api.md` has the reason, and the function says what
//! Weft does instead.
//!
//! Each has a namespace of its own on one control plane. The other operators are played by writing
//! into the status of their objects.

mod admission;
mod created;
mod credential;
mod database;
mod deployed;
mod examples;
mod mariadb;
mod networks;
mod reconfigured;
mod registration;
mod rollout;
mod takeover;
mod topology;

use std::panic::AssertUnwindSafe;

use futures::{FutureExt, StreamExt, future::LocalBoxFuture};
use weft_testenv::{Pods, Stage, Stuck, played, proxy::Proxy};

use super::{everywhere, site::Site};
use weft_system_tests::*;

/// Pods with this image never become ready.
pub const UNREADY: &str = "registry.test/unready";
/// How many run at once.
const AT_ONCE: usize = 6;

type Behaviour = (
    &'static str,
    for<'a> fn(&'a Site<'a>) -> LocalBoxFuture<'a, ()>,
);

/// Functions with their names.
macro_rules! behaviours {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($name)), |site| Box::pin($module::$name(site)))),+),+]
    };
}

/// All behaviours.
const BEHAVIOURS: &[Behaviour] = behaviours! {
    created: should_have_the_spec_fields_defaulted, should_have_the_status_fields_initialized, should_have_a_finalizer,
        should_not_create_a_config_map, should_have_input_not_ready_and_unknown_conditions_initialized, reports_that_input_is_not_ready,
        should_have_input_ready, should_not_create_a_config_map_with_the_secret;
    database: creates_mariadb_database, should_have_config_ready, should_create_a_configuration_secret,
        should_set_region_name_in_keystone_authtoken_section, creates_service_account_and_on_openshift_role_and_rolebinding;
    registration: creates_keystone_service, creates_keystone_endpoint, overridden_services_are_registered_as_they_are, creates_loadbalancer_service,
        an_endpoint_url_is_registered_verbatim, a_load_balancer_without_an_address_is_waited_for, keystone_may_come_later_and_twice_is_refused,
        leaves_the_registration_to_keystone_operator;
    deployed: runs_db_sync, creates_deployment, exposes_the_service, reports_ready_when_successfully_deployed, starts_zero_replicas,
        creates_deployment_with_ca_and_service_certs_mounted, probes_follow_the_timeout_and_overrides;
    rollout: shows_the_deployment_progressing, tells_that_a_rollout_hits_its_deadline, reaches_ready_when_deployment_rollout_finished,
        removes_the_finalizers_when_deleted, is_deleted_where_the_account_is_missing, goes_with_its_namespace;
    reconfigured: updates_the_deployment_if_configuration_changes, updates_the_deployment_if_password_changes,
        updates_the_keystone_auth_url_if_keystone_internal_endpoint_changes, reconfigures_the_api_pod, sets_nodeselector,
        updates_nodeselector_when_changed, removes_nodeselector_when_cleared, removes_nodeselector_when_nilled;
    topology: points_to_a_non_existing_topology, sets_topology_in_cr_status, sets_topology_in_resource_specs,
        updates_topology_when_the_reference_changes, removes_topologyref_from_the_spec,
        releases_a_topology_that_the_deployment_never_had;
    credential: renders_application_credential_auth, waits_for_the_secret_and_names_a_missing_key, says_which_value_is_empty_and_keeps_what_works,
        holds_the_secret_until_pods_run_without_it,
        releases_the_secret_when_deleted_or_cleared, releases_a_secret_that_pods_never_had;
    mariadb: uses_a_pre_existing_account_and_sets_a_finalizer, ensures_an_account_is_created_and_sets_a_finalizer,
        ensures_a_new_account_exists_when_accountname_is_changed, moves_the_finalizer_to_a_new_account_when_create_is_complete,
        removes_the_finalizer_from_all_associated_accounts_when_deleted, sets_the_correct_database_url,
        updates_the_database_url_when_the_account_changes, gets_a_config_hash_when_the_account_is_complete,
        updates_the_config_hash_when_the_account_changes, says_that_an_account_may_not_be_held_or_let_go,
        leaves_the_database_to_mariadb_operator_when_another_is_named;
    networks: attaches_pods_and_tells_their_addresses, waits_for_a_network_that_is_missing, needs_no_addresses_without_replicas,
        makes_no_pods_where_two_networks_are_one_interface;
    examples: pods_have_a_card_on_the_additional_network, the_internal_endpoint_is_on_the_isolated_network;
    admission: has_the_defaults, uses_the_given_values, rejects_a_wrong_default_config_overwrite, rejects_a_wrong_service_override_endpoint_type,
        rejects_an_update_with_a_wrong_service_override_endpoint_type, rejects_a_topologyref_on_a_different_namespace;
    takeover: takes_over_what_placement_operator_has_made, waits_for_the_job_of_placement_operator;
};

/// `WEFT_BEHAVIOUR` chooses those whose name contains it.
#[tokio::test]
async fn placement_does_what_placement_operator_did() {
    let chosen = std::env::var("WEFT_BEHAVIOUR").unwrap_or_default();
    let behaviours = BEHAVIOURS.iter().filter(|(name, _)| name.contains(&chosen));

    let stages = vec![Stage::stuck(Pods::with_image(UNREADY), Stuck::Unready)];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..everywhere()
    })
    .await;
    let network =
        include_str!("../../../../../../components/network-attachment-definition/crd.yaml");
    for definitions in [played::MARIADB, played::KEYSTONE, played::TOPOLOGY, network] {
        cluster.apply(definitions).await;
    }
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    // Nobody takes over here, and many tests at once may keep it from its lease for a while.
    let _operator = Operator::start(
        &cluster,
        OperatorOptions {
            proxy: Some(&proxy),
            lease_seconds: 15,
            ..Default::default()
        },
    )
    .await;

    let ran = futures::stream::iter(behaviours).map(async |(name, behaviour)| {
        let site = Site::new(&cluster, &namespace(name)).await;
        // The message of a panic has been printed by then.
        let failed = AssertUnwindSafe(behaviour(&site))
            .catch_unwind()
            .await
            .is_err();
        println!("{name}: {}", if failed { "FAILED" } else { "ok" });
        failed.then_some(*name)
    });
    let failed: Vec<&str> = ran
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "{failed:#?}");
    assert_not_warned(&cluster, &proxy);
}

/// A namespace for a behaviour, of 63 characters at most.
fn namespace(name: &str) -> String {
    let name = name
        .split("::")
        .last()
        .unwrap_or_default()
        .replace('_', "-");
    name.chars()
        .take(50)
        .collect::<String>()
        .trim_end_matches('-')
        .to_owned()
}
