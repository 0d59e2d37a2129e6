//! The processor time of the programs that a test starts, for the table of `scripts/test`.

use std::{fs, io::Write};

/// Names the file that [`record`] adds lines to.
const FILE: &str = "WEFT_TEST_USAGE";

/// Clock ticks a second in `/proc/<pid>/stat`: `USER_HZ` of Linux.
const TICKS: u64 = 100;

/// Adds a line about a program that is about to end: the test, the program, its processor time and
/// its life so far in milliseconds, with tabs between them. The test is the name of this thread, as
/// libtest sets it. Without `WEFT_TEST_USAGE`, nothing is done.
pub fn record(program: &str, pid: u32) {
    record_since(program, pid, 0);
}

/// The same for a program that continues for another test. `before` is the processor time that is
/// recorded already. Returns the new one.
pub(crate) fn record_since(program: &str, pid: u32, before: u64) -> u64 {
    let Some((processor, life)) = read(pid) else {
        return before;
    };
    let Some(file) = std::env::var_os(FILE) else {
        return processor;
    };
    let used = processor.saturating_sub(before);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("(another thread)");
    let line = format!("{test}\t{program}\t{used}\t{life}\n");
    // A line that is missing costs no test.
    if let Ok(mut file) = fs::File::options().create(true).append(true).open(file) {
        let _ = file.write_all(line.as_bytes());
    }
    processor
}

/// Processor time and life of a process in milliseconds: the fields 14, 15 and 22 of
/// `proc_pid_stat(5)`, and the first one of `proc_uptime(5)`.
fn read(pid: u32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may hold anything.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let now = (uptime * 1000.0) as u64;
    let started = ticks(22)? * 1000 / TICKS;
    Some((
        (ticks(14)? + ticks(15)?) * 1000 / TICKS,
        now.saturating_sub(started),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_is_read() {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
        while std::time::Instant::now() < until {}
        let (processor, life) = read(std::process::id()).unwrap_or_default();
        assert!(processor >= 10 && life >= 50, "{processor} {life}");
        assert_eq!(read(0), None);
    }
}
