//! The container image: an archive in the layout of the Open Container Initiative (image-spec 1.0), with one layer that holds a
//! static program and nothing else that runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{CONFIGURATION, DATA, configuration, epoch, fresh, settle, strip, write};
use crate::process;

/// The user and the group that the server runs as: the number that other images without root use.
const USER: &str = "65532";

/// Makes the image of a static program in `folder`, and returns the path of its archive.
pub(crate) fn make(program: &Path, folder: &Path) -> Result<PathBuf, String> {
    let epoch = epoch()?;
    let layout = folder.join("image");
    fresh(&layout)?;
    let layer = layer(program, folder, &epoch)?;
    // The configuration names layers as they are before they are compressed.
    let plain = digest(&layer)?;
    super::compress(&layer)?;
    let layer = layer.with_extension("tar.gz");
    let layer = blob(&layout, &layer, "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = document(&layout, &config(&plain, &epoch)?, "application/vnd.oci.image.config.v1+json")?;
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media, "config": config, "layers": [layer]});
    let mut manifest = document(&layout, &manifest, media)?;
    // What podman calls the image that it loads.
    let name = concat!("holdfast:", env!("CARGO_PKG_VERSION"));
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    write(&layout, "index.json", json!({"schemaVersion": 2, "manifests": [manifest]}).to_string())?;
    write(&layout, "oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    settle(&layout, &epoch)?;
    let archive = folder.join(format!("holdfast-{}-{}.oci.tar", env!("CARGO_PKG_VERSION"), architecture()));
    tar(&archive, &layout, "-cf", "0", &epoch, &["."])?;
    fs::remove_dir_all(&layout).map_err(process::at(&layout))?;
    Ok(archive)
}

/// Archives the files of the image: first those of root, then the data directory with its owner.
fn layer(program: &Path, folder: &Path, epoch: &str) -> Result<PathBuf, String> {
    let tree = folder.join("root");
    fresh(&tree)?;
    strip(program, &tree.join("usr/bin/holdfast"))?;
    write(&tree, CONFIGURATION, configuration(program, Some("[\"0.0.0.0:2049\", \"[::]:2049\"]"))?)?;
    write(&tree, "etc/passwd", format!("root:x:0:0::/:/\nholdfast:x:{USER}:{USER}::{DATA}:/\n"))?;
    write(&tree, "etc/group", format!("root:x:0:\nholdfast:x:{USER}:\n"))?;
    let data = DATA.trim_start_matches('/');
    let path = tree.join(data);
    fs::create_dir_all(&path).map_err(process::at(&path))?;
    settle(&tree, epoch)?;
    let layer = folder.join("layer.tar");
    tar(&layer, &tree, "-cf", "0", epoch, &["etc", "usr"])?;
    tar(&layer, &tree, "-rf", "0", epoch, &["--no-recursion", "var", "var/lib"])?;
    tar(&layer, &tree, "-rf", USER, epoch, &["--mode=0700", data])?;
    fs::remove_dir_all(&tree).map_err(process::at(&tree))?;
    Ok(layer)
}

/// Creates (`-cf`) or extends (`-rf`) an archive by files of `folder`, the same bytes each time.
fn tar(
    archive: &Path,
    folder: &Path,
    action: &str,
    owner: &str,
    epoch: &str,
    files: &[&str],
) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.arg(action).arg(archive).arg("-C").arg(folder).args([
        "--format=ustar",
        "--sort=name",
        "--numeric-owner",
    ]);
    tar.args([format!("--owner={owner}"), format!("--group={owner}"), format!("--mtime=@{epoch}")])
        .args(files);
    process::output(&mut tar).map(|_| ())
}

/// How the image is started.
fn config(layer: &str, epoch: &str) -> Result<Value, String> {
    let date = ["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"];
    let created = process::output(Command::new("date").args(date))?;
    Ok(json!({
        "created": created.trim(),
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"2049/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/holdfast"],
            "Cmd": ["serve", "--config", format!("/{CONFIGURATION}")],
            "Volumes": {DATA: {}},
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "holdfast",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": created.trim(), "created_by": "cargo xtask package image"}],
    }))
}

/// The architecture as the specification names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Stores a JSON document as a blob, and describes it.
fn document(layout: &Path, value: &Value, media: &str) -> Result<Value, String> {
    write(layout, "blobs/sha256/document", value.to_string())?;
    blob(layout, &layout.join("blobs/sha256/document"), media)
}

/// Moves a file to the blobs, and describes it.
fn blob(layout: &Path, path: &Path, media: &str) -> Result<Value, String> {
    let digest = digest(path)?;
    let size = File::open(path).and_then(|file| file.metadata()).map_err(process::at(path))?.len();
    let folder = layout.join("blobs/sha256");
    fs::create_dir_all(&folder).map_err(process::at(&folder))?;
    fs::rename(path, folder.join(digest.trim_start_matches("sha256:"))).map_err(process::at(path))?;
    Ok(json!({"mediaType": media, "digest": digest, "size": size}))
}

/// The digest of a file, such as sha256:0123.
fn digest(path: &Path) -> Result<String, String> {
    let sum = process::output(Command::new("sha256sum").arg(path))?;
    Ok(format!("sha256:{}", sum.split_whitespace().next().unwrap_or_default()))
}
