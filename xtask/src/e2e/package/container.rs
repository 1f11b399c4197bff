//! The container image under podman, as docs/installation.md starts it.

use std::fs;

use super::super::machine::Machine;
use super::status_field;
use crate::document::{self, Block};
use crate::process::{self, root};

const DOCUMENT: &str = "docs/installation.md";

/// The block of the document, with the machine's path of the image.
const BLOCK: Block<'_> =
    ("container", &[("target/package/holdfast-0.1.0-amd64.oci.tar", "/run/share/image.tar")]);

/// The user of the image.
const USER: &str = "65532";

/// The machine's own address: with address translation, loopback addresses do not reach the container.
const ADDRESS: &str = "10.77.0.11";

/// Runs the image behind address translation, and again on the machine's own network, with the same volume.
pub(super) fn run(machine: &mut Machine<'_>) -> Result<String, String> {
    let path = root().join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    let typed = &document::blocks(DOCUMENT, &text, &[BLOCK], &[])?["container"];
    machine.run(&format!("set -e\n{typed}"))?;
    use_and_stop(machine, ADDRESS)?;
    let again = typed.lines().find(|line| line.starts_with("podman run "));
    let again = again.ok_or_else(|| format!("{DOCUMENT} runs no container"))?;
    machine.run(&again.replace("--publish 2049:2049", "--network host"))?;
    use_and_stop(machine, "127.0.0.1")?;
    machine.run("podman volume inspect holdfast")?;
    Ok("a container that was replaced".to_owned())
}

/// Checks the container, what an earlier one wrote, and that it ends in an orderly way.
fn use_and_stop(machine: &mut Machine<'_>, address: &str) -> Result<(), String> {
    check_user(machine)?;
    machine.run(&format!(
        "set -e; for i in $(seq 300); do mount -t nfs -o retry=0 {address}:/main /mnt && break; sleep 0.2; done; cd /mnt; \
         [ ! -e ~/in-container ] || sha256sum --quiet --check ~/in-container; \
         setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'head -c 3000000 /dev/urandom >data && sync data'; \
         sha256sum data >~/in-container; cd /; umount /mnt"
    ))?;
    machine.run("podman stop holdfast")?;
    let code = machine.run("podman inspect --format '{{.State.ExitCode}}' holdfast && podman rm holdfast")?;
    match code.lines().next() {
        Some("0") => Ok(()),
        code => Err(format!("the container ends with {code:?}")),
    }
}

/// Checks that the server runs without root and without any right.
fn check_user(machine: &mut Machine<'_>) -> Result<(), String> {
    let status = machine.run("cat /proc/$(podman inspect --format '{{.State.Pid}}' holdfast)/status")?;
    let line = |name| status_field(&status, name);
    if line("Uid") != Some(&[USER; 4].join("\t")) || line("CapEff") != Some("0000000000000000") {
        return Err(format!("the container runs as {:?} with {:?}", line("Uid"), line("CapEff")));
    }
    Ok(())
}
