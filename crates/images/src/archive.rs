//! The archive: an OCI image layout in a tar file.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use oci_spec::image::{
    ConfigBuilder, Descriptor, ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder,
    MediaType, OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION, Sha256Digest,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Error,
    content::{Entry, Image},
};

impl Image {
    /// Writes the archive, whole or not at all, and returns its size in bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        let (manifest, mut blobs) = self.manifest(path.as_ref())?;
        let descriptor = manifest.descriptor.clone();
        blobs.push(manifest);
        write_layout(path.as_ref(), &self.names(), &descriptor, blobs)
    }

    /// Writes one archive with the same image for several platforms: an index with a manifest for
    /// each, which the archive's own index names (as `docker buildx build --output type=oci` does).
    /// The first image names all of them.
    ///
    /// # Errors
    /// No image is given, two are for one platform, or the file cannot be written.
    pub fn write_platforms(images: &[Self], path: impl AsRef<Path>) -> Result<u64, Error> {
        let path = path.as_ref();
        let first = images.first().ok_or(Error::NoPlatform)?;
        let mut platforms: Vec<Descriptor> = vec![];
        let mut blobs = vec![];
        for image in images {
            let (manifest, parts) = image.manifest(path)?;
            let mut descriptor = manifest.descriptor.clone();
            let platform = PlatformBuilder::default()
                .os(Os::Linux)
                .architecture(image.architecture.clone())
                .build()?;
            if platforms
                .iter()
                .any(|other| other.platform().as_ref() == Some(&platform))
            {
                return Err(Error::SamePlatform {
                    architecture: image.architecture.to_string(),
                });
            }
            descriptor.set_platform(Some(platform));
            platforms.push(descriptor);
            blobs.extend(parts);
            blobs.push(manifest);
        }
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests(platforms)
            .build()?;
        let index = Blob::json(MediaType::ImageIndex, &index)?;
        let descriptor = index.descriptor.clone();
        blobs.push(index);
        write_layout(path, &first.names(), &descriptor, blobs)
    }

    /// The full name and the further ones.
    fn names(&self) -> Vec<&str> {
        let also = self.also.iter().map(String::as_str);
        std::iter::once(self.reference.as_str())
            .chain(also)
            .collect()
    }

    /// The manifest, and the configuration and the layer that it names.
    fn manifest(&self, path: &Path) -> Result<(Blob, Vec<Blob>), Error> {
        let layer = self.layer().map_err(Error::file(path))?;
        // Not compressed: its digest is the diff ID, too, and whoever pushes it to a registry
        // compresses it.
        let layer = Blob::new(MediaType::ImageLayer, layer)?;
        let config = Blob::json(MediaType::ImageConfig, &self.configuration(&layer)?)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config.descriptor.clone())
            .layers([layer.descriptor.clone()])
            .build()?;
        let manifest = Blob::json(MediaType::ImageManifest, &manifest)?;
        Ok((manifest, vec![config, layer]))
    }

    fn configuration(&self, layer: &Blob) -> Result<impl Serialize + use<>, Error> {
        let mut config = ConfigBuilder::default()
            .entrypoint(self.entrypoint.clone())
            .env(self.env.clone());
        if !self.labels.is_empty() {
            config = config.labels(self.labels.clone().into_iter().collect::<HashMap<_, _>>());
        }
        if let Some(user) = &self.user {
            config = config.user(user.clone());
        }
        let root = RootFsBuilder::default()
            .typ("layers")
            .diff_ids([layer.descriptor.digest().to_string()])
            .build()?;
        // No date of creation: the same content must be the same image.
        Ok(ImageConfigurationBuilder::default()
            .os(Os::Linux)
            .architecture(self.architecture.clone())
            .config(config.build()?)
            .rootfs(root)
            .build()?)
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(vec![]);
        for (path, entry) in &self.entries {
            let inside = path.strip_prefix("/").unwrap_or(path);
            match entry {
                Entry::Directory { mode } => {
                    tar.append_data(
                        &mut header(tar::EntryType::Directory, *mode, 0),
                        inside,
                        io::empty(),
                    )?;
                }
                Entry::File { content, mode } => {
                    tar.append_data(
                        &mut header(tar::EntryType::Regular, *mode, content.len() as u64),
                        inside,
                        content.as_slice(),
                    )?;
                }
                Entry::Symlink { target } => {
                    tar.append_link(
                        &mut header(tar::EntryType::Symlink, 0o777, 0),
                        inside,
                        target,
                    )?;
                }
            }
        }
        tar.into_inner()
    }
}

/// Writes the layout whose index names `content` by each of these references.
fn write_layout(
    path: &Path,
    references: &[&str],
    content: &Descriptor,
    blobs: Vec<Blob>,
) -> Result<u64, Error> {
    // The first is containerd's, the second the standard's. Podman takes a full name there as
    // well.
    let annotations = [
        "io.containerd.image.name",
        "org.opencontainers.image.ref.name",
    ];
    let manifests: Vec<Descriptor> = references
        .iter()
        .map(|reference| {
            let mut named = content.clone();
            named.set_annotations(Some(
                annotations
                    .map(|name| (name.to_owned(), (*reference).to_owned()))
                    .into(),
            ));
            named
        })
        .collect();
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(manifests)
        .build()?;
    let layout = OciLayoutBuilder::default()
        .image_layout_version("1.0.0")
        .build()?;

    let mut files = vec![
        ("oci-layout".to_owned(), json(&layout)?),
        ("index.json".to_owned(), json(&index)?),
    ];
    for blob in blobs {
        files.push((
            format!("blobs/sha256/{}", blob.descriptor.digest().digest()),
            blob.content,
        ));
    }
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    write_tar(&unfinished, &files)
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(Error::file(path))?;
    fs::metadata(path)
        .map(|metadata| metadata.len())
        .map_err(Error::file(path))
}

