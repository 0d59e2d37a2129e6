//! The images that Operator Lifecycle Manager reads: they hold files and no program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::{Error, Image};

/// `metadata/annotations.yaml` of a bundle
/// (<https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/>).
#[derive(Deserialize)]
struct Annotations {
    annotations: BTreeMap<String, String>,
}

/// The image of a bundle, for each platform. `folder` has the subfolders `manifests` and
/// `metadata`. The annotations of the bundle are the image's labels.
///
/// # Errors
/// A file cannot be read, or `metadata/annotations.yaml` is no list of annotations.
pub fn bundle(folder: &Path, reference: &str) -> Result<[Image; 2], Error> {
    let path = folder.join("metadata/annotations.yaml");
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    let listed: Annotations = serde_saphyr::from_str(&text)
        .map_err(|error| Error::file(&path)(std::io::Error::other(error.to_string())))?;
    let image = Image::new(reference)
        .tree("/manifests", folder.join("manifests"))?
        .tree("/metadata", folder.join("metadata"))?;
    let image = listed
        .annotations
        .iter()
        .fold(image, |image, (name, value)| image.label(name, value));
    Ok(image.for_each_platform())
}

/// The image of a file-based catalog, for each platform. The files of `folder` are below
/// `/configs`, as the label says
/// (<https://olm.operatorframework.io/docs/reference/file-based-catalogs/>). The image holds no
/// server, so the CatalogSource needs `grpcPodConfig.extractContent`.
///
/// # Errors
/// A file cannot be read.
pub fn catalog(folder: &Path, reference: &str) -> Result<[Image; 2], Error> {
    Ok(Image::new(reference)
        .tree("/configs", folder)?
        .label(
            "operators.operatorframework.io.index.configs.v1",
            "/configs",
        )
        .for_each_platform())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_bundle_has_its_annotations_as_labels() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("manifests/a.yaml", "a: 1\n");
        write(
            "metadata/annotations.yaml",
            "annotations:\n  operators.operatorframework.io.bundle.package.v1: weft\n",
        );
        let images = bundle(folder.path(), "localhost/weft-bundle:1").unwrap();
        for image in &images {
            let files: Vec<_> = image
                .entries
                .keys()
                .map(|path| path.display().to_string())
                .collect();
            assert_eq!(
                files,
                [
                    "/manifests",
                    "/manifests/a.yaml",
                    "/metadata",
                    "/metadata/annotations.yaml"
                ]
            );
            assert_eq!(
                image.labels["operators.operatorframework.io.bundle.package.v1"],
                "weft"
            );
        }
        assert_ne!(images[0].architecture, images[1].architecture);

        write("metadata/annotations.yaml", "annotations: [1]\n");
        let error = bundle(folder.path(), "localhost/weft-bundle:1").unwrap_err();
        assert!(error.to_string().contains("annotations.yaml"), "{error}");
    }
}
