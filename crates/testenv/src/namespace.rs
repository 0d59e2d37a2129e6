//! A host for tests: a network namespace of its own, without NetworkManager.
//!
//! A namespace lives as long as the threads in it, so nothing is left behind, also when a test
//! fails.

#![allow(clippy::expect_used)]

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::{Once, mpsc},
    thread,
};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs this in a network namespace of its own. Threads and processes that it starts are in it too.
pub fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    no_bus();
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: file descriptors stay shared with the other threads. Only the network
            // namespace is a new one.
            #[allow(unsafe_code)]
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .expect("a network namespace can be made only by root (CAP_SYS_ADMIN)");
            ip("link set lo up");
            work()
        });
        match inside.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The NetworkManager of the machine that tests run on is no part of them.
fn no_bus() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: every test begins with this, and what reads the environment in this process is
        // Rust, which locks it.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
        }
    });
}

/// Runs `ip` with these arguments.
pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("iproute2 is installed");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `ip -batch` with these lines.
///
/// # Panics
/// It fails.
pub fn ip_batch(lines: &str) {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("iproute2 is installed");
    let written = child
        .stdin
        .take()
        .map(|mut to| to.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("ip ends");
    assert!(
        output.status.success() && matches!(written, Some(Ok(()))),
        "{lines}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A network namespace of its own next to the test's: the test itself stays where the API server
/// is.
pub struct Namespace {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Namespace {
    /// With nothing in it but `lo`.
    pub fn new() -> Self {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread =
            thread::spawn(move || in_namespace(|| queue.into_iter().for_each(|job| job())));
        Self {
            jobs: Some(jobs),
            thread: Some(thread),
        }
    }

    /// Runs this in it.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let job: Job = Box::new(move || tell.send(work()).expect("the test waits"));
        self.jobs
            .as_ref()
            .expect("it lives")
            .send(job)
            .expect("it has not failed");
        told.recv().expect("it has not failed")
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}
