//! The clock of the fence after a machine has slept. Only a time namespace can have such a clock
//! without a machine that sleeps: `CLOCK_BOOTTIME` is ahead there, and `CLOCK_MONOTONIC` is not.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weft_runtime::{api_server::fence::Fence, boot_clock::BootInstant};

/// Set for the process in the namespace.
const INSIDE: &str = "WEFT_TEST_INSIDE";
/// How long the machine has slept, in seconds.
const SLEPT: u64 = 100_000;

#[test]
fn the_clock_of_the_fence_goes_on_while_the_machine_sleeps() {
    let now = BootInstant::now().since_boot().as_secs();
    if std::env::var_os(INSIDE).is_some() {
        println!("\nsince the boot: {now} s");
        return;
    }
    let name = "in_namespaces::boot_clock::the_clock_of_the_fence_goes_on_while_the_machine_sleeps";
    let inside = Command::new("unshare")
        .args(["--time", "--boottime", &SLEPT.to_string(), "--fork", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    let seconds = said
        .lines()
        .find_map(|line| line.strip_prefix("since the boot: ")?.strip_suffix(" s"));
    let seconds: u64 = seconds
        .unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&inside.stderr)))
        .parse()
        .unwrap();
    assert!(seconds >= now + SLEPT, "{seconds} s, and {now} s outside");
}

/// The error of a process in which the fence is open.
const OPEN: i32 = 16;

#[test]
fn the_fence_closes_with_its_lease_while_the_machine_sleeps() {
    // The namespace has its clock once a program runs in it.
    let mut asleep = Command::new("unshare")
        .args(["--time", "--boottime", &SLEPT.to_string(), "--fork"])
        .args(["--kill-child", "--", "sh", "-c", "echo; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = asleep.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let namespace = format!("/proc/{}/ns/time_for_children", asleep.id());
    let namespace = File::open(namespace).unwrap();

    let fence = Fence::default();
    fence.open_until(BootInstant::now() + Duration::from_secs(3600));
    // Runs a program, and looks at the fence in its process before that. The process has a copy of
    // the memory and one thread, so it can change its clock.
    let fence_after = |namespace: Option<File>| {
        let inside = fence.clone();
        let mut program = Command::new("true");
        let look = move || {
            if let Some(namespace) = &namespace {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Time))?;
            }
            match inside.is_open() {
                true => Err(io::Error::from_raw_os_error(OPEN)),
                false => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure makes system calls, and takes a lock that only
        // this thread has ever taken. It allocates nothing.
        #[allow(unsafe_code)]
        unsafe {
            program.pre_exec(look);
        }
        program.status().map_err(|error| error.raw_os_error())
    };
    let awake = fence_after(None);
    assert_eq!(awake.unwrap_err(), Some(OPEN), "an hour is not over");
    let slept = fence_after(Some(namespace));
    assert!(slept.unwrap().success(), "the fence is closed");
    assert!(fence.is_open(), "this process has the same clock as before");
    asleep.kill().unwrap();
    asleep.wait().unwrap();
}
