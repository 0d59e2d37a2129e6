//! Returns memory that a reconcile used for a moment to the system.

/// Gives free pages back. glibc keeps them in case they are needed soon. An operator waits most of
/// the time, and a sixth of what it had allocated was such pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    // SAFETY: `malloc_trim` has no preconditions. It looks at free memory alone, under the
    // allocator's own locks (malloc_trim(3)).
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators have rules of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
