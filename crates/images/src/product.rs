//! The images that Weft is made of.

use std::path::Path;

use crate::{Error, Image};

/// Whom Weft runs as: nobody in particular, but with a number, so that `runAsNonRoot` can be
/// checked.
const USER: u32 = 65532;

/// The image of the `weft` program: operator and command line. No shell, nothing to write to, not
/// root. `reference` is its full name with tag.
///
/// # Errors
/// The program cannot be read, or a library that it needs is missing.
pub fn weft(program: &Path, reference: &str) -> Result<Image, Error> {
    Ok(base(reference)
        .program("/usr/bin/weft", program)?
        .entrypoint(["/usr/bin/weft"])
        .user(USER, USER))
}

/// The image of the `weft-agent` program: no shell, no other program. Root, by number, as
/// NetworkManager asks for it. The pod says what of root's powers is left. D-Bus is where its
/// clients look for it: below /var/run.
///
/// # Errors
/// The program cannot be read, or a library that it needs is missing.
pub fn weft_agent(program: &Path, reference: &str) -> Result<Image, Error> {
    let image = base(reference)
        .directory("/run", 0o755)
        .symlink("/var/run", "/run");
    Ok(image
        .program("/usr/bin/weft-agent", program)?
        .entrypoint(["/usr/bin/weft-agent"])
        .user(0, 0))
}

/// The files that a C library expects. Names are resolved by DNS as the pod's resolv.conf says: its
/// own code does that, no module is loaded.
fn base(reference: &str) -> Image {
    Image::new(reference)
        .file(
            "/etc/passwd",
            format!("root:x:0:0:root:/:/none\nweft:x:{USER}:{USER}:Weft:/:/none\n"),
        )
        .file("/etc/group", format!("root:x:0:\nweft:x:{USER}:\n"))
        .file("/etc/nsswitch.conf", "hosts: files dns\n")
        .directory("/tmp", 0o1777)
        .env("PATH", "/usr/bin")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_agents_holds_one_program_and_finds_the_bus() {
        let image = weft_agent(
            &std::env::current_exe().unwrap(),
            "localhost/weft-agent:1.2.3",
        )
        .unwrap();
        assert_eq!(
            (image.reference(), image.user.as_deref()),
            ("localhost/weft-agent:1.2.3", Some("0:0"))
        );
        let programs: Vec<_> = image
            .entries
            .keys()
            .filter(|path| path.to_string_lossy().contains("bin/"))
            .collect();
        assert_eq!(programs, [Path::new("/usr/bin/weft-agent")]);
        let link = &image.entries[Path::new("/var/run")];
        assert!(
            matches!(link, crate::content::Entry::Symlink { target } if target == Path::new("/run")),
            "{link:?}"
        );
    }

    #[test]
    fn it_holds_one_program_no_shell_and_is_not_root() {
        let image = weft(&std::env::current_exe().unwrap(), "localhost/weft:1.2.3").unwrap();
        assert_eq!(image.reference(), "localhost/weft:1.2.3");
        assert_eq!(image.user.as_deref(), Some("65532:65532"));
        let programs: Vec<_> = image
            .entries
            .keys()
            .filter(|path| path.to_string_lossy().contains("bin/"))
            .collect();
        assert_eq!(programs, [Path::new("/usr/bin/weft")]);
    }
}
