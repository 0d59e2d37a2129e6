//! Packets between pods, counted.

use std::collections::BTreeSet;

use crate::on_nodes::weft::{site::Site, wait::wait_until};

/// Packets from pod `a` to pod `b`: pings, and lines over one TCP connection that come back.
pub struct Flow<'a> {
    site: &'a Site,
}

impl<'a> Flow<'a> {
    /// Begins to send to this address of pod `b`, which echoes on port 9000. Returns once answers
    /// come.
    pub async fn begin(site: &'a Site, address: &str) -> Self {
        let script = format!(
            "ping -i 0.1 {address} >/ping.log 2>&1 & echo $! >/ping.pid
            (i=0; while [ ! -e /stop ]; do i=$((i+1)); echo $i; sleep 0.1; done) | nc {address} 9000 >/echoed 2>/nc.log &"
        );
        let detached = format!("rm -f /stop; ({script}) </dev/null >/dev/null 2>&1 &");
        site.exec("a", &["sh", "-c", &detached]).await.unwrap();
        let flow = Self { site };
        flow.goes_on().await;
        flow
    }

    /// How many lines have come back.
    async fn echoed(&self) -> usize {
        let lines = self.site.exec("a", &["wc", "-l", "/echoed"]).await;
        let lines = lines.unwrap_or_default();
        let first = lines.split_whitespace().next();
        first.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Waits until further lines have come back over the connection of the beginning.
    pub async fn goes_on(&self) {
        let before = self.echoed().await;
        wait_until("the connection carries on", async || {
            let now = self.echoed().await;
            let log = ["sh", "-c", "ps; tail -n 3 /ping.log /nc.log /echoed"];
            let log = self.site.exec("a", &log).await;
            (now > before + 10)
                .then_some(())
                .ok_or(format!("{before} lines before, {now} now: {log:?}"))
        })
        .await;
    }

    /// Ends, and returns how many pings before the last answer got none.
    pub async fn lost(&self) -> usize {
        let end = "touch /stop; kill -INT $(cat /ping.pid)";
        self.site.exec("a", &["sh", "-c", end]).await.unwrap();
        let said = wait_until("ping says what it got", async || {
            let said = self.site.exec("a", &["cat", "/ping.log"]).await?;
            let has_ended = said.contains("transmitted");
            has_ended.then(|| said.clone()).ok_or(said)
        })
        .await;
        let number = |line: &str| -> Option<usize> {
            let rest = line.split_once("seq=")?.1;
            rest.split_whitespace().next()?.parse().ok()
        };
        let answered: BTreeSet<usize> = said.lines().filter_map(number).collect();
        assert!(answered.len() > 50, "{said}");
        answered.last().map_or(0, |last| last + 1 - answered.len())
    }
}
