//! Clients that mean ill, at the ports of the operator: connections that say nothing, heads without
//! an end, and tokens that nobody knows.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    time::Instant,
};

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::system::{
    harness::*,
    metrics::{ACCOUNTS, Server},
};

/// How many KiB the operator may grow while it is attacked. Without limits, four hundred of these
/// heads take more than 100 MiB.
const GROWTH: u64 = 32 << 10;

async fn connect(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(TcpStream::connect(address).await.unwrap());
    }
    streams
}

/// The most memory that the process has ever had, in KiB.
fn peak(operator: &Operator) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", operator.child().id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reports whether the operator has not closed this connection.
fn is_open(stream: &TcpStream) -> bool {
    let mut answer = [0; 4096];
    loop {
        match stream.try_read(&mut answer) {
            Ok(0) => return false,
            // An answer may come before the end.
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Waits until the operator has closed all but so many of these.
async fn wait_cut_off(streams: &[TcpStream], left: usize) {
    wait_until(
        &format!("at most {left} of {} connections are left", streams.len()),
        async || {
            let open = streams.iter().filter(|stream| is_open(stream)).count();
            if open <= left {
                Ok(())
            } else {
                Err(format!("{open} are open"))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn probes_are_answered_while_clients_hold_and_fill_connections() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    wait_until("it is ready", async || {
        if operator.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".to_owned())
        }
    })
    .await;
    let (address, before) = (operator.address().await, peak(&operator));

    let idle = connect(address, 200).await;
    assert_eq!(operator.http("/healthz").await.0, 200);
    assert_eq!(operator.http("/readyz").await.0, 200);
    wait_cut_off(&idle, 64).await;
    drop(idle);

    let large = [
        b"GET /healthz HTTP/1.1\r\nHost: weft\r\nX-Large: ".as_slice(),
        &[b'a'; 350 << 10],
    ]
    .concat();
    let mut half_open = Vec::new();
    for _ in 0..400 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The operator closes the connection before it has all of it.
        let _ = stream.write_all(&large).await;
        half_open.push(stream);
    }
    assert_eq!(operator.http("/healthz").await.0, 200);
    assert_eq!(operator.http("/readyz").await.0, 200);
    wait_cut_off(&half_open, 64).await;
    // The kernel sums up its counts of pages now and then, so a later peak may be some pages lower.
    let growth = peak(&operator).saturating_sub(before);
    assert!(growth < GROWTH, "the operator has grown by {growth} KiB");
}

#[tokio::test]
async fn metrics_are_read_while_clients_hold_connections_and_guess_tokens() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start(
        &cluster,
        OperatorOptions {
            metrics: "127.0.0.1:0",
            ..Default::default()
        },
    )
    .await;
    let server = Server::at(operator.metrics_address().await);
    cluster.apply(ACCOUNTS).await;
    let token = async || {
        cluster
            .kubectl(&["create", "token", "reader"])
            .await
            .trim()
            .to_owned()
    };
    let (reader, renewed) = (token().await, token().await);
    let read = async |server: &Server, token: &str| {
        let answer = server.get("/metrics", Some(token)).await?;
        if answer.starts_with("HTTP/1.1 200 ") {
            Ok(())
        } else {
            Err(answer)
        }
    };
    // The role may be a moment late.
    wait_until("the reader reads", async || read(&server, &reader).await).await;

    let idle = connect(server.address, 200).await;
    read(&server, &reader).await.unwrap();
    assert!(
        idle.last().is_some_and(is_open),
        "the reader waits for none of them"
    );
    wait_cut_off(&idle, 32).await;

    let reviews = || {
        cluster
            .audit()
            .iter()
            .filter(|event| event.resource == "tokenreviews")
            .count()
    };
    let (before, start) = (reviews(), Instant::now());
    let mut refused = 0;
    for number in 0..100 {
        let answer = server
            .get("/metrics", Some(&format!("made-up-{number}")))
            .await
            .unwrap();
        match answer.split(' ').nth(1) {
            Some("401") => {}
            Some("429") => {
                assert!(
                    answer.to_lowercase().contains("\r\nretry-after: "),
                    "{answer}"
                );
                refused += 1;
            }
            _ => panic!("{answer}"),
        }
        read(&server, &reader).await.unwrap();
    }
    let (asked, took) = (reviews() - before, start.elapsed());
    // Five at once, then one a second, and one a minute about the reader.
    let seconds = took.as_secs() as usize + 1;
    assert!(
        asked <= 5 + seconds + seconds.div_ceil(60),
        "{asked} reviews within {took:?}"
    );
    assert!(
        asked + refused >= 100,
        "each is asked about or refused: {asked}, {refused}"
    );

    // A token that is new is not held up by what another user does.
    let elsewhere = server.from(Ipv4Addr::new(127, 0, 0, 2));
    read(&elsewhere, &renewed).await.unwrap();
}
