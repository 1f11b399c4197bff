//! `holdfast dump`: copies the files of a volume, or prints its records, its journal or a segment.

use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use server::data::Data;
use server::error::Error;
use volume::OpenError;
use volume::dump::{self, Line, Visit};
use volume::ids::SegmentId;
use volume::key::Table;
use volume::media::Media;

use crate::report::Outcome;

mod files;
mod names;
mod outcome;

const USAGE: &str = "holdfast dump [OPTIONS] --files <DIR> <DATA>
       holdfast dump <COMMAND>";

const EXAMPLES: &str = "Examples:
  holdfast dump /srv/holdfast --volume home --files /mnt/rescue
  holdfast dump records /srv/holdfast --pool fast --table inode --json

Exit codes: 0 everything was copied or printed; 1 something could not be; 2 the command line is wrong; 3 a server uses the data \
directory.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Dump {
    #[command(subcommand)]
    part: Option<Part>,
    /// The data directory
    #[arg(value_name = "DATA", requires = "files")]
    data: Option<PathBuf>,
    /// Copy all files that can be read into this directory, which is empty or does not exist
    #[arg(long, value_name = "DIR", requires = "data")]
    files: Option<PathBuf>,
    /// The pool
    #[arg(long, value_name = "NAME", default_value = server::pools::FIRST_POOL)]
    pool: String,
    /// The volume whose files to copy [default: the only one of the pool]
    #[arg(long, value_name = "NAME", requires = "files")]
    volume: Option<String>,
    /// Print each line as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Print the journal entries since the last checkpoint
    Journal(Source),
    /// Print the records of the index
    Records {
        #[command(flatten)]
        source: Source,
        #[arg(long, value_parser = parse_table, help = format!("Print only this table: {}", tables()))]
        table: Option<Table>,
    },
    /// Print the extents of a segment
    Segment {
        #[command(flatten)]
        source: Source,
        /// The number of the segment in hexadecimal, which is the name of its file
        #[arg(value_parser = parse_segment)]
        id: SegmentId,
    },
}

/// The pool to dump, and the format of the output.
#[derive(Debug, Args)]
struct Source {
    /// The data directory
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// The pool
    #[arg(long, value_name = "NAME", default_value = server::pools::FIRST_POOL)]
    pool: String,
    /// Print each line as JSON
    #[arg(long)]
    json: bool,
}

fn parse_table(text: &str) -> Result<Table, String> {
    let named = |table: &Table| format!("{table:?}").eq_ignore_ascii_case(text);
    Table::ALL.into_iter().find(named).ok_or_else(|| format!("no such table; the tables are {}", tables()))
}

/// Returns the names of all tables, separated by commas.
fn tables() -> String {
    Table::ALL.map(|table| format!("{table:?}").to_lowercase()).join(", ")
}

fn parse_segment(text: &str) -> Result<SegmentId, String> {
    u64::from_str_radix(text, 16).map(SegmentId).map_err(|error| error.to_string())
}

pub(crate) fn run(dump: &Dump) -> Outcome {
    let Some(part) = &dump.part else {
        let (Some(data), Some(files)) = (&dump.data, &dump.files) else {
            let what =
                "name what to dump: DATA --files DIR, or one of journal, records and segment; see --help";
            return Err(Error::usage(what.to_owned()));
        };
        return files::run(data, (&dump.pool, dump.volume.as_deref()), files, dump.json);
    };
    match part {
        Part::Journal(source) => print(source, |media, visit| dump::journal(media.as_ref(), visit)),
        Part::Records { source, table } => {
            print(source, |media, visit| dump::records(media.as_ref(), *table, visit))
        }
        Part::Segment { source, id } => print(source, |media, visit| dump::segment(media, *id, visit)),
    }
}

/// Prints the lines of `dump`. Stops if the reader closes the pipe.
fn print(source: &Source, dump: impl FnOnce(&Arc<dyn Media>, Visit<'_>) -> Result<(), OpenError>) -> Outcome {
    let data = Data::open_to_read(&source.data)?;
    let media = data.open_pool(&source.pool, None)?.media;
    let mut out = BufWriter::new(io::stdout().lock());
    dump(&media, &mut |line| {
        let written = if source.json { writeln!(out, "{}", to_json(&line)) } else { writeln!(out, "{line}") };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(|error| Error::failed(format!("cannot dump the pool {:?}: {error}", source.pool)))?;
    let _ = out.flush();
    Ok(ExitCode::SUCCESS)
}

fn to_json(line: &Line) -> Value {
    let mut map = Map::new();
    map.insert("line".to_owned(), json!(line.word));
    for (name, value) in &line.fields {
        let value = match value {
            dump::Value::Number(number) => json!(number),
            dump::Value::Signed(number) => json!(number),
            dump::Value::Flag(flag) => json!(flag),
            dump::Value::Text(text) => json!(text),
        };
        map.insert((*name).to_owned(), value);
    }
    Value::Object(map)
}
