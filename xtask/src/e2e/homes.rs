//! Follows `docs/homes.md`: its commands, configuration, unit and lines of fstab are taken from the document. One guest makes
//! the homes, two others share them.
//!
//! Addresses are replaced, as the document asks its reader to. The server's machine has no NFS client of its own here, so
//! the guest that makes the homes stands in for it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use super::Options;
use super::lab::{ADDRESS, Lab};
use crate::document::{self, Block};
use crate::process::{self, root};

/// The document.
const DOCUMENT: &str = "docs/homes.md";
/// The blocks, and the replacements in each besides those of [`ADDRESSES`].
const BLOCKS: &[Block<'_>] = &[
    ("server", &[]),
    ("file /etc/holdfast.toml", &[("127.0.0.1", ADMIN)]),
    ("file /etc/systemd/system/holdfast.service", &[]),
    ("check", &[]),
    ("users", &[]),
    ("homes", &[("127.0.0.1", ADDRESS)]),
    ("fstab 4.2", &[]),
    ("fstab 3", &[]),
    ("mount", &[]),
    ("first client", &[]),
    ("second client", &[]),
    ("must fail", &[]),
];
/// The document's addresses, and those of the lab.
const ADDRESSES: [(&str, &str); 2] = [("192.0.2.10", ADDRESS), ("192.0.2.0/24", "10.77.0.0/24")];
/// The address of the guest that makes the homes.
const ADMIN: &str = "10.77.0.13";
/// Time limit from the first command to the server's first reply. A volume of the default size is made.
const SET_UP: Duration = Duration::from_secs(90);

/// Runs the scenario.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let path = root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    let folder = lab.out().join("homes");
    fs::create_dir_all(&folder).map_err(process::at(&folder))?;
    for (name, block) in blocks(&text)? {
        let path = folder.join(name.replace(['/', ' '], "-"));
        fs::write(&path, block).map_err(process::at(&path))?;
    }
    // What the document installs lies in the lab's folder, which is mounted over the system's in a name space of its own.
    let installed = lab.folder.join("target/release");
    fs::create_dir_all(&installed).map_err(process::at(&installed))?;
    fs::copy(lab.binary(), installed.join("holdfast")).map_err(process::at(&installed))?;
    let data = lab.data();
    std::os::unix::fs::symlink("lib/holdfast/data", &data).map_err(process::at(&data))?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh"]).arg(root().join("e2e/scenarios/homes-server.sh")).arg(&lab.folder);
    lab.start_command(command, SET_UP)?;

    let mut admin = lab.start_guest(3, "homes.sh", "256M", &["admin"])?;
    lab.finish_guest(3, &mut admin)?;
    let mut one = lab.start_guest(1, "homes.sh", "256M", &["first"])?;
    let mut two = lab.start_guest(2, "homes.sh", "256M", &["second"])?;
    let one = lab.finish_guest(1, &mut one);
    let two = lab.finish_guest(2, &mut two);
    one.and(two)?;
    Ok(format!("{} blocks of {DOCUMENT}", BLOCKS.len()))
}

/// Returns the blocks of the document by name, with the lab's addresses.
fn blocks(document: &str) -> Result<BTreeMap<&str, String>, String> {
    document::blocks(DOCUMENT, document, BLOCKS, &ADDRESSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_block() {
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let found = blocks(&text).unwrap();
        assert!(found["fstab 3"].starts_with("10.77.0.1:/home  /home  nfs  vers=3,"));
        assert!(found["file /etc/holdfast.toml"].contains("clients = [\"10.77.0.13\"]"));
        assert!(found["homes"].contains("mount -t nfs 10.77.0.1:/admin /mnt"));
        assert!(found.values().all(|block| !block.contains("192.0.2.")));
    }

    #[test]
    fn missing_unknown_and_repeated_blocks_are_errors() {
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        assert!(blocks(&text.replace("<!-- e2e: mount -->", "")).unwrap_err().contains("\"mount\""));
        assert!(
            blocks(&text.replace("e2e: mount -->", "e2e: mounts -->")).unwrap_err().contains("\"mounts\"")
        );
        assert!(blocks(&text.repeat(2)).unwrap_err().contains("two blocks"));
        assert!(
            blocks(&text.replace("e2e: mount -->\n", "e2e: mount -->\n\n")).unwrap_err().contains("no block")
        );
    }
}
