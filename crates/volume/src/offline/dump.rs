//! The contents of a volume, line by line, for debugging: `holdfast dump`.
//!
//! Like [`crate::offline::check`] it works on a volume that is not open, and changes nothing on media. A [`Line`] is
//! a word and named fields, printable as text or as JSON. It shows the length of file data, never the data itself,
//! and not the secret of file handles.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::api::ids::{SegmentId, Seq};
use crate::encoding::entry::Entry;
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::encoding::record::SegmentRecord;
use crate::journal::Ring;
use crate::journal::format::BatchHeader;
use crate::media::Media;
use crate::offline::check::Summary;
use crate::offline::check::findings::Findings;
use crate::offline::check::view::{Found, View};
use crate::open::OpenError;
use crate::tables::index::IndexError;

mod describe;
mod segment;
#[cfg(test)]
mod tests;

use describe::{bytes, describe_key, record_line};

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Yes or no.
    Flag(bool),
    /// Text; bytes that are not UTF-8 are shown as U+FFFD.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Signed(number) => number.fmt(f),
            Value::Flag(flag) => flag.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// One line. Printed, it is the word and `name=value` for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub word: &'static str,
    /// Further fields, in the order in which they are shown.
    pub fields: Vec<(&'static str, Value)>,
}

impl Line {
    fn new(word: &'static str) -> Line {
        Line { word, fields: Vec::new() }
    }

    fn number(mut self, name: &'static str, number: u64) -> Line {
        self.fields.push((name, Value::Number(number)));
        self
    }

    fn signed(mut self, name: &'static str, number: i64) -> Line {
        self.fields.push((name, Value::Signed(number)));
        self
    }

    fn flag(mut self, name: &'static str, flag: bool) -> Line {
        self.fields.push((name, Value::Flag(flag)));
        self
    }

