//! How the binary is linked, and the files that it takes in.

use std::{env, error::Error, ffi::OsStr, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        // The loader reads every relocation at start, so they stay in memory: packed (glibc 2.36,
        // binutils 2.38) they take a few kilobytes instead of a megabyte.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    definitions("../../deploy/crds", &env::var("OUT_DIR")?)
}

/// Writes each definition, which is YAML for people, as JSON: a hundred times as fast to read.
fn definitions(from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={from}");
    for file in fs::read_dir(from)? {
        let file = file?.path();
        let definition: serde_json::Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)?;
        let name = file
            .file_stem()
            .and_then(OsStr::to_str)
            .ok_or("a file without a name")?;
        fs::write(format!("{to}/{name}.json"), definition.to_string())?;
    }
    Ok(())
}
