//! Which probes count for a change, on a host from which some of what is asked for is out of reach.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::{fs, net::TcpListener, time::Duration};

use common::{in_namespace, ip};
use nmstate::NetworkState;
use tokio::time::Instant;
use weft_agent::{
    host::{DNS_HOST, Machine, Peer},
    probes::{Prober, Target, WINDOW},
};

/// Each of those that never answer takes all the time that there is: one after the other they would
/// take five times as long.
#[test]
fn a_peer_out_of_reach_before_a_change_costs_time_once_and_counts_not() {
    in_namespace(|| {
        // Nobody is there, and ARP is not what says so: packets go out, and nothing comes back.
        ip("link add eth1 type veth peer name eth2");
        ip("address add 192.0.2.1/24 dev eth1");
        ip("link set eth2 up");
        ip("link set eth1 up");
        ip("neighbor add 192.0.2.9 lladdr 02:00:00:00:00:09 dev eth1");
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = open.local_addr().unwrap().port();
        let tcp = |host: &str, port| {
            Target::Peer(Peer::Tcp {
                host: host.to_owned(),
                port,
            })
        };
        let away = [
            tcp("192.0.2.9", 443),
            Target::Peer(Peer::Icmp {
                host: "192.0.2.9".to_owned(),
            }),
            Target::Peer(Peer::Http {
                url: "http://192.0.2.9/".to_owned(),
            }),
            Target::Peer(Peer::Dns {
                name: DNS_HOST.to_owned(),
                server: Some([192, 0, 2, 9].into()),
            }),
        ];
        let added = [&away[..2], &[tcp("127.0.0.1", port)], &away[2..]].concat();
        let prober = Prober {
            cluster: None,
            dns_host: DNS_HOST.to_owned(),
            window: WINDOW,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (host, _changes) = Machine::start().unwrap();
            let began = Instant::now();
            let chosen = prober.choose(&host, &NetworkState::new(), &added).await;
            assert_eq!(chosen, [tcp("127.0.0.1", port)]);
            assert!(
                began.elapsed() < Duration::from_secs(9),
                "{:?}",
                began.elapsed()
            );
        });
    });
}

/// surge-ping returns an ICMP error for the request in the same way as an echo reply.
#[test]
fn an_icmp_error_does_not_count_as_an_answer() {
    // The groups that may open a ping socket (icmp(7)): none, so the agent opens a raw one, and
    // root's.
    for groups in ["1 0", "0 0"] {
        in_namespace(|| {
            fs::write("/proc/sys/net/ipv4/ping_group_range", groups).unwrap();
            ip("link add eth1 type veth peer name eth2");
            for family in ["ipv4", "ipv6"] {
                // The kernel sends the ICMP error after a tenth of a second without an answer to ARP.
                let neighbors = format!("/proc/sys/net/{family}/neigh/eth1");
                fs::write(format!("{neighbors}/mcast_solicit"), "1").unwrap();
                fs::write(format!("{neighbors}/retrans_time_ms"), "100").unwrap();
            }
            ip("address add 192.0.2.1/24 dev eth1");
            ip("address add 2001:db8::1/64 dev eth1 nodad");
            ip("link set eth2 up");
            ip("link set eth1 up");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let ask = |host: &str| {
                let host = host.to_owned();
                runtime.block_on(Peer::Icmp { host }.ask(&[]))
            };
            for (own, away) in [("192.0.2.1", "192.0.2.9"), ("2001:db8::1", "2001:db8::9")] {
                ask(own).unwrap();
                let error = ask(away).unwrap_err();
                // A raw socket sees the error. The other one waits for a reply in vain.
                let expected = match groups {
                    "1 0" => format!("{own} sent an ICMP error"),
                    _ => "timeout".to_owned(),
                };
                assert!(error.contains(&expected), "{error}");
            }
        });
    }
}
