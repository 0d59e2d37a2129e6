//! Reports of a host without NetworkManager, each test in a network namespace of its own.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use nmstate::{InterfaceState, InterfaceType, NetworkState};
use weft_agent::host::{ApplyOptions, Backend, Change, Changes, Host, HostError, Machine, Query};
use weft_testenv::namespace::{in_namespace, ip};

/// Runs a test on a host.
fn on_host<F: Future<Output = ()>>(test: impl FnOnce(Arc<Machine>, Changes) -> F + Send) {
    in_namespace(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (host, changes) = Machine::start().unwrap();
            let host = Arc::new(host);
            test(Arc::clone(&host), changes).await;
        });
    });
}

/// The next change. A minute is far more than any takes.
async fn next(changes: &mut Changes) -> Change {
    tokio::time::timeout(Duration::from_secs(60), changes.next())
        .await
        .expect("no change is reported")
        .expect("changes do not end")
}

/// Takes what is there, until nothing has come for half a second. Returns how many came.
async fn settle(changes: &mut Changes) -> usize {
    let mut count = 0;
    while let Ok(change) = tokio::time::timeout(Duration::from_millis(500), changes.next()).await {
        change.expect("changes do not end");
        count += 1;
    }
    count
}

/// Up, and without addresses of its own: those would come seconds later.
fn quiet_link() {
    ip("link add eth1 index 71 type veth peer name eth2 index 72");
    for link in ["eth1", "eth2"] {
        ip(&format!("link set {link} addrgenmode none"));
        ip(&format!("link set {link} up"));
    }
}

#[test]
fn the_kernels_state_is_read_with_the_indexes_of_its_links() {
    on_host(|host, _changes| async move {
        quiet_link();
        ip("address add 192.0.2.1/24 dev eth1");
        let found = host.retrieve(Query::default()).await.unwrap();
        let eth1 = found
            .state
            .interfaces
            .iter()
            .find(|interface| interface.name() == "eth1")
            .unwrap();
        assert_eq!(
            (eth1.iface_type(), eth1.is_up()),
            (InterfaceType::Veth, true)
        );
        assert_eq!(
            (
                found.indexes["eth1"],
                found.indexes["eth2"],
                found.indexes["lo"]
            ),
            (71, 72, 1)
        );
        let Backend::ReadOnly { why } = found.backend else {
            panic!("{:?}", found.backend)
        };
        assert!(
            why.contains("D-Bus cannot be reached") && why.contains("start NetworkManager"),
            "{why}"
        );
    });
}

#[test]
fn without_network_manager_nothing_is_changed() {
    on_host(|host, _changes| async move {
        ip("link add eth1 type veth peer name eth2");
        let desired =
            NetworkState::new_from_yaml("interfaces: [{name: eth1, type: veth, state: up}]")
                .unwrap();
        let second = Duration::from_secs(1);
        let options = ApplyOptions {
            commit: true,
            checkpoint: second,
            verify: true,
            memory_only: false,
            limit: 60 * second,
        };
        let refused = host.apply(desired.into(), options).await;
        assert!(
            matches!(refused, Err(HostError::ReadOnly(_))),
            "{refused:?}"
        );
        assert!(matches!(
            host.checkpoints().await,
            Err(HostError::ReadOnly(_))
        ));
        let found = host.retrieve(Query::default()).await.unwrap();
        let eth1 = found
            .state
            .interfaces
            .iter()
            .find(|interface| interface.name() == "eth1")
            .unwrap();
        assert_eq!(eth1.base_iface().state, InterfaceState::Down);
    });
}

#[test]
fn each_sort_of_change_is_told() {
    on_host(|_host, mut changes| async move {
        quiet_link();
        settle(&mut changes).await;
        for change in [
            "link set eth1 mtu 1400",
            "link set eth1 down",
            "link set eth1 up",
            "address add 192.0.2.1/24 dev eth1",
            "address add 2001:db8::1/64 dev eth1 nodad",
            "route add 198.51.100.0/24 via 192.0.2.2",
            "-6 route add 2001:db8:1::/64 via 2001:db8::2",
            "route add blackhole 203.0.113.0/24",
            "rule add from 192.0.2.1 table 100",
            "-6 rule add from 2001:db8::1 table 100",
            "link add br0 type bridge",
            "link set eth1 master br0",
            "link delete br0",
            "link delete eth1",
        ] {
            ip(change);
            assert_eq!(next(&mut changes).await, Change::Kernel, "ip {change}");
            settle(&mut changes).await;
        }
    });
}

/// Nmstate does not read them, and a router has thousands.
#[test]
fn routes_of_routing_daemons_are_no_change() {
    on_host(|_host, mut changes| async move {
        quiet_link();
        ip("address add 192.0.2.1/24 dev eth1");
        settle(&mut changes).await;
        ip("route add 198.51.100.0/24 via 192.0.2.2 proto bgp");
        ip("route del 198.51.100.0/24 via 192.0.2.2 proto bgp");
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(1), changes.next())
                .await
                .ok(),
            None
        );
        ip("route add 198.51.100.0/24 via 192.0.2.2 proto static");
        assert_eq!(next(&mut changes).await, Change::Kernel);
    });
}

/// A reader that was busy has one look to take, not hundreds.
#[test]
fn events_at_the_same_time_are_one_change() {
    on_host(|_host, mut changes| async move {
        settle(&mut changes).await;
        ip("link add eth1 type veth peer name eth2");
        for _ in 0..50 {
            ip("link set eth1 mtu 1400");
            ip("link set eth1 mtu 1500");
        }
        assert_eq!(next(&mut changes).await, Change::Kernel);
        // The thread of the host may still read while these are taken.
        let more = settle(&mut changes).await;
        assert!(more < 10, "{more} more of 101 events");
    });
}

#[test]
fn reading_changes_nothing() {
    on_host(|host, mut changes| async move {
        ip("link add eth1 type veth peer name eth2");
        settle(&mut changes).await;
        for _ in 0..3 {
            host.retrieve(Query::default()).await.unwrap();
        }
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(1), changes.next())
                .await
                .ok(),
            None,
            "a look would lead to the next one"
        );
    });
}
