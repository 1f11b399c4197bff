//! What guests ask of the host, by files in the folder that they share with it.

use std::fs;

use super::lab::Lab;
use crate::process;

/// Does something when guests have made the file `wanted`, and tells them so with the file `done`; whether it was now.
pub(super) fn once(
    lab: &Lab,
    wanted: &str,
    done: &str,
    work: impl FnOnce() -> Result<(), String>,
) -> Result<bool, String> {
    let done = lab.out().join(done);
    if done.exists() || !lab.out().join(wanted).exists() {
        return Ok(false);
    }
    work()?;
    fs::write(&done, "").map_err(process::at(&done))?;
    Ok(true)
}

/// Each file `question-X` is answered by a file `answer-X` with all counters, a name and a value on a line.
pub(super) fn answer(lab: &Lab) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", lab.out().display());
    for entry in fs::read_dir(lab.out()).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("question-") else { continue };
        let lines: Vec<String> =
            lab.counters()?.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let unfinished = lab.out().join("unfinished");
        fs::write(&unfinished, lines.concat()).map_err(failed)?;
        fs::rename(&unfinished, lab.out().join(format!("answer-{number}"))).map_err(failed)?;
        fs::remove_file(lab.out().join(&name)).map_err(failed)?;
    }
    Ok(())
}
