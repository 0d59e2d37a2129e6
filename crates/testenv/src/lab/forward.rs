//! The way from this machine's loopback into a network namespace.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Takes TCP connections on a port of 127.0.0.1 and goes on to an address inside a namespace. So a person's kubectl, and a test's
/// client, reach an API server that has no other way out. Ended on drop.
#[derive(Debug)]
pub(crate) struct Forward {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Forward {
    pub(crate) fn start(namespace: &Path, target: SocketAddr) -> Result<Self> {
        // A socket belongs to the namespace it was made in: this one to the machine's, those that the thread makes to the other.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let namespace = File::open(namespace).with_context(|| format!("cannot open {}", namespace.display()))?;
        let (stop, stopped) = oneshot::channel();
        let (entered, result) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(std::io::Error::from)
                .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build());
            match runtime {
                Ok(runtime) => {
                    let _ = entered.send(Ok(()));
                    runtime.block_on(serve(listener, target, stopped));
                }
                Err(error) => {
                    let _ = entered.send(Err(error));
                }
            }
        });
        result.recv()?.context("cannot enter the network namespace")?;
        Ok(Self { port, stop: Some(stop), thread: Some(thread) })
    }

    /// On 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut client, _)) = accepted else {
            continue;
        };
        tokio::spawn(async move {
            // Whoever ends the connection, or refuses it, the client sees its end.
            if let Ok(mut server) = TcpStream::connect(target).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
