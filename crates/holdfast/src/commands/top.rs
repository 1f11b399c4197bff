//! `holdfast top`: shows what clients do in which volumes and to which files, and what their calls wait for.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use server::error::Error;

use crate::report::Outcome;

use sample::{Interval, Sample};
use screen::Screen;
use terminal::Terminal;
use view::{Group, Sort, View};

mod figures;
mod keys;
mod objects;
mod sample;
mod screen;
mod table;
mod terminal;
mod view;

/// The most tables, which an error names.
const COUNT_MAX: u64 = 1_000_000;

/// The time over which the first figures are measured.
const FIRST: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "Examples:
  holdfast top /srv/holdfast                              # until q; ? shows the other keys
  holdfast top /srv/holdfast --by client --sort written   # who writes most
  holdfast top /srv/holdfast --by file --sort read        # which files are read most
  holdfast top /srv/holdfast --plain --count 1            # one table of the next two seconds
  holdfast top /srv/holdfast --json | jq .activities      # a line of JSON for each interval";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// The data directory
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Time between two screens or tables, in seconds, from 1 to 25
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=25))]
    interval: u64,
    /// What each line stands for
    #[arg(long, value_enum, default_value_t = Group::All)]
    by: Group,
    /// Order of the lines
    #[arg(long, value_enum, default_value_t = Sort::Calls)]
    sort: Sort,
    /// Show only lines with this text in the client, the volume, the operation or the path
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print one table for each interval, as to a pipe
    #[arg(long)]
    plain: bool,
    /// Print a line of JSON for each interval
    #[arg(long)]
    json: bool,
    /// End after this number of tables or lines of JSON
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
}

pub(crate) fn run(top: &Top) -> Outcome {
    let filter = top.filter.as_deref().unwrap_or_default();
    let view = View::new(top.by, top.sort, filter, top.interval);
    let is_plain = top.plain || top.json || top.count.is_some();
    if !is_plain && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return watch(top, view);
    }
    print(top, &view)
}

/// Prints the activity of each interval.
fn print(top: &Top, view: &View) -> Outcome {
    let mut last = Sample::take(&top.data)?;
    let mut printed = 0;
    while top.count.is_none_or(|count| printed < count) {
        thread::sleep(view.interval());
        let sample = Sample::take(&top.data)?;
        let interval = Interval::between(&last, &sample);
        let text = if top.json { format!("{}\n", interval.json()) } else { screen::plain(&interval, view) };
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            // The reader may close the pipe at any time; that is no error.
            break;
        }
        (last, printed) = (sample, printed + 1);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows screens until a key ends the program. Reconnects to a server that restarts.
fn watch(top: &Top, mut view: View) -> Outcome {
    let mut last = Sample::take(&top.data)?;
    let cannot = |error: io::Error| Error::failed(format!("cannot use the terminal: {error}"));
    let mut terminal = Terminal::open().map_err(cannot)?;
    let mut shown: Option<Interval> = None;
    let mut trouble: Option<String> = None;
    let mut next = Instant::now() + FIRST;
    while !terminal.is_over() {
        let (columns, lines) = terminal.size();
        let screen = Screen::new(shown.as_ref(), &mut view, trouble.as_deref(), columns, lines);
        terminal.draw(&screen).map_err(cannot)?;
        for key in terminal.keys(next.saturating_duration_since(Instant::now())).map_err(cannot)? {
            if view.press(key) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if Instant::now() < next {
            continue;
        }
        match Sample::take(&top.data) {
            Ok(sample) => {
                (shown, trouble) = (Some(Interval::between(&last, &sample)), None);
                last = sample;
            }
            Err(error) => trouble = Some(error.to_string()),
        }
        next = Instant::now() + view.interval();
    }
    Ok(ExitCode::SUCCESS)
}
