//! Users of the server's machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::Scene;
use crate::process;

/// Connections to the administrator's socket.
const CONNECTIONS: usize = 200;
/// The time that `holdfast status` may take meanwhile.
const ANSWERED: Duration = Duration::from_secs(5);

/// Checks that other users can open nothing, and that a monitor which never reads keeps nobody from asking.
pub(super) fn files(scene: &Scene) -> Result<String, String> {
    let count = check_modes(&scene.data)?;
    let path = scene.data.join("admin.sock");
    let mut held = Vec::new();
    while scene.goes_on() && held.len() < CONNECTIONS {
        held.push(UnixStream::connect(&path).map_err(process::at(&path))?);
    }
    let began = Instant::now();
    let mut status = Command::new("timeout");
    process::output(status.arg("10").arg(&scene.binary).args(["status", "--json"]).arg(&scene.data))?;
    let took = began.elapsed();
    if took > ANSWERED {
        return Err(format!("`holdfast status` takes {:.1} s", took.as_secs_f64()));
    }
    scene.rest();
    let took = took.as_millis();
    Ok(format!("{count} files are private; `holdfast status` in {took} ms beside {} idle askers", held.len()))
}

/// Checks that only the owner has rights to a path and all beneath it. Returns how many files that are.
fn check_modes(path: &Path) -> Result<usize, String> {
    let metadata = fs::symlink_metadata(path).map_err(process::at(path))?;
    let mode = metadata.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(format!("{} has mode {mode:o}", path.display()));
    }
    if !metadata.is_dir() {
        return Ok(1);
    }
    let mut count = 1;
    for entry in fs::read_dir(path).map_err(process::at(path))? {
        count += check_modes(&entry.map_err(process::at(path))?.path())?;
    }
    Ok(count)
}
