//! Values of records. Each belongs to a table of [`crate::encoding::key::Table`]; `docs/format.md` describes every
//! byte.
//!
//! Values of the reap and orphan tables are empty; those of the symlink, extended attribute and state tables are what
//! clients and protocols store.

mod directory;
mod extent;
mod inode;
mod map;
mod meta;
mod quota;
mod sectors;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod volume;

pub use directory::{CookieRecord, NameRecord};
pub use extent::{BLOCK, ExtentHeader, ExtentRecord, Piece, SegmentRecord};
pub use inode::{InodeRecord, PendingTruncation, ReapRecord};
pub(crate) use inode::{type_byte, type_from_byte};
pub use map::{ExtentMapping, MapCountRecord, Source};
pub use meta::{MetaRecord, ReplyRecord, UsageRecord};
pub use quota::QuotaRecord;
pub use sectors::{Kept, References, SECTORS_MAX, Span, sectors};
pub use tree::TreeRecord;
pub use volume::VolumeRecord;

use crate::count::count;
use crate::encoding::codec::Malformed;
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
        Table::Orphan | Table::Symlink => Ok(()),
        Table::Reap => ReapRecord::decode(bytes).map(|_| ()),
        Table::Usage => UsageRecord::decode(bytes).map(|_| ()),
        Table::Quota => QuotaRecord::decode(bytes).map(|_| ()),
        Table::Tree => TreeRecord::decode(bytes).map(|_| ()),
        Table::MapCount => MapCountRecord::decode(bytes).map(|_| ()),
        Table::Xattr => decode_xattr(bytes).map(|_| ()),
        Table::State if bytes.len() > STATE_VALUE_BYTES_MAX => Err(Malformed("state record")),
        Table::State => Ok(()),
        Table::Extent => ExtentRecord::decode(bytes).map(|_| ()),
        Table::Segment => SegmentRecord::decode(bytes).map(|_| ()),
        Table::Reply => ReplyRecord::decode(bytes).map(|_| ()),
        Table::Meta => MetaRecord::decode(bytes).map(|_| ()),
        Table::Volume => VolumeRecord::decode(bytes).map(|_| ()),
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
        Table::Quota => format!("{:?}", QuotaRecord::decode(bytes)?),
        Table::Tree => format!("{:?}", TreeRecord::decode(bytes)?),
        Table::MapCount => format!("{:?}", MapCountRecord::decode(bytes)?),
        Table::Symlink => format!("{:?}", String::from_utf8_lossy(bytes)),
        Table::Xattr => format!("{:?}", String::from_utf8_lossy(decode_xattr(bytes)?)),
        Table::State => count(bytes.len() as u64, "byte"),
        Table::Extent => format!("{:?}", ExtentRecord::decode(bytes)?),
        Table::Segment => format!("{:?}", SegmentRecord::decode(bytes)?),
        Table::Reply => format!("{:?}", ReplyRecord::decode(bytes)?),
        Table::Meta => format!("{:?}", MetaRecord::decode(bytes)?),
        Table::Volume => format!("{:?}", VolumeRecord::decode(bytes)?),
    })
}

/// Checks the value of an extended attribute, which is stored as it is.
pub fn decode_xattr(bytes: &[u8]) -> Result<&[u8], Malformed> {
    if bytes.len() > XATTR_VALUE_BYTES_MAX { Err(Malformed("extended attribute")) } else { Ok(bytes) }
}
