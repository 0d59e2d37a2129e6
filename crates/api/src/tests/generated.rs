//! The files in `deploy/` and `docs/api/` are what the types say.

#[path = "../../examples/generate/files.rs"]
mod files;

#[test]
fn generated_files_are_up_to_date() {
    for (path, expected) in files::all() {
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{} is not up to date: run `cargo run -p weft-api --example generate`",
            path.display()
        );
    }
}
