//! The Debian package and the container image on a machine with systemd (docs/installation.md): installed, confined, restarted,
//! reloaded, killed, upgraded, rebooted, removed and purged. No step may lose what clients wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::lab::Lab;
use super::machine::{Hardware, IMAGE, Machine};
use super::{Options, scratch};
use crate::package;
use crate::process::{self, root};

mod container;
mod service;

/// A statically linked build of the program under test, beneath the scratch folder.
const STATIC_PROGRAM: &str = "holdfast.static";

/// What runs inside the machine, of `e2e/machine`.
const SCRIPTS: [&str; 2] = ["confined.pl", "writer.sh"];

/// Builds the program of the container image.
pub(super) fn prepare() -> Result<(), String> {
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    package::build_static("release", &scratch().join(STATIC_PROGRAM))
}

pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let folder = lab.folder.clone();
    let first = package::deb(&lab.binary(), &folder.join("first"), 1)?;
    let again = package::deb(&lab.binary(), &folder.join("again"), 1)?;
    if fs::read(&first).map_err(process::at(&first))? != fs::read(&again).map_err(process::at(&again))? {
        return Err("two packages of one program differ".to_owned());
    }
    let second = package::deb(&lab.binary(), &folder.join("second"), 2)?;
    check_package(&second)?;
    let image = package::image::make(&scratch().join(STATIC_PROGRAM), &folder)?;

    let hardware = Hardware {
        number: 1,
        name: "server",
        address: "10.77.0.11/32",
        memory: "512M",
        bridge: "",
        shared_disk: None,
        image: IMAGE,
        masked: &[],
    };
    let mut machine = Machine::new(lab, hardware)?;
    machine.give(&first, "first.deb")?;
    machine.give(&second, "second.deb")?;
    machine.give(&image, "image.tar")?;
    for script in SCRIPTS {
        machine.give(&root().join("e2e/machine").join(script), script)?;
    }
    machine.boot()?;
    let service = service::run(&mut machine)?;
    let container = container::run(&mut machine)?;
    machine.switch_off()?;
    Ok(format!("{service}; {container}"))
}

/// Returns a field of `/proc/PID/status`.
fn status_field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
}

/// Checks a package by Debian's rules.
fn check_package(package: &Path) -> Result<(), String> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(package);
    // What it finds is on its standard output.
    let output = lintian.output().map_err(|error| format!("lintian: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("lintian: {}", String::from_utf8_lossy(&output.stdout)))
    }
}
