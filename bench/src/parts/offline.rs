//! Runs of the command line without a cluster.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Between two looks at the memory of a run: small next to what is measured.
const PAUSE: Duration = Duration::from_millis(2);

/// Time and memory of a run.
pub struct Run {
    pub seconds: f64,
    /// The most memory that was resident, as the kernel keeps it. It misses growth after the last
    /// look.
    pub mebibytes: f64,
}

/// Runs weft with these arguments, and expects that it ends with this code.
///
/// # Errors
/// It cannot be started, or it ends with another code.
pub fn run<A: AsRef<OsStr>>(weft: &Path, arguments: &[A], expected: i32) -> Result<Run> {
    let start = Instant::now();
    let mut child = Command::new(weft)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("weft cannot be started")?;
    // A full pipe would stop the run.
    let stderr = child.stderr.take();
    let said = thread::spawn(move || {
        stderr
            .and_then(|stderr| io::read_to_string(stderr).ok())
            .unwrap_or_default()
    });
    let mut mebibytes = 0.0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        mebibytes = peak(child.id()).unwrap_or(mebibytes);
        thread::sleep(PAUSE);
    };
    let seconds = start.elapsed().as_secs_f64();
    if status.code() != Some(expected) {
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        let said = said.join().unwrap_or_default();
        bail!(
            "weft {arguments:?} ended with {status}, and {expected} was expected: {}",
            said.trim()
        );
    }
    Ok(Run { seconds, mebibytes })
}

/// The most memory that a process had so far. None if it has ended.
fn peak(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

/// A folder for the files of a part, which goes with it.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes the folder of this part.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(part: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weft-bench-{part}-{}", std::process::id()));
        fs::create_dir_all(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
