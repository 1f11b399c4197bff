//! Values of records. Each belongs to a table of [`crate::encoding::key::Table`]; `docs/format.md` describes every
//! byte.
//!
//! Values of a volume's tables begin with their epoch of birth, for snapshots. Exceptions: values of the reap and
//! orphan tables are empty, and those of the state table are whatever a protocol stores.

mod directory;
mod extent;
mod inode;
mod map;
mod meta;
#[cfg(test)]
pub(crate) mod tests;

pub use directory::{CookieRecord, NameRecord};
pub use extent::{BLOCK, ExtentHeader, ExtentRecord, SegmentRecord};
pub use inode::{InodeRecord, PendingTruncation};
pub(crate) use inode::{type_byte, type_from_byte};
pub use map::{ExtentMapping, Source};
pub use meta::{MetaRecord, ReplyRecord, UsageKind, UsageRecord};

use crate::api::ids::Epoch;
use crate::encoding::codec::{Malformed, Reader, Write};
use crate::limits::{STATE_VALUE_BYTES_MAX, XATTR_VALUE_BYTES_MAX};

/// Checks that a value of `table` decodes.
///
/// # Errors
/// Damage, or another release's format.
pub fn check(table: crate::encoding::key::Table, bytes: &[u8]) -> Result<(), Malformed> {
    use crate::encoding::key::Table;
    match table {
        Table::Inode => InodeRecord::decode(bytes).map(|_| ()),
        Table::Name => NameRecord::decode(bytes).map(|_| ()),
        Table::Cookie => CookieRecord::decode(bytes).map(|_| ()),
        Table::Map => ExtentMapping::decode(bytes).map(|_| ()),
        Table::Reap | Table::Orphan => Ok(()),
        Table::Usage => UsageRecord::decode(bytes).map(|_| ()),
        Table::Symlink => decode_symlink(bytes).map(|_| ()),
        Table::Xattr => decode_xattr(bytes).map(|_| ()),
        Table::State if bytes.len() > STATE_VALUE_BYTES_MAX => Err(Malformed("state record")),
        Table::State => Ok(()),
        Table::Extent => ExtentRecord::decode(bytes).map(|_| ()),
        Table::Segment => SegmentRecord::decode(bytes).map(|_| ()),
        Table::Reply => ReplyRecord::decode(bytes).map(|_| ()),
        Table::Meta => MetaRecord::decode(bytes).map(|_| ()),
    }
}

/// Prints any value of `table`; for `holdfast dump`.
pub fn describe(table: crate::encoding::key::Table, bytes: &[u8]) -> Result<String, Malformed> {
    use crate::encoding::key::Table;
    Ok(match table {
        Table::Inode => format!("{:?}", InodeRecord::decode(bytes)?),
        Table::Name => format!("{:?}", NameRecord::decode(bytes)?),
        Table::Cookie => format!("{:?}", CookieRecord::decode(bytes)?),
        Table::Map => format!("{:?}", ExtentMapping::decode(bytes)?),
        Table::Reap => "removed".to_owned(),
        Table::Orphan => "without a name".to_owned(),
        Table::Usage => format!("{:?}", UsageRecord::decode(bytes)?),
        Table::Symlink => format!("{:?}", String::from_utf8_lossy(decode_symlink(bytes)?)),
        Table::Xattr => format!("{:?}", String::from_utf8_lossy(decode_xattr(bytes)?)),
        Table::State => format!("{} bytes", bytes.len()),
        Table::Extent => format!("{:?}", ExtentRecord::decode(bytes)?),
        Table::Segment => format!("{:?}", SegmentRecord::decode(bytes)?),
        Table::Reply => format!("{:?}", ReplyRecord::decode(bytes)?),
        Table::Meta => format!("{:?}", MetaRecord::decode(bytes)?),
    })
}

/// Encodes a symlink's target.
pub fn encode_symlink(epoch: Epoch, target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + target.len());
    out.u32(epoch.0);
    out.bytes(target);
    out
}

/// Encodes the value of an extended attribute.
pub fn encode_xattr(epoch: Epoch, value: &[u8]) -> Vec<u8> {
    encode_symlink(epoch, value)
}

/// Decodes the value of an extended attribute.
pub fn decode_xattr(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(bytes, "extended attribute");
    reader.u32()?;
    let value = reader.rest();
    if value.len() > XATTR_VALUE_BYTES_MAX { Err(Malformed("extended attribute")) } else { Ok(value) }
}

/// Decodes a symlink's target.
pub fn decode_symlink(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(bytes, "symlink record");
    reader.u32()?;
    Ok(reader.rest())
}