/// Of root, and of no time.
fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn write_tar(path: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut tar = tar::Builder::new(io::BufWriter::new(fs::File::create(path)?));
    for (name, content) in files {
        tar.append_data(
            &mut header(tar::EntryType::Regular, 0o644, content.len() as u64),
            name,
            content.as_slice(),
        )?;
    }
    tar.into_inner()?.flush()
}

/// By way of a value, which can be sorted: annotations are kept in a map without order.
fn json(document: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut value = serde_json::to_value(document)?;
    value.sort_all_objects();
    Ok(serde_json::to_vec(&value)?)
}

struct Blob {
    descriptor: Descriptor,
    content: Vec<u8>,
}

impl Blob {
    fn new(media_type: MediaType, content: Vec<u8>) -> Result<Self, Error> {
        let digest = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let descriptor = Descriptor::new(
            media_type,
            content.len() as u64,
            Sha256Digest::from_str(&digest)?,
        );
        Ok(Self {
            descriptor,
            content,
        })
    }

    fn json(media_type: MediaType, document: &impl Serialize) -> Result<Self, Error> {
        Self::new(media_type, json(document)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::BTreeMap;
    use std::io::Read;

    use oci_spec::image::{Arch, ImageConfiguration, ImageIndex, ImageManifest};

    use super::*;

    fn read(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = vec![];
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    fn image() -> Image {
        Image::new("localhost/x:1")
            .file("/etc/passwd", "root:x:0:0::/:\n")
            .symlink("/var/run", "/run")
            .entrypoint(["/x"])
            .user(65532, 65532)
    }

    #[test]
    fn each_part_of_the_archive_is_found_by_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/x.tar");
        let size = image().write(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(size, bytes.len() as u64);
        let files = read(&bytes);
        let blob = |descriptor: &Descriptor| {
            let content = &files[&format!("blobs/sha256/{}", descriptor.digest().digest())];
            assert_eq!(descriptor.size(), content.len() as u64);
            let digest: String = Sha256::digest(content)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(descriptor.digest().digest(), digest);
            content.as_slice()
        };
        let index = ImageIndex::from_reader(files["index.json"].as_slice()).unwrap();
        let named = &index.manifests()[0];
        assert_eq!(
            named.annotations().as_ref().unwrap()["io.containerd.image.name"],
            "localhost/x:1"
        );
        let manifest = ImageManifest::from_reader(blob(named)).unwrap();
        let config = ImageConfiguration::from_reader(blob(manifest.config())).unwrap();
        assert_eq!(
            config.config().as_ref().unwrap().user().as_deref(),
            Some("65532:65532")
        );
        assert_eq!(
            config.rootfs().diff_ids(),
            &[manifest.layers()[0].digest().to_string()]
        );
        let layer = read(blob(&manifest.layers()[0]));
        let names: Vec<_> = layer.keys().map(String::as_str).collect();
        assert_eq!(names, ["etc", "etc/passwd", "var", "var/run"]);
    }

    #[test]
    fn an_image_has_each_of_its_names_in_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let image = image().also_named("registry.example/y@sha256:0b");
        image.write(&path).unwrap();
        let files = read(&fs::read(&path).unwrap());
        let index = ImageIndex::from_reader(files["index.json"].as_slice()).unwrap();
        let names: Vec<_> = index
            .manifests()
            .iter()
            .map(|named| {
                assert_eq!(named.digest(), index.manifests()[0].digest());
                named.annotations().as_ref().unwrap()["io.containerd.image.name"].clone()
            })
            .collect();
        assert_eq!(names, ["localhost/x:1", "registry.example/y@sha256:0b"]);
        assert_eq!(
            files.len(),
            5,
            "each blob is there once: {:?}",
            files.keys()
        );
    }

    #[test]
    fn one_archive_holds_the_image_of_each_platform() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let of = |architecture| Image {
            architecture,
            ..image()
        };
        Image::write_platforms(&[of(Arch::Amd64), of(Arch::ARM64)], &path).unwrap();
        let files = read(&fs::read(&path).unwrap());
        let blob = |descriptor: &Descriptor| {
            files[&format!("blobs/sha256/{}", descriptor.digest().digest())].as_slice()
        };
        let outer = ImageIndex::from_reader(files["index.json"].as_slice()).unwrap();
        let [named] = outer.manifests().as_slice() else {
            panic!("one name, one entry: {outer:?}")
        };
        assert_eq!(
            named.annotations().as_ref().unwrap()["org.opencontainers.image.ref.name"],
            "localhost/x:1"
        );
        let platforms = ImageIndex::from_reader(blob(named)).unwrap();
        let found: Vec<_> = platforms
            .manifests()
            .iter()
            .map(|of| {
                let manifest = ImageManifest::from_reader(blob(of)).unwrap();
                let config = ImageConfiguration::from_reader(blob(manifest.config())).unwrap();
                let platform = of.platform().as_ref().unwrap();
                assert_eq!(platform.architecture(), config.architecture());
                format!("{}/{}", platform.os(), platform.architecture())
            })
            .collect();
        assert_eq!(found, ["linux/amd64", "linux/arm64"]);

        let twice = Image::write_platforms(&[of(Arch::ARM64), of(Arch::ARM64)], &path);
        assert!(twice.unwrap_err().to_string().contains("arm64"));
        assert!(Image::write_platforms(&[], &path).is_err());
    }

    #[test]
    fn the_same_content_is_the_same_archive() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            image().write(&path).unwrap();
            fs::read(path).unwrap()
        };
        assert!(write("a.tar") == write("b.tar"));
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "nothing unfinished is left"
        );
    }
}
