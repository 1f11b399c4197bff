//! `holdfast bench report`: shows a result again, as a table or as a page.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use load::report::{html, json, table};
use server::error::Error;

use crate::report::{Outcome, print};

/// The longest text that is read: ten thousand measurements with their histograms are shorter.
const RESULT_BYTES_MAX: u64 = 256 << 20;

const EXAMPLES: &str = "Examples:
  holdfast bench run filer:/export --json > result.json
  holdfast bench report result.json
  holdfast bench report result.json --out page.html

The page is one self-contained file.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Report {
    /// Output of `holdfast bench` with --json, or `-` for standard input
    #[arg(value_name = "RESULT.json")]
    result: PathBuf,
    /// Write an HTML page to this file instead of a table to standard output
    #[arg(long, value_name = "PAGE.html")]
    out: Option<PathBuf>,
}

pub(super) fn run(report: &Report) -> Outcome {
    let result = read(&report.result)?;
    match &report.out {
        Some(path) => write_page(path, &result)?,
        None => print(&table::render(&result)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a report as a page, replacing the file.
pub(super) fn write_page(path: &Path, report: &load::result::Report) -> Result<(), Error> {
    fs::write(path, html::page(report))
        .map_err(|error| Error::failed(format!("cannot write {}: {error}", path.display())))
}

fn read(path: &Path) -> Result<load::result::Report, Error> {
    let text = if path == Path::new("-") {
        text(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| text(&mut file))
    };
    let wrong = |why: String| Error::failed(format!("{}: {why}", path.display()));
    let text = text.map_err(|error| wrong(error.to_string()))?;
    json::read(&text).map_err(|error| wrong(error.to_string()))
}

/// Reads a text, unless it is too long to be a result.
fn text(from: &mut impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(RESULT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > RESULT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long to be a result"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_refused_before_it_fills_memory() {
        assert!(text(&mut io::repeat(b' ')).is_err());
    }

    #[test]
    fn errors_name_the_file() {
        let error = read(Path::new("/no/such/result.json")).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/result.json: "), "{error}");
    }
}