    fn text(mut self, name: &'static str, text: impl Into<String>) -> Line {
        self.fields.push((name, Value::Text(text.into())));
        self
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        for (name, value) in &self.fields {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

/// Receives lines; breaks to end the dump.
pub type Visit<'a> = &'a mut dyn FnMut(Line) -> ControlFlow<()>;

/// Dumps the journal after the last checkpoint: every batch, every entry in it, every change in that; finally where
/// it ends, or why it cannot be read further.
///
/// # Errors
/// The index, which says where the journal begins, does not open.
pub fn journal(media: &dyn Media, visit: Visit<'_>) -> Result<(), OpenError> {
    let view = View::open(media)?;
    let lost =
        "the record that says where the journal begins is lost; run `holdfast check` on the data directory";
    let anchor = view.meta.as_ref().ok_or_else(|| OpenError(lost.to_owned()))?.anchor;
    let begin = Line::new("anchor").number("seq", anchor.seq.0).number("position", anchor.position);
    if visit(begin.text("journal", bytes(&anchor.journal))).is_break() {
        return Ok(());
    }
    let mut last_batch = None;
    let mut stopped = false;
    let inspected = Ring::inspect(media.log().as_ref(), &anchor, &mut |header, seq, bytes| {
        let mut lines = Vec::new();
        if last_batch != Some(header.first_seq) {
            last_batch = Some(header.first_seq);
            lines.push(batch_line(header));
        }
        entry_lines(seq, bytes, &mut lines);
        stopped = lines.into_iter().any(|line| visit(line).is_break());
        if stopped { Err("stopped".to_owned()) } else { Ok(()) }
    });
    let end = match inspected {
        _ if stopped => return Ok(()),
        Ok(found) => Line::new("end")
            .number("last_seq", found.last_seq.0)
            .number("entries", found.entries)
            .number("bytes", found.bytes)
            .number("torn_bytes", found.cut_bytes),
        Err(error) => Line::new("damage").text("what", error.to_string()),
    };
    let _ = visit(end);
    Ok(())
}

fn batch_line(header: &BatchHeader) -> Line {
    Line::new("batch")
        .number("position", header.position)
        .number("first_seq", header.first_seq.0)
        .number("entries", header.count.into())
        .number("payload_bytes", header.payload_bytes.into())
        .number("generation", header.generation.0.into())
        .number("durable", header.durable.0)
        .signed("time_ceiling", header.time_ceiling.nanos())
}

/// Adds an entry and its changes.
fn entry_lines(seq: Seq, encoded: &[u8], lines: &mut Vec<Line>) {
    let line = Line::new("entry").number("seq", seq.0).number("bytes", encoded.len() as u64);
    let entry = match Entry::decode(encoded) {
        Ok(entry) => entry,
        Err(error) => return lines.push(line.text("error", error.to_string())),
    };
    lines.push(line.number("records", entry.records.len() as u64));
    for (key, slot) in &entry.records {
        lines.push(match slot {
            Some(value) => record_line("put", key, value),
            None => describe_key(Line::new("delete"), key),
        });
    }
    for delta in &entry.usage {
        let line = Line::new("usage").text("of", format!("{:?}", delta.kind)).number("id", delta.id);
        lines.push(line.signed("bytes", delta.bytes).signed("inodes", delta.inodes));
    }
    if let Some(remembered) = &entry.remembered {
        let line = Line::new("remember").text("request", bytes(remembered.key.bytes()));
        let line = line.signed("time", remembered.time.nanos());
        lines.push(line.text("answer", bytes(&remembered.answer)));
    }
}

/// Dumps the records of the index, without the journal's since the last checkpoint: of one table, or of all. In
/// between it says where records are lost.
///
/// # Errors
/// The index does not open.
pub fn records(media: &dyn Media, table: Option<Table>, visit: Visit<'_>) -> Result<(), OpenError> {
    let mut view = View::open(media)?;
    let ranges: Vec<(Key, Key)> = match table {
        Some(table) if key::is_of_pool(table) => vec![key::table_range(POOL, table)],
        Some(table) => view.volumes.keys().map(|volume| key::table_range(*volume, table)).collect(),
        // After all keys: volumes are counted from zero.
        None => vec![(Key::from(&[][..]), Key::from(&[0xff; 5][..]))],
    };
    view.survey(&mut |_, _| {}).map_err(unreadable)?;
    let mut told: Option<Key> = None;
    let mut line = |found: Found<'_>| match found {
        Found::Record(key, value) => visit(record_line("record", key, value)),
        // A range that others were put into since has many gaps.
        Found::Lost(lost) if told.as_ref() == Some(&lost.from) => ControlFlow::Continue(()),
        Found::Lost(lost) => {
            told = Some(lost.from.clone());
            visit(Line::new("lost").text("what", &lost.why))
        }
    };
    ranges.iter().try_for_each(|(from, to)| view.each_in_index(from, to, &mut line)).map_err(unreadable)
}

/// Dumps one segment as its file has it: every extent that begins in it, whether it is still in use, and whether its
/// bytes verify.
///
/// # Errors
/// The index does not open, neither it nor the journal knows the segment, or its file cannot be read.
pub fn segment(media: &Arc<dyn Media>, id: SegmentId, visit: Visit<'_>) -> Result<(), OpenError> {
    let mut view = View::open(media.as_ref())?;
    // An unreadable part of the journal only makes extents look unused.
    view.replay(media.log().as_ref(), &mut Findings::new(0), &mut Summary::default());
    // The index counts live bytes; the journal only records that the segment exists.
    let key = key::segment(id);
    let row = match view.index().get(&key).map_err(unreadable)? {
        Some(row) => Some(row.into()),
        None => view.get(&key).map_err(unreadable)?,
    };
    let row = row.ok_or_else(|| OpenError(format!("neither index nor journal knows segment {id}")))?;
    let row = SegmentRecord::decode(&row).map_err(OpenError::from)?;
    let line =
        Line::new("segment").number("id", id.0).number("capacity", row.capacity).number("live", row.live);
    if visit(line).is_break() {
        return Ok(());
    }
    segment::extents(media.as_ref(), &view, id, row.capacity, visit)
}

fn unreadable(error: IndexError) -> OpenError {
    OpenError(format!("the index cannot be read: {error}"))
}
