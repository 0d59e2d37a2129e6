//! A way for TCP connections between this machine's loopback and a network namespace of a lab, in
//! either direction.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::sync::{oneshot, watch};

/// Takes TCP connections and goes on to an address. A relay, which ends on drop.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    cut: watch::Sender<BTreeSet<IpAddr>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Goes on to `target` from inside a namespace, or from this machine's own. A socket belongs to
    /// the namespace it was made in: the listener to the one where it was bound, those that the
    /// thread makes to this one.
    pub(crate) fn start(
        listener: TcpListener,
        target: SocketAddr,
        namespace: Option<&Path>,
    ) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let namespace = namespace.map(open).transpose()?;
        let (cut, cuts) = watch::channel(BTreeSet::new());
        let (stop, stopped) = oneshot::channel();
        let (started, result) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = namespace
                .map_or(Ok(()), |namespace| enter(&namespace))
                .and_then(|()| runtime());
            match runtime {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    runtime.block_on(serve(listener, target, cuts, stopped));
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        });
        result
            .recv()?
            .context("cannot go on from the network namespace")?;
        Ok(Self {
            address,
            cut,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends what this client has open, and takes nothing more from it, so that no request of its
    /// goes through, or lets it through again.
    pub(crate) fn cut(&self, client: IpAddr, cut: bool) {
        self.cut.send_modify(|clients| {
            if cut {
                clients.insert(client)
            } else {
                clients.remove(&client)
            };
        });
    }
}

/// A listener inside a namespace, whoever uses it.
pub(crate) fn listen_in(namespace: &Path, address: SocketAddr) -> Result<TcpListener> {
    let namespace = open(namespace)?;
    let bound =
        std::thread::spawn(move || enter(&namespace).and_then(|()| TcpListener::bind(address)))
            .join();
    bound
        .map_err(|_| anyhow::anyhow!("the listening thread panicked"))?
        .with_context(|| format!("cannot listen on {address} in the namespace"))
}

fn open(namespace: &Path) -> Result<File> {
    File::open(namespace).with_context(|| format!("cannot open {}", namespace.display()))
}

/// For good, the calling thread.
fn enter(namespace: &File) -> std::io::Result<()> {
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

fn runtime() -> std::io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    cuts: watch::Receiver<BTreeSet<IpAddr>>,
    mut stopped: oneshot::Receiver<()>,
) {
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
            let pass = async {
                // If either side ends or refuses the connection, the client sees its end.
                if let Ok(mut server) = TcpStream::connect(target).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            };
            tokio::select! {
                biased;
                _ = cuts.wait_for(|clients| clients.contains(&peer.ip())) => {}
                () = pass => {}
            }
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
