//! The clock of the fence after a machine has slept. Only a time namespace can have such a clock
//! without a machine that sleeps: `CLOCK_BOOTTIME` is ahead there, and `CLOCK_MONOTONIC` is not.

use std::process::Command;

use weft_runtime::boot_clock::BootInstant;

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
