//! The Debian package: a tree of files and its control files, packed by dpkg-deb.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{CONFIGURATION, compress, configuration, copy, epoch, fresh, settle, strip, write};
use crate::process::{self, root};

/// What a cluster manager runs.
const RESOURCE_AGENT: &str = "usr/lib/ocf/resource.d/holdfast/group";

/// Files of the repository, and where the package installs them.
const FILES: &[(&str, &str)] = &[
    ("package/holdfast.service", "usr/lib/systemd/system/holdfast.service"),
    ("package/holdfast-node.service", "usr/lib/systemd/system/holdfast-node.service"),
    ("package/holdfast-group@.service", "usr/lib/systemd/system/holdfast-group@.service"),
    ("package/cluster/group", RESOURCE_AGENT),
    ("package/cluster/drbd-reactor.toml", "usr/share/holdfast/cluster/drbd-reactor.toml"),
    ("package/debian/copyright", "usr/share/doc/holdfast/copyright"),
    ("package/debian/lintian-overrides", "usr/share/lintian/overrides/holdfast"),
    ("package/prometheus/alerts.yml", "usr/share/holdfast/prometheus/alerts.yml"),
    ("package/grafana/holdfast.json", "usr/share/holdfast/grafana/holdfast.json"),
    ("CHANGELOG.md", "usr/share/doc/holdfast/changelog"),
];

/// Documents that operators read, installed beside the changelog.
const DOCUMENTS: &[&str] = &[
    "administration",
    "alerts",
    "backup",
    "bench",
    "cluster",
    "configuration",
    "damage",
    "homes",
    "installation",
    "metrics",
    "rados",
    "security",
    "semantics",
    "state-and-locks",
];

/// What completions are called, by shell.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/holdfast"),
    ("zsh", "usr/share/zsh/vendor-completions/_holdfast"),
    ("fish", "usr/share/fish/vendor_completions.d/holdfast.fish"),
];

/// The scripts that dpkg calls.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Who answers questions about the package.
const MAINTAINER: &str = "The authors of Holdfast <holdfast@example.org>";

/// Makes the package of `program` with this version in `folder`, and returns its path.
pub(super) fn make(program: &Path, folder: &Path, version: &str) -> Result<PathBuf, String> {
    let epoch = epoch()?;
    let tree = folder.join("deb");
    fresh(&tree)?;
    install(program, &tree, version, &epoch)?;
    let architecture = process::output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    control(&tree, version, architecture)?;
    settle(&tree, &epoch)?;
    let agent = tree.join(RESOURCE_AGENT);
    fs::set_permissions(&agent, Permissions::from_mode(0o755)).map_err(process::at(&agent))?;
    for script in SCRIPTS {
        let path = tree.join("DEBIAN").join(script);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(process::at(&path))?;
    }
    let package = folder.join(format!("holdfast_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&package);
    process::output(pack.env("SOURCE_DATE_EPOCH", &epoch))?;
    fs::remove_dir_all(&tree).map_err(process::at(&tree))?;
    Ok(package)
}

/// Puts the files in their places.
fn install(program: &Path, tree: &Path, version: &str, epoch: &str) -> Result<(), String> {
    strip(program, &tree.join("usr/bin/holdfast"))?;
    for (from, to) in FILES {
        copy(tree, to, from)?;
    }
    for name in DOCUMENTS {
        copy(tree, &format!("usr/share/doc/holdfast/{name}.md"), &format!("docs/{name}.md"))?;
    }
    write(tree, CONFIGURATION, configuration(program, None)?)?;
    for (shell, path) in COMPLETIONS {
        write(tree, path, process::output(Command::new(program).args(["completions", shell]))?)?;
    }
    let pages = tree.join("usr/share/man/man1");
    process::output(Command::new(program).arg("man").arg(&pages))?;
    for page in fs::read_dir(&pages).map_err(process::at(&pages))? {
        compress(&page.map_err(process::at(&pages))?.path())?;
    }
    let date =
        process::output(Command::new("date").args(["--rfc-email", "--utc", "--date", &format!("@{epoch}")]))?;
    let entry = format!(
        "holdfast ({version}) unstable; urgency=medium\n\n  * See /usr/share/doc/holdfast/changelog.gz.\n\n -- {MAINTAINER}  {date}"
    );
    write(tree, "usr/share/doc/holdfast/changelog.Debian", entry)?;
    for name in ["changelog", "changelog.Debian"] {
        compress(&tree.join("usr/share/doc/holdfast").join(name))?;
    }
    Ok(())
}

/// Writes the control files.
fn control(tree: &Path, version: &str, architecture: &str) -> Result<(), String> {
    let size = process::output(Command::new("du").args(["--apparent-size", "-sk"]).arg(tree))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let libc = needed_glibc(&tree.join("usr/bin/holdfast"))?;
    let text = format!(
        "Package: holdfast\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\nDepends: libc6 (>= {libc}), libgcc-s1, adduser, init-system-helpers (>= 1.54~)\n\
         Section: net\nPriority: optional\n\
         Description: durable NFS server\n Serves volumes from local disks over NFSv3, NFSv4.0, NFSv4.1 and NFSv4.2.\n Its replies \
         mean what they say: what was acknowledged as stable is on\n stable media. It needs no root and no kernel module.\n"
    );
    write(tree, "DEBIAN/control", text)?;
    write(tree, "DEBIAN/conffiles", format!("/{CONFIGURATION}\n"))?;
    for script in SCRIPTS {
        write(tree, &format!("DEBIAN/{script}"), read(&format!("package/debian/{script}"))?)?;
    }
    let mut sums = Command::new("sh");
    sums.args(["-c", "find * -path DEBIAN -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum"]);
    write(tree, "DEBIAN/md5sums", process::output(sums.current_dir(tree))?)
}

fn read(name: &str) -> Result<Vec<u8>, String> {
    let path = root().join(name);
    fs::read(&path).map_err(process::at(&path))
}

/// The lowest version of glibc that has all symbols of the program.
fn needed_glibc(program: &Path) -> Result<String, String> {
    let symbols = process::output(Command::new("objdump").arg("-T").arg(program))?;
    let newest = newest_glibc(&symbols).ok_or("objdump shows no symbol of glibc")?;
    Ok(newest.map(|number| number.to_string()).join("."))
}

/// The newest version among the symbols that objdump lists.
fn newest_glibc(symbols: &str) -> Option<[u32; 2]> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let number = rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
        let (major, minor) = number.split_once('.')?;
        Some([major.parse().ok()?, minor.split('.').next()?.parse().ok()?])
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn versions_of_glibc_are_compared_by_number() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.9) a\n0 DF *UND* 0 (GLIBC_2.34) b\n0 DF *UND* 0 GLIBC_2.2.5 c\n";
        assert_eq!(newest_glibc(symbols), Some([2, 34]));
        assert_eq!(newest_glibc(""), None);
    }
}
