//! The way from the hosts' network to the API server on this machine's loopback.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};

/// Takes TCP connections at an address inside a namespace and goes on to a port of 127.0.0.1. Ended on drop.
#[derive(Debug)]
pub(crate) struct ApiWay {
    cut: watch::Sender<BTreeSet<Ipv4Addr>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiWay {
    pub(crate) fn start(namespace: &Path, listen: SocketAddr, port: u16) -> Result<Self> {
        let listener = listen_in(namespace, listen)?;
        let (cut, cuts) = watch::channel(BTreeSet::new());
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::spawn(move || runtime.block_on(serve(listener, (Ipv4Addr::LOCALHOST, port).into(), cuts, stopped)));
        Ok(Self { cut, stop: Some(stop), thread: Some(thread) })
    }

    /// Ends what this host has open, and takes nothing more from it, so that no request of its goes through; or lets it through again.
    pub(crate) fn cut(&self, host: Ipv4Addr, cut: bool) {
        self.cut.send_modify(|hosts| {
            if cut {
                hosts.insert(host)
            } else {
                hosts.remove(&host)
            };
        });
    }
}

/// A socket belongs to the namespace it was made in, whoever uses it.
fn listen_in(namespace: &Path, address: SocketAddr) -> Result<TcpListener> {
    let namespace = File::open(namespace).with_context(|| format!("cannot open {}", namespace.display()))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
        let _ = sender.send(entered.map_err(std::io::Error::from).and_then(|()| TcpListener::bind(address)));
    });
    let listener = receiver.recv()?.with_context(|| format!("cannot listen on {address} in the network of the hosts"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: TcpListener, target: SocketAddr, cuts: watch::Receiver<BTreeSet<Ipv4Addr>>, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut client, peer)) = accepted else {
            continue;
        };
        let mut cuts = cuts.clone();
        tokio::spawn(async move {
            let is_cut = |hosts: &BTreeSet<Ipv4Addr>| matches!(peer, SocketAddr::V4(peer) if hosts.contains(peer.ip()));
            let pass = async {
                // Whoever ends the connection, or refuses it, the client sees its end.
                if let Ok(mut server) = TcpStream::connect(target).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            };
            tokio::select! {
                biased;
                _ = cuts.wait_for(is_cut) => {}
                () = pass => {}
            }
        });
    }
}

impl Drop for ApiWay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
