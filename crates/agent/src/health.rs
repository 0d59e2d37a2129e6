//! How the agent is, for `weft-agent health`: over a socket of the file system that only root may
//! open. It listens on no network.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::watch,
};

/// A look at the host ends within two minutes, see [`crate::host`].
const LONGEST_LOOK: Duration = Duration::from_secs(300);
/// How long nobody is answered after a connection could not be accepted, for example because there
/// are no file descriptors left.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the agent may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The health of the process. Clones share it.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    changes: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct State {
    acts: bool,
    looked: bool,
    looking: Option<Instant>,
}

/// See [`Health::changes`].
pub struct Changing(Arc<watch::Sender<usize>>);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The answer to a question for the health of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// True if the process works as it should, also while it waits for its turn.
    pub live: bool,
    /// True if it acts on the host.
    pub ready: bool,
    /// The message, in one line.
    pub message: String,
}

impl Health {
    /// Notes that this process holds the lock and acts on the host.
    pub fn acts(&self) {
        self.state().acts = true;
    }

    /// Notes that a look at the host begins.
    pub fn looks(&self) {
        self.state().looking = Some(Instant::now());
    }

    /// Notes that the look has ended. `seen` is true if the host could be read.
    pub fn looked(&self, seen: bool) {
        let mut state = self.state();
        state.looking = None;
        state.looked |= seen;
    }

    /// A change of the host has begun, and has not ended for as long as this lives.
    #[must_use]
    pub fn changes(&self) -> Changing {
        self.changes.send_modify(|count| *count += 1);
        Changing(Arc::clone(&self.changes))
    }

    /// How many changes are under way, now and later.
    pub fn under_way(&self) -> watch::Receiver<usize> {
        self.changes.subscribe()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> Answer {
        let state = self.state();
        let stuck = state
            .looking
            .map(|begun| begun.elapsed())
            .filter(|took| *took > LONGEST_LOOK);
        let (live, ready, message) = match (&*state, stuck) {
            (_, Some(took)) => (
                false,
                false,
                format!("a look at the host has not ended for {} s", took.as_secs()),
            ),
            (State { acts: false, .. }, _) => (
                true,
                false,
                "waiting for another agent to release the lock".to_owned(),
            ),
            (State { looked: false, .. }, _) => (
                true,
                false,
                "the network of the host has not been read yet".to_owned(),
            ),
            _ => (true, true, "ok".to_owned()),
        };
        Answer {
            live,
            ready,
            message,
        }
    }
}

/// Where the agent of this pod answers. The folder is the host's, and others may have agents there
/// too while one is replaced by the next.
pub fn socket(state_dir: &Path) -> PathBuf {
    let name = std::env::var("POD_NAME")
        .ok()
        .filter(|name| !name.is_empty() && !name.contains('/'));
    state_dir.join(format!(
        "health.{}.sock",
        name.as_deref().unwrap_or("agent")
    ))
}

/// Answers at this socket until the process ends, and removes those that dead agents left next to
/// it.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(health: Health, socket: &Path) -> io::Result<()> {
    for entry in socket
        .parent()
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one = name.starts_with("health.") && name.ends_with(".sock");
        if is_one
            && (entry.path() == socket
                || std::os::unix::net::UnixStream::connect(entry.path()).is_err())
        {
            fs::remove_file(entry.path())?;
        }
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let answer = serde_json::to_vec(&health.answer()).unwrap_or_default();
            // The client may have gone.
            let _ = tokio::time::timeout(ANSWER_LIMIT, stream.write_all(&answer)).await;
        }
    });
    Ok(())
}

/// Asks the agent that answers at this socket.
///
/// # Errors
/// None answers.
pub async fn ask(socket: &Path) -> io::Result<Answer> {
    let asking = async {
        let mut answer = Vec::new();
        UnixStream::connect(socket)
            .await?
            .read_to_end(&mut answer)
            .await?;
        serde_json::from_slice(&answer).map_err(io::Error::other)
    };
    tokio::time::timeout(ANSWER_LIMIT, asking)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn it_is_ready_when_it_acts_and_has_seen_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("health.mine.sock");
        let health = Health::default();
        serve(health.clone(), &socket).unwrap();
        assert_eq!(
            fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let ready = async || {
            let answer = ask(&socket).await.unwrap();
            assert!(answer.live);
            (answer.ready, answer.message)
        };
        assert!(!ready().await.0);
        assert!(ready().await.1.contains("lock"));
        health.acts();
        assert!(ready().await.1.contains("not been read yet"));
        health.looks();
        health.looked(false);
        assert!(!ready().await.0, "it has not seen it");
        health.looks();
        health.looked(true);
        assert_eq!(ready().await, (true, "ok".to_owned()));
        health.state().looking = Instant::now().checked_sub(LONGEST_LOOK + Duration::from_secs(1));
        assert!(!ask(&socket).await.unwrap().live);
    }

    #[tokio::test]
    async fn sockets_of_the_dead_are_removed_and_those_of_the_living_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(format!("health.{name}.sock"));
        drop(std::os::unix::net::UnixListener::bind(at("dead")).unwrap());
        drop(std::os::unix::net::UnixListener::bind(at("mine")).unwrap());
        let _living = std::os::unix::net::UnixListener::bind(at("living")).unwrap();
        serve(Health::default(), &at("mine")).unwrap();
        assert!(!at("dead").exists() && at("living").exists());
        ask(&at("mine")).await.unwrap();
        assert!(ask(&at("nobody")).await.is_err());
    }
}
