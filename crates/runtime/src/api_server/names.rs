//! Names of hosts in a program that is linked statically.

/// Makes the C library look names up in `/etc/hosts` and by DNS only. Call it first in `main`. It
/// does nothing in a program with shared libraries.
///
/// glibc loads a library for each other source in `/etc/nsswitch.conf`, such as `resolve` of
/// systemd. Such a library is for a program with the same shared glibc, so a static program that
/// loads it may crash (the linker warns of this). `files` and `dns` are in glibc itself since 2.34.
/// The static programs of other projects, such as kubectl, have these two sources as well.
pub fn look_up_by_files_and_dns() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    #[allow(unsafe_code, reason = "the call has no counterpart in a crate")]
    {
        use std::ffi::{c_char, c_int};

        unsafe extern "C" {
            /// nss.h: sets the sources of a database for this process. 0 is success.
            fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
        }
        // SAFETY: both are C strings that live forever, and no other thread runs yet. An error
        // leaves the sources as they are.
        unsafe {
            __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
        }
    }
}
