//! Which probes count for a change, on a host from which some of what is asked for is out of reach.

use std::{fs, net::TcpListener, time::Duration};

use nmstate::NetworkState;
use tokio::time::Instant;
use weft_agent::{
    host::{DNS_HOST, Machine, Means, Peer},
    probes::{CHOICE, Prober, Target, WINDOW},
};
use weft_testenv::{
    namespace::{in_namespace, ip},
    wait::wait_until,
};

use super::bridge_over_card::Outside;

fn tcp(host: &str, port: u16) -> Target {
    Target::Peer(Peer::Tcp {
        host: host.to_owned(),
        port,
    })
}

fn icmp(host: &str) -> Target {
    Target::Peer(Peer::Icmp {
        host: host.to_owned(),
    })
}

fn prober() -> Prober {
    Prober {
        cluster: None,
        dns_host: DNS_HOST.to_owned(),
        window: WINDOW,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

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
        let away = [
            tcp("192.0.2.9", 443),
            icmp("192.0.2.9"),
            Target::Peer(Peer::Http {
                url: "http://192.0.2.9/".to_owned(),
            }),
            Target::Peer(Peer::Dns {
                name: DNS_HOST.to_owned(),
                server: Some([192, 0, 2, 9].into()),
            }),
        ];
        let added = [&away[..2], &[tcp("127.0.0.1", port)], &away[2..]].concat();
        let prober = prober();
        runtime().block_on(async {
            let (host, _changes) = Machine::start().unwrap();
            let began = Instant::now();
            let before = NetworkState::new();
            let choice = prober.choose(&host, &before, &added, &[]).await;
            assert_eq!(choice.counted, [tcp("127.0.0.1", port)]);
            let left_out: Vec<_> = choice.left_out.iter().map(|(target, _)| target).collect();
            assert!(
                away.iter().all(|target| left_out.contains(&target)),
                "{left_out:?}"
            );
            // Four of them take all the time of a choice.
            let took = began.elapsed();
            assert!(took < 4 * CHOICE, "{took:?}");
        });
    });
}

/// On a host without a route, waiting does not help. Choosing may take 5 s.
#[test]
fn a_peer_to_which_no_route_leads_costs_no_time() {
    in_namespace(|| {
        let added = [tcp("192.0.2.9", 443), icmp("192.0.2.9")];
        let before = "dns-resolver: {running: {server: [192.0.2.53, '2001:db8::53']}}";
        let before = NetworkState::new_from_yaml(before).unwrap();
        runtime().block_on(async {
            let (host, _changes) = Machine::start().unwrap();
            let began = Instant::now();
            let choice = prober().choose(&host, &before, &added, &[]).await;
            let took = began.elapsed();
            assert_eq!((&*choice.counted, &*choice.missing), (&[][..], &[][..]));
            assert_eq!(choice.left_out.len(), 4, "{:?}", choice.left_out);

            // It counted at an earlier try, so its route may be about to come back.
            let counted = [tcp("192.0.2.9", 443)];
            let began = Instant::now();
            let choice = prober().choose(&host, &before, &[], &counted).await;
            assert_eq!(choice.missing.len(), 1, "{choice:?}");
            let waited = began.elapsed();
            assert!(took < waited && waited >= CHOICE, "{took:?}, {waited:?}");
        });
    });
}

/// The gateway answers ARP also where the node has an address of another network, from which no
/// answer comes back.
#[test]
fn a_gateway_counts_by_the_means_by_which_it_has_answered() {
    in_namespace(|| {
        let switch = Outside::new();
        ip("link add eth1 type veth peer name peer");
        ip("link set eth1 up");
        switch.take("peer", Some("192.0.2.1/24"));
        switch.run("echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter >/dev/null");
        ip("address add 192.0.2.11/24 dev eth1");
        ip("route add default via 192.0.2.1");
        let [by_echo, by_link] = [Means::Icmp, Means::Neighbour].map(Peer::Gateway);
        let runtime = runtime();
        runtime.block_on(wait_until("the gateway answers", async || {
            let asked = by_echo.ask(&[]).await;
            asked.map_err(|silence| silence.to_string())
        }));
        let counted = || {
            runtime.block_on(async {
                let (host, _changes) = Machine::start().unwrap();
                let before = NetworkState::new();
                prober().choose(&host, &before, &[], &[]).await.counted
            })
        };
        assert_eq!(counted(), [Target::Peer(by_echo.clone())]);

        ip("address del 192.0.2.11/24 dev eth1");
        ip("address add 198.51.100.11/24 dev eth1");
        ip("route add 192.0.2.1 dev eth1");
        ip("route add default via 192.0.2.1");
        runtime.block_on(async {
            let (host, _changes) = Machine::start().unwrap();
            by_link.ask(&[]).await.unwrap();
            let target = [Target::Peer(by_echo.clone())];
            let window = Duration::from_secs(3);
            let lost = prober().confirm(&host, &target, window).await.unwrap_err();
            assert!(lost.message.contains("does not answer ICMP"), "{lost:?}");
        });

        ip("address flush dev eth1");
        ip("address add 192.0.2.11/24 dev eth1");
        ip("route add default via 192.0.2.1");
        switch.run("echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all");
        let counted = counted();
        assert_eq!(counted, [Target::Peer(by_link)]);
        assert_eq!(
            counted[0].to_string(),
            "link address of the default gateway"
        );
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
            let runtime = runtime();
            let peer = |host: &str| Peer::Icmp {
                host: host.to_owned(),
            };
            for (own, away) in [("192.0.2.1", "192.0.2.9"), ("2001:db8::1", "2001:db8::9")] {
                // On a busy machine, an IPv6 address may answer only a while after its link is up.
                runtime.block_on(wait_until("its own address answers", async || {
                    let asked = peer(own).ask(&[]).await;
                    asked.map_err(|silence| silence.to_string())
                }));
                let silence = runtime.block_on(peer(away).ask(&[])).unwrap_err();
                let error = silence.to_string();
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
