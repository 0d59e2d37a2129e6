//! How the process takes memory from the system, and gives it back.

/// To be called before a second thread begins.
///
/// glibc gives each thread a heap of its own (an arena). Here one thread reads the host and another
/// one reports it, in turns: each heap would keep what its thread needs at most, and on a host with
/// a thousand interfaces the second one costs 30 MB. With one heap, what one thread has freed
/// serves the other. glibc also raises its thresholds for large blocks to what was freed once, and
/// then keeps such blocks. Numbers that are set stay (mallopt(3), `M_MMAP_THRESHOLD`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_one() {
    const LARGE: libc::c_int = 128 * 1024;
    // SAFETY: `mallopt` takes numbers, and no other thread is there yet that could allocate.
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// Other allocators have rules of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_one() {}
