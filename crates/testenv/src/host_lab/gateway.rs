//! The other end of the hosts' cables: namespaces with a bridge for each card, and a gateway that
//! answers ping, DNS and DHCP on all of them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    host_programs::in_usr,
    init::{Init, enter_bound},
    network,
    process::Process,
    program::Program,
};

use super::addresses;

/// A gateway, which ends on drop.
#[derive(Debug)]
pub(crate) struct Gateway {
    // Before the namespaces that it runs in.
    dnsmasq: Program,
    init: Init,
}

impl Gateway {
    /// With this many cards a host, and these names and addresses of `eth0`, from the first host
    /// on. Its programs are in these folders of `/usr`, and its logs in `gateway` of this folder.
    pub(crate) fn start(
        cards: u8,
        hosts: &[(String, Ipv4Addr)],
        usr: &str,
        folder: &Path,
    ) -> Result<Self> {
        let folder = folder.join("gateway");
        fs::create_dir_all(&folder)?;
        // Programs lay what they need over the machine's `/usr` by themselves: the kernel allows
        // few overlays over overlays.
        let init = Init::idle(&[], "/usr", &folder)?;
        let network = network::of(init.pid());
        let mut commands = String::new();
        for card in 0..cards {
            let address = addresses::gateway(card);
            commands += &format!(
                "link add br{card} type bridge\nlink set br{card} mtu 1500 up\naddr add {address}/24 dev br{card}\n"
            );
        }
        commands += &format!(
            "addr add {}/24 dev br0\naddr add {}/32 dev lo\n",
            addresses::API_SERVER,
            addresses::NAME_SERVER
        );
        network::ip(&network, &commands)?;
        let mut command = enter_bound(init.pid());
        command
            .arg("unshare")
            .args(in_usr(usr))
            .arg("dnsmasq")
            .args(arguments(cards, hosts, &folder));
        let dnsmasq = Program::new(Process::spawn("dnsmasq".into(), command, &folder)?)?;
        Ok(Self { dnsmasq, init })
    }

    /// Waits until DNS is answered.
    pub(crate) async fn wait_ready(&mut self) -> Result<()> {
        self.dnsmasq.wait_listening(53).await
    }

    /// The file of its network namespace.
    pub(crate) fn file(&self) -> PathBuf {
        network::of(self.init.pid())
    }

    /// A command that runs what is added to it in the gateway's namespaces, and ends with them.
    pub(super) fn enter(&self) -> Command {
        enter_bound(self.init.pid())
    }

    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.init.check_running()?;
        self.dnsmasq.check_running()
    }

    /// Name and pid of what runs for it on this machine.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        let mut all = self.init.processes("gateway").to_vec();
        all.push(("dnsmasq".to_owned(), self.dnsmasq.pid()));
        all
    }

    /// Connects a host, by its process 1: `eth0`, which it waits for, last.
    pub(crate) fn plug_in(&self, index: u8, cards: u8, init: u32) -> Result<()> {
        let mut commands = String::new();
        for card in (0..cards).rev() {
            let mac = addresses::mac(index, card);
            commands += &format!(
                "link add port{card}-{index} type veth peer name eth{card} address {mac} netns {init}\n"
            );
            commands += &format!("link set port{card}-{index} master br{card} up\n");
        }
        network::ip(&self.file(), &commands)
    }

    /// Nothing goes from the API server's address to this host any more, or does again. By a policy
    /// rule (`ip-rule(8)`): the packets vanish, as they do on a network that is cut, and a client
    /// waits for its own timeout.
    pub(crate) fn cut_api(&self, host: Ipv4Addr, cut: bool) -> Result<()> {
        let verb = if cut { "add" } else { "del" };
        network::ip(
            &self.file(),
            &format!(
                "rule {verb} from {} to {host} blackhole\n",
                addresses::API_SERVER
            ),
        )
    }
}

/// The name server knows no other: a name that it has not does not exist.
fn arguments(cards: u8, hosts: &[(String, Ipv4Addr)], folder: &Path) -> Vec<String> {
    let mut args: Vec<String> = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-hosts",
        "--no-resolv",
        "--bind-interfaces",
        "--user=root",
    ]
    .map(String::from)
    .to_vec();
    args.push("--log-queries".into());
    args.push("--log-facility=-".into());
    args.push("--pid-file=".into());
    args.push(format!(
        "--dhcp-leasefile={}",
        folder.join("dnsmasq.leases").display()
    ));
    args.push("--dhcp-authoritative".into());
    args.push(format!("--local=/{}/", addresses::DOMAIN));
    args.push(format!("--domain={}", addresses::DOMAIN));
    args.push("--interface=lo".into());
    args.push(format!(
        "--host-record=gateway.{},{}",
        addresses::DOMAIN,
        addresses::gateway(0)
    ));
    for card in 0..cards {
        let [a, b, c, _] = addresses::gateway(card).octets();
        args.push(format!("--interface=br{card}"));
        args.push(format!(
            "--dhcp-range=br{card},{a}.{b}.{c}.100,{a}.{b}.{c}.199,255.255.255.0,1h"
        ));
    }
    for (index, (name, address)) in (1..).zip(hosts) {
        args.push(format!(
            "--host-record={name}.{},{address}",
            addresses::DOMAIN
        ));
        // A DHCP client on eth0 gets the address that it has already.
        args.push(format!(
            "--dhcp-host={},{address}",
            addresses::mac(index, 0)
        ));
    }
    // The default of the DNS probe asks for the name servers of this one: an NS record (type 2), in
    // the form it has on the wire.
    args.push("--host-record=root-servers.net,198.51.100.1".into());
    args.push(format!(
        "--dns-rr=root-servers.net,2,{}",
        wire_name("a.root-servers.net")
    ));
    args
}

/// RFC 1035, 3.1, in hexadecimal digits.
fn wire_name(name: &str) -> String {
    let mut wire: Vec<u8> = vec![];
    for label in name.split('.') {
        wire.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error if there are more cards or hosts than addresses.
pub(crate) fn check_size(hosts: usize, cards: u8) -> Result<()> {
    if hosts > 80 || !(1..=50).contains(&cards) {
        bail!(
            "{hosts} hosts with {cards} cards: there are addresses for 80 hosts with 1 to 50 cards"
        );
    }
    Ok(())
}
