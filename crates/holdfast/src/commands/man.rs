//! `holdfast man`: man pages, made from the definitions of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man as Page;
use server::error::Error;

use crate::report::Outcome;

/// What introduces the examples of a command's help.
const EXAMPLES: [&str; 2] = ["Examples:\n", "Example:\n"];

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  holdfast man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Where to write holdfast.1, holdfast-serve.1 and so on; created if it does not exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes a page for each command of the command line `definitions`.
pub(crate) fn run(man: &Man, definitions: Command) -> Outcome {
    let cannot =
        |path: &Path, error: &io::Error| Error::failed(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(&man.directory).map_err(|error| cannot(&man.directory, &error))?;
    // Exit codes follow the help of the first command, and hold for all.
    let exit_codes = definitions.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut definitions = definitions.disable_help_subcommand(true);
    definitions.build();
    for command in commands(&definitions) {
        let path = man.directory.join(format!("{}.1", page_name(command)));
        let page = page(command, &exit_codes).map_err(|error| cannot(&path, &error))?;
        fs::write(&path, page).map_err(|error| cannot(&path, &error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar between alternatives, after which a line may be broken: many do not fit into one line.
const BREAKABLE_BAR: &str = "|\\:";

/// The command and all commands below it.
fn commands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).flat_map(commands);
    std::iter::once(command).chain(below).collect()
}

/// The name of a command's page, such as holdfast-volume-create.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The page of a command. Its examples are shown line by line, which [`Page::render`] would join.
fn page(command: &Command, exit_codes: &str) -> io::Result<Vec<u8>> {
    let name = page_name(command);
    let source = concat!("holdfast ", env!("CARGO_PKG_VERSION"));
    let shown = Page::new(command.clone()).title(name.clone()).manual("Holdfast").source(source);
    let mut page = Vec::new();
    shown.render_title(&mut page)?;
    shown.render_name_section(&mut page)?;
    let mut synopsis = Vec::new();
    shown.render_synopsis_section(&mut synopsis)?;
    let synopsis = String::from_utf8_lossy(&synopsis).replace('|', BREAKABLE_BAR);
    page.extend(format!(".ad l\n{synopsis}.ad b\n").into_bytes());
    shown.render_description_section(&mut page)?;
    shown.render_options_section(&mut page)?;
    let mut text = String::new();
    if command.has_subcommands() {
        text.push_str(".SH COMMANDS\n");
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!(".TP\n\\fB{}\\fR(1)\n{}\n", escaped(&page_name(below)), escaped(&about)));
        }
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = help.replace(exit_codes, "");
    let (notes, examples) =
        EXAMPLES.iter().find_map(|word| help.split_once(word)).unwrap_or((help.as_str(), ""));
    if !notes.trim().is_empty() {
        text.push_str(&format!(".SH NOTES\n{}\n", escaped(notes.trim())));
    }
    if !examples.is_empty() {
        let lines = examples.lines().map(|line| escaped(line.trim_start()) + "\n");
        text.push_str(&format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.collect::<String>()));
    }
    text.push_str(&format!(".SH \"EXIT STATUS\"\n{}\n", escaped(exit_codes)));
    if let Some((above, _)) = name.rsplit_once('-') {
        text.push_str(&format!(".SH \"SEE ALSO\"\n\\fB{}\\fR(1)\n", escaped(above)));
    }
    page.extend(text.into_bytes());
    Ok(page)
}

/// Escapes text for roff: backslashes, hyphens, so that they can be copied into a shell, and lines that would begin a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| {
        let request = line.starts_with('.') || line.starts_with('\'');
        if request { format!("\\&{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_is_no_request_of_roff() {
        assert_eq!(escaped(".x\n'y\na.b"), "\\&.x\n\\&'y\na.b");
        assert_eq!(escaped(r"--mode \n"), r"\-\-mode \en");
    }
}
