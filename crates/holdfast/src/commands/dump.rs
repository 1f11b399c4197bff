//! `holdfast dump`.

use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use server::error::Error;
use store::Directory;
use volume::OpenError;
use volume::dump::{self, Line, Visit};
use volume::media::Media;

use crate::cli::{Dump, DumpWhat, Dumped};
use crate::report::Outcome;

pub(crate) fn run(dump: &Dump) -> Outcome {
    match &dump.what {
        DumpWhat::Journal(dumped) => print(dumped, |media, visit| dump::journal(media.as_ref(), visit)),
        DumpWhat::Records { dumped, table } => {
            print(dumped, |media, visit| dump::records(media.as_ref(), *table, visit))
        }
        DumpWhat::Segment { dumped, id } => print(dumped, |media, visit| dump::segment(media, *id, visit)),
    }
}

/// Prints what `dump` visits; stops when nobody reads it any more.
fn print(dumped: &Dumped, dump: impl FnOnce(&Arc<dyn Media>, Visit<'_>) -> Result<(), OpenError>) -> Outcome {
    let directory = Directory::open(&dumped.data)?;
    let media: Arc<dyn Media> = Arc::new(directory.open_volume(&dumped.volume, None)?);
    let mut out = BufWriter::new(io::stdout().lock());
    dump(&media, &mut |line| {
        let written = if dumped.json { writeln!(out, "{}", to_json(&line)) } else { writeln!(out, "{line}") };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(|error| Error::failed(format!("the volume {:?} cannot be dumped: {error}", dumped.volume)))?;
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
