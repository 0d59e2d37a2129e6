//! A clock that is wrong, and that a test may set while a program runs.
//!
//! A library that is loaded before the C library answers `clock_gettime` (`wrong_clock.c`). The
//! programs of a development build and of `cargo build --release` are linked with the C library
//! dynamically, so they ask this one. `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` stay right: nobody can
//! set them. A time namespace shifts only these two.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("wrong_clock.c");

/// The time of the programs that are started with its variables.
#[derive(Debug)]
pub struct WrongClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl WrongClock {
    /// A clock that is ahead by this many seconds, or behind if there are fewer than none. Its files
    /// are in this folder, with this name.
    ///
    /// # Errors
    /// There is no C compiler, or the folder cannot be written.
    pub fn ahead(folder: &Path, name: &str, seconds: i64) -> Result<Self> {
        let (source, library) = (
            folder.join(format!("clock-{name}.c")),
            folder.join(format!("clock-{name}.so")),
        );
        fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .context("the C compiler cc does not run")?;
        ensure!(
            compiled.status.success(),
            "cc: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        let path = folder.join(format!("clock-{name}"));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        let clock = Self {
            library,
            path,
            file,
        };
        clock.set(seconds)?;
        Ok(clock)
    }

    /// Sets the clock: from now on it is ahead by this many seconds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // In place: programs have mapped the file, and must never see it shorter.
        Ok(self.file.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    /// The variables of a program that is to have this clock.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("WEFT_TEST_CLOCK", self.path.display().to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_program_sees_the_wrong_time_and_its_change() {
        let folder = tempfile::tempdir().unwrap();
        let clock = WrongClock::ahead(folder.path(), "test", 7200).unwrap();
        let seen = || {
            let output = Command::new("date")
                .arg("+%s")
                .envs(clock.variables())
                .output()
                .unwrap();
            let seconds: i64 = String::from_utf8(output.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            seconds - Timestamp::now().as_second()
        };
        assert!((7190..=7210).contains(&seen()), "{}", seen());
        clock.set(-7200).unwrap();
        assert!((-7210..=-7190).contains(&seen()), "{}", seen());
    }
}
