//! OpenStack Placement, served as a pod of its Deployment serves it.

use std::time::Duration;

use anyhow::Result;

use crate::{program::Program, relay::Relay};

use super::{Container, Site};

/// Of the API, in the site as in a cluster.
pub(super) const PORT: u16 = 8778;

/// A server that answers. Placement, which is killed on drop.
#[derive(Debug)]
pub struct Placement {
    site: Site,
    server: Program,
    scheme: &'static str,
    way: Relay,
}

impl Placement {
    /// Runs the command of the pod (`httpd -DFOREGROUND`, or `kolla_start`, which finds it in the
    /// pod's files) in its container, and returns when `/` of port 8778 is answered by 200, with
    /// TLS or without.
    ///
    /// # Errors
    /// It ends or is not ready in time: the error shows the end of its log.
    pub async fn start(site: &Site, container: &Container, command: &[&str]) -> Result<Self> {
        let mut server = site.spawn("placement", container, command)?;
        let way = site.reach(PORT)?;
        let scheme = server
            .wait_ready(Duration::from_millis(50), async || {
                let mut answers = vec![];
                for scheme in ["http", "https"] {
                    let url = format!("{scheme}://localhost:{PORT}/");
                    match site.curl(&["--insecure", &url]).await {
                        Ok((200, _)) => return Ok(scheme),
                        Ok((status, _)) => {
                            answers.push(format!("it answers {scheme} with {status}"))
                        }
                        Err(_) => answers.push(format!("it does not answer {scheme}")),
                    }
                }
                Err(answers.join(", "))
            })
            .await?;
        Ok(Self {
            site: site.clone(),
            server,
            scheme,
            way,
        })
    }

    /// Of the API, for a client on this machine.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.way.port())
    }

    /// Asks it for a path, with these headers (`x-auth-token: admin`), and returns status and body.
    ///
    /// # Errors
    /// No answer.
    pub async fn get(&self, path: &str, headers: &[&str]) -> Result<(u16, String)> {
        self.request("GET", path, headers, None).await
    }

    /// The same with any method, and a body of JSON.
    ///
    /// # Errors
    /// No answer.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Option<&str>,
    ) -> Result<(u16, String)> {
        let url = format!("{}://localhost:{PORT}{path}", self.scheme);
        let mut args = vec!["--insecure", "--request", method, &url];
        for header in headers {
            args.extend(["--header", header]);
        }
        if let Some(body) = body {
            args.extend(["--header", "content-type: application/json", "--data", body]);
        }
        self.site.curl(&args).await
    }

    /// Is it running?
    ///
    /// # Errors
    /// It has ended. The error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.server.check_running()
    }

    /// Returns its log on stdout and stderr, or Apache's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.server.log()).unwrap_or_default()
    }
}
