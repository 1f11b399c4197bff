//! The steps of docs/cluster.md, typed on machines as they stand there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::document::{self, Block};
use crate::e2e::machine::{Machine, SHARE};
use crate::process::{self, root};

const DOCUMENT: &str = "docs/cluster.md";

/// The blocks of the document. The journal is small, so that the machines need little disk.
const BLOCKS: &[Block<'_>] = &[
    ("install", &[("./holdfast_0.1.0-1_amd64.deb", "/run/share/holdfast.deb")]),
    ("file /etc/holdfast/node.toml", &[]),
    ("file /etc/holdfast/home.toml", &[]),
    ("agent", &[]),
    ("data", &[("--volume home", "--volume home --journal-size 64MiB")]),
    ("pacemaker", &[]),
    ("cluster", &[]),
    ("resources", &[]),
    ("fence", &[]),
    ("move command", &[]),
    ("move", &[]),
    ("commands", &[]),
    ("start", &[]),
    ("takeover", &[]),
    ("give", &[]),
    ("take", &[]),
];

/// The blocks of the document by name.
pub(super) struct Steps(BTreeMap<String, String>);

impl Steps {
    /// Reads the document, with what a reader replaces by what his machines have.
    pub(super) fn read(replaced: &[(&str, &str)]) -> Result<Steps, String> {
        let path = root().join(DOCUMENT);
        let text = fs::read_to_string(&path).map_err(process::at(&path))?;
        let blocks = document::blocks(DOCUMENT, &text, BLOCKS, replaced)?;
        Ok(Steps(blocks.into_iter().map(|(name, block)| (name.to_owned(), block)).collect()))
    }

    /// Types a step on a machine.
    pub(super) fn type_in(&self, machine: &mut Machine<'_>, name: &str) -> Result<String, String> {
        machine.run(&self.typed(name, &[]))
    }

    /// Begins to type a step on a machine, with what this machine replaces.
    pub(super) fn begin(
        &self,
        machine: &mut Machine<'_>,
        name: &str,
        replaced: &[(&str, &str)],
    ) -> Result<(), String> {
        machine.begin(&self.typed(name, replaced))
    }

    /// Returns what is typed for a step.
    pub(super) fn typed(&self, name: &str, replaced: &[(&str, &str)]) -> String {
        let step = replaced.iter().fold(self.0[name].clone(), |text, (from, to)| text.replace(from, to));
        format!("set -e\n. {SHARE}/as-root.sh\n{step}")
    }

    /// Installs the package on a machine of this name, configures and starts the agent, and adds these commands to its configuration.
    pub(super) fn set_up(&self, machine: &mut Machine<'_>, name: &str, commands: &str) -> Result<(), String> {
        self.type_in(machine, "install")?;
        let node_toml = self.0["file /etc/holdfast/node.toml"].replace("\"a\"", &format!("\"{name}\""));
        write(machine, "node.toml", &node_toml)?;
        write(machine, "home.toml", &self.0["file /etc/holdfast/home.toml"])?;
        self.type_in(machine, "agent")?;
        let with_commands = node_toml.replacen("\n[[group]]", &format!("{}\n[[group]]", self.0[commands]), 1);
        write(machine, "node.toml", &with_commands)?;
        machine.run("systemctl reload holdfast-node").map(drop)
    }
}

/// Writes a configuration file.
fn write(machine: &mut Machine<'_>, name: &str, text: &str) -> Result<(), String> {
    machine.run(&format!("cat >/etc/holdfast/{name} <<'END'\n{text}END")).map(drop)
}

/// Gives a machine the package, and what commands of documents need.
pub(super) fn give(machine: &Machine<'_>, package: &Path) -> Result<(), String> {
    machine.give(package, "holdfast.deb")?;
    machine.give(&root().join("e2e/scenarios/as-root.sh"), "as-root.sh")
}

/// Checks the volume of a group that is stopped, and unmounts its device.
pub(super) fn check_volume(machine: &mut Machine<'_>) -> Result<(), String> {
    let check = "setpriv --reuid holdfast --regid holdfast --clear-groups holdfast check /srv/home/data && umount /srv/home";
    machine.run(check).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_step() {
        let steps = Steps::read(&[("eth0", "vec0"), ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "/dev/ubdb")])
            .unwrap();
        assert!(steps.0["file /etc/holdfast/node.toml"].contains("\ninterface = \"vec0\"\n\n[[group]]\n"));
        assert!(steps.0["takeover"].contains("--from a\n"));
        assert!(steps.0["data"].contains("mkfs.ext4 -q /dev/ubdb\n"));
        assert!(steps.0["move"].contains("home b\n"));
        assert!(steps.0["fence"].contains("fence b\n"));
    }
}
