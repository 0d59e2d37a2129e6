//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        // The loader reads every relocation at start, so they stay in memory: packed (glibc 2.36, binutils 2.38) they take a few
        // kilobytes instead of a megabyte.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
