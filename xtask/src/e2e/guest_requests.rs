//! Requests of guests to the host, made by files in the folder they share.

use std::fs;

use super::lab::Lab;
use crate::process;

/// Does `work` once guests have created the file `request`, then creates the file `done`. Returns whether it did so now.
pub(super) fn serve_once(
    lab: &Lab,
    request: &str,
    done: &str,
    work: impl FnOnce() -> Result<(), String>,
) -> Result<bool, String> {
    let done = lab.out().join(done);
    if done.exists() || !lab.out().join(request).exists() {
        return Ok(false);
    }
    work()?;
    fs::write(&done, "").map_err(process::at(&done))?;
    Ok(true)
}

/// Answers each file `question-X` with a file `answer-X` that lists all counters, a name and a value per line.
pub(super) fn answer_questions(lab: &Lab) -> Result<(), String> {
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
