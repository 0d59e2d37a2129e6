//! The images of real nodes have the names that Weft and the tutorials ask for.

use std::{fs, path::Path};

use weft_addons::Image;
use weft_testenv::lab::images::ASKED_FOR;

/// Another program's plugin, which Weft deploys only for an old form of Flannel.
const NOT_DEPLOYED: &str = "/flannel-cni-plugin:";

#[test]
fn real_nodes_have_the_names_of_images_that_are_asked_for() {
    let mut asked_for = vec![weft_placement::domain::IMAGE.to_owned()];
    let of_add_ons = [Image::Multus, Image::LinuxBridge, Image::LinuxBridgeMarker];
    asked_for.extend(of_add_ons.map(|image| image.default_reference().to_owned()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "components/flannel/daemonset.yaml",
        "components/kube-proxy/daemonset.yaml",
        "examples/tutorials/pod.yaml",
        "examples/tutorials/database.yaml",
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let images = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("image: "))
            .filter(|image| !image.starts_with("localhost/") && !image.contains(NOT_DEPLOYED));
        let before = asked_for.len();
        asked_for.extend(images.map(str::to_owned));
        assert!(asked_for.len() > before, "{file} names no image");
    }
    for name in &asked_for {
        let has_name = ASKED_FOR.iter().any(|(_, has)| has == name);
        assert!(has_name, "no image of real nodes is named {name}");
    }
    for (_, name) in ASKED_FOR {
        let is_asked = asked_for.iter().any(|asked| asked == name);
        assert!(is_asked, "nobody asks for {name} any more");
    }
}
