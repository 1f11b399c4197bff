//! `holdfast status`: shows the state of a running server.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use server::admin;
use server::error::Error;

use crate::report::Outcome;

use look::{Look, Rates};

mod listing;
mod look;
mod summary;

/// Clears a terminal and moves its cursor to the first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

const EXAMPLES: &str = "Examples:
  holdfast status /srv/holdfast                # what is served to whom, rates, space, what is wrong
  holdfast status /srv/holdfast --watch=5      # again every five seconds
  holdfast status /srv/holdfast --all          # also all counters
  holdfast status /srv/holdfast --json | jq .calls";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    /// The data directory
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Show all counters too
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Repeat at this interval, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    watch: Option<u64>,
    /// Print all counters as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(status: &Status) -> Outcome {
    let mut last: Option<Look> = None;
    loop {
        let text = if status.json {
            format!("{}\n", counters(status)?)
        } else {
            let mut look = Look::take(&status.data)?;
            let rates = match &last {
                Some(last) => look.rates_since(last),
                None => look.rates_from_now(&status.data)?,
            };
            let text = text(status, &look, &rates)?;
            last = Some(look);
            text
        };
        let mut out = io::stdout().lock();
        let clear = if status.watch.is_some() && out.is_terminal() { CLEAR } else { "" };
        let written = out.write_all(clear.as_bytes()).and_then(|()| out.write_all(text.as_bytes()));
        // A closed pipe is no error: its reader has seen enough.
        let (Some(seconds), Ok(())) = (status.watch, written.and_then(|()| out.flush())) else {
            return Ok(ExitCode::SUCCESS);
        };
        drop(out);
        thread::sleep(Duration::from_secs(seconds));
    }
}

fn text(status: &Status, look: &Look, rates: &Rates) -> Result<String, Error> {
    let mut text = summary::summary(look, rates);
    if status.all {
        text.push_str(&format!("\nAll counters\n{}", listing::listing(&counters(status)?)));
    }
    Ok(text)
}

fn counters(status: &Status) -> Result<serde_json::Value, Error> {
    let current = admin::status(&status.data)?;
    Ok(serde_json::to_value(&current).expect("the status has keys of text"))
}
