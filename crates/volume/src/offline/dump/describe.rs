//! Keys and values of records as text.

use super::{Line, Value};
use crate::api::quotas::QuotaKind;
use crate::count::count;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{ExtentMapping, ExtentRecord, ReplyRecord, Source, decode_xattr, describe};
use crate::offline::check::records::hex;

/// Most bytes shown of keys and answers.
const SHOWN_BYTES_MAX: usize = 32;

/// Returns a line for a record.
pub(super) fn record_line(word: &'static str, key: &[u8], value: &[u8]) -> Line {
    let line = describe_key(Line::new(word), key);
    let Some((_, table, _)) = key::parse(key) else { return line.text("value", bytes(value)) };
    match describe_value(table, value) {
        Ok(text) => line.text("value", text),
        Err(error) => line.text("error", error.to_string()).text("value", bytes(value)),
    }
}

/// Adds a key's table and fields.
pub(super) fn describe_key(line: Line, key: &[u8]) -> Line {
    let Some((volume, table, fields)) = key::parse(key) else { return line.text("key", bytes(key)) };
    let mut line = line.text("table", format!("{table:?}")).number("volume", volume.0.into());
    let names: &[&'static str] = match table {
        Table::Inode | Table::Symlink | Table::Orphan | Table::Tree => &["inode"],
        Table::Name => &["directory"],
        Table::Xattr => &["inode"],
        Table::Cookie => &["directory", "cookie"],
        Table::Map => &["inode", "end"],
        Table::Extent => &["extent"],
        Table::Segment => &["segment"],
        Table::Reap
        | Table::Usage
        | Table::Quota
        | Table::MapCount
        | Table::State
        | Table::Reply
        | Table::Meta
        | Table::Volume => &[],
    };
    let mut rest = fields;
    for name in names {
        let Some((number, behind)) = rest.split_first_chunk::<8>() else { break };
        line.fields.push((name, Value::Number(u64::from_be_bytes(*number))));
        rest = behind;
    }
    match (table, rest) {
        (Table::Xattr, name) | (Table::Name, name) => {
            line.text("name", format!("{:?}", String::from_utf8_lossy(name)))
        }
        (Table::Usage | Table::Quota, [kind, id @ ..]) => {
            let of = QuotaKind::from_byte(*kind).map_or_else(|| kind.to_string(), |kind| format!("{kind:?}"));
            line.text("of", of).number("id", key::number(id).unwrap_or_default())
        }
        (Table::Reap, fields) if let Some(id) = key::reaped(fields) => {
            line.number("of", id.volume.0.into()).number("inode", id.ino.0)
        }
        (Table::Volume, fields) if let Some(number) = key::volume_number(fields) => {
            line.number("of", number.0.into())
        }
        (Table::State, state) => line.text("state", bytes(state)),
        (Table::Reply, fields) if let Some((volume, request)) = key::replied(fields) => {
            line.number("of", volume.0.into()).text("request", bytes(request))
        }
        (_, []) => line,
        (_, unexpected) => line.text("unexpected", bytes(unexpected)),
    }
}

/// Describes a value, without bulky parts and the secret of file handles.
pub(super) fn describe_value(table: Table, value: &[u8]) -> Result<String, Malformed> {
    Ok(match table {
        Table::Map => {
            let piece = ExtentMapping::decode(value)?;
            let place = match &piece.source {
                Source::Inline(data) => format!("inline, {}", count(data.len() as u64, "byte")),
                Source::Extent { id, offset } => format!("extent {id} from byte {offset}"),
                Source::Hole => "hole".to_owned(),
                Source::Lost => "lost".to_owned(),
            };
            format!("start {} birth {}: {place}", piece.start, piece.birth)
        }
        Table::Extent => {
            let row = ExtentRecord::decode(value)?;
            format!(
                "segment {} offset {} length {} stored {} references {}",
                row.segment, row.offset, row.length, row.stored, row.references
            )
        }
        Table::Reply => {
            let reply = ReplyRecord::decode(value)?;
            format!("seq {} time {} answer {}", reply.seq, reply.time.nanos(), bytes(&reply.answer))
        }
        Table::State => bytes(value),
        Table::Xattr => {
            let value = decode_xattr(value)?;
            format!("{}: {}", count(value.len() as u64, "byte"), bytes(value))
        }
        _ => describe(table, value)?,
    })
}

/// Formats the first bytes as hexadecimal digits, with the number of further ones.
pub(super) fn bytes(bytes: &[u8]) -> String {
    match bytes.split_at_checked(SHOWN_BYTES_MAX) {
        Some((first, rest)) if !rest.is_empty() => format!("{}…+{}", hex(first), rest.len()),
        _ => hex(bytes),
    }
}
