//! The MTU of a host's default routes, each in a network namespace of its own with real links and
//! routes.
//!
//! A namespace lives as long as the thread that made it, so nothing is left behind, also when a
//! test fails.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_host::{MtuError, default_mtu};
use weft_testenv::namespace::{in_namespace, ip};

/// A link that is up, with an address of each family.
fn link(name: &str, number: u8, mtu: u32) {
    ip(&format!(
        "link add name {name} mtu {mtu} type veth peer name peer-{name} mtu {mtu}"
    ));
    ip(&format!("link set peer-{name} up"));
    ip(&format!("link set {name} up"));
    ip(&format!("address add 192.0.{number}.2/24 dev {name}"));
    ip(&format!(
        "address add 2001:db8:{number}::2/64 dev {name} nodad"
    ));
}

fn found() -> (u32, String) {
    let found = default_mtu().unwrap();
    (found.mtu, found.route)
}

#[test]
fn without_a_default_route_there_is_no_mtu() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        ip("route add 198.51.100.0/24 via 192.0.1.1");
        ip("route add unreachable default metric 4278198272");
        ip("-6 route add unreachable default metric 4278198272");
        assert!(
            matches!(default_mtu(), Err(MtuError::NoDefaultRoute)),
            "{:?}",
            default_mtu()
        );
    });
}

#[test]
fn the_smallest_of_several_default_routes_counts() {
    in_namespace(|| {
        link("eth1", 1, 9000);
        link("eth2", 2, 1400);
        link("eth3", 3, 1300);
        ip("route add default via 192.0.1.1");
        assert_eq!(
            found(),
            (9000, "default via 192.0.1.1 dev eth1".to_owned()),
            "other links do not count"
        );
        ip("route add default via 192.0.2.1 metric 100");
        assert_eq!(found(), (1400, "default via 192.0.2.1 dev eth2".to_owned()));
    });
}

#[test]
fn both_address_families_count() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        link("eth2", 2, 1420);
        ip("-6 route add default via 2001:db8:1::1");
        assert_eq!(
            found(),
            (1500, "default via 2001:db8:1::1 dev eth1".to_owned()),
            "a host of IPv6 alone"
        );
        ip("route add default via 192.0.2.1");
        assert_eq!(found(), (1420, "default via 192.0.2.1 dev eth2".to_owned()));
        ip("-6 route add default dev eth2 metric 2000");
        ip("link set eth1 mtu 1380");
        assert_eq!(found().0, 1380);
    });
}

#[test]
fn every_next_hop_of_a_multipath_route_counts() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        link("eth2", 2, 1450);
        link("eth3", 3, 1440);
        ip("route add default nexthop via 192.0.1.1 dev eth1 nexthop via 192.0.2.1 dev eth2");
        assert_eq!(found(), (1450, "default via 192.0.2.1 dev eth2".to_owned()));
        ip(
            "-6 route add default nexthop via 2001:db8:1::1 dev eth1 nexthop via 2001:db8:3::1 dev eth3",
        );
        assert_eq!(
            found(),
            (1440, "default via 2001:db8:3::1 dev eth3".to_owned())
        );
    });
}

#[test]
fn a_routes_own_mtu_counts_if_it_is_smaller() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        ip("route add default via 192.0.1.1 mtu 1350");
        assert_eq!(
            found(),
            (1350, "default via 192.0.1.1 dev eth1 mtu 1350".to_owned())
        );
        ip("route replace default via 192.0.1.1 mtu 9000");
        assert_eq!(found().0, 1500);
    });
}

#[test]
fn other_tables_do_not_count() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        link("eth2", 2, 1280);
        ip("route add default via 192.0.2.1 table 100");
        ip("route add default via 192.0.2.1 table 100000");
        assert!(matches!(default_mtu(), Err(MtuError::NoDefaultRoute)));
        ip("route add default via 192.0.1.1");
        assert_eq!(found().0, 1500);
    });
}

#[test]
fn a_next_hop_of_the_other_family_is_named() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        ip("route add default via inet6 2001:db8:1::1 dev eth1");
        assert_eq!(
            found(),
            (1500, "default via 2001:db8:1::1 dev eth1".to_owned())
        );
    });
}

#[test]
fn next_hop_objects_count_as_well() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        link("eth2", 2, 1333);
        ip("nexthop add id 1 via 192.0.1.1 dev eth1");
        ip("nexthop add id 2 via 192.0.2.1 dev eth2");
        ip("nexthop add id 3 group 1/2");
        ip("route add default nhid 3");
        assert_eq!(found(), (1333, "default via 192.0.2.1 dev eth2".to_owned()));
    });
}

/// Links and routes that come and go while they are read: the answer is always that of one moment.
#[test]
fn default_routes_that_vanish_are_no_error() {
    in_namespace(|| {
        link("eth1", 1, 1500);
        ip("route add default via 192.0.1.1 metric 50");
        let over = AtomicBool::new(false);
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..40 {
                    link("eth2", 2, 1400);
                    link("eth3", 3, 1300);
                    ip("route add default via 192.0.2.1 metric 100");
                    ip("route add default via 192.0.3.1 metric 200");
                    ip("link delete eth2");
                    ip("link delete eth3");
                }
                over.store(true, Ordering::SeqCst);
            });
            while !over.load(Ordering::SeqCst) {
                seen.push(default_mtu().map(|found| found.mtu));
            }
        });
        for answer in &seen {
            assert!(matches!(answer, Ok(1500 | 1400 | 1300)), "{answer:?}");
        }
        for mtu in [1500, 1400, 1300] {
            assert!(
                seen.iter()
                    .any(|answer| matches!(answer, Ok(found) if *found == mtu)),
                "{mtu} was never seen: the test shows nothing"
            );
        }
        assert_eq!(found().0, 1500);
    });
}
