//! Keys of records: `member (4) | table (1) | fields`, big-endian, so that byte order is scan order.
//!
//! The member comes first so that a clone can read through to its parent (rule 7 of `docs/design.md`). Member 0 is
//! the family: tables that all its volumes share. `docs/format.md` lists the tables.

use crate::api::ids::{Cookie, ExtentId, Ino, Member, SegmentId};
use crate::encoding::codec::Reader;

mod owned;

pub use owned::Key;

/// Member number of tables that belong to the whole family.
pub const FAMILY: Member = Member(0);

/// The first and, until there are clones, only volume of a family.
pub const FIRST: Member = Member(1);

/// Bytes before the first field.
const PREFIX: usize = 5;

/// Tables of records. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// `ino` → attributes.
    Inode = 0x01,
    /// `directory, name` → the object.
    Name = 0x02,
    /// `directory, cookie` → the same name, in READDIR's order.
    Cookie = 0x03,
    /// `ino, end offset` → where that range of the file's data lies.
    Map = 0x04,
    /// `ino` → a removed file whose map remains to be freed.
    Reap = 0x05,
    /// `kind, id` → bytes and inodes in use.
    Usage = 0x06,
    /// `ino` → target of a symbolic link.
    Symlink = 0x07,
    /// `ino, name` → value of an extended attribute.
    Xattr = 0x08,
    /// `protocol bytes` → a protocol state record.
    State = 0x09,
    /// `ino` → a held file without a name.
    Orphan = 0x0a,
    /// `extent` → place, checksums and reference count.
    Extent = 0x10,
    /// `segment` → size and live bytes.
    Segment = 0x11,
    /// `request key` → cached reply.
    Reply = 0x12,
    /// The one record about the whole family.
    Meta = 0x13,
}

impl Table {
    /// All tables, in key order.
    pub const ALL: [Table; 14] = [
        Table::Inode,
        Table::Name,
        Table::Cookie,
        Table::Map,
        Table::Reap,
        Table::Usage,
        Table::Symlink,
        Table::Xattr,
        Table::State,
        Table::Orphan,
        Table::Extent,
        Table::Segment,
        Table::Reply,
        Table::Meta,
    ];

    fn from_byte(byte: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| *table as u8 == byte)
    }
}

fn build(member: Member, table: Table, fields: &[&[u8]]) -> Key {
    let prefix = prefix(member, table as u8);
    match fields {
        [] => Key::of(&[&prefix]),
        [field] => Key::of(&[&prefix, field]),
        [first, second] => Key::of(&[&prefix, first, second]),
        _ => unreachable!("no table's keys have more fields"),
    }
}

fn prefix(member: Member, table: u8) -> [u8; PREFIX] {
    let [a, b, c, d] = member.0.to_be_bytes();
    [a, b, c, d, table]
}

/// Key of an inode's record.
pub fn inode(ino: Ino) -> Key {
    build(FIRST, Table::Inode, &[&ino.0.to_be_bytes()])
}

/// Key of a name.
pub fn name(directory: Ino, name: &[u8]) -> Key {
    build(FIRST, Table::Name, &[&directory.0.to_be_bytes(), name])
}

/// Key of a name in READDIR's order.
pub fn cookie(directory: Ino, cookie: Cookie) -> Key {
    build(FIRST, Table::Cookie, &[&directory.0.to_be_bytes(), &cookie.0.to_be_bytes()])
}

/// Key of the range of a file that ends at `end`.
pub fn map(ino: Ino, end: u64) -> Key {
    build(FIRST, Table::Map, &[&ino.0.to_be_bytes(), &end.to_be_bytes()])
}

/// Key of a removed file.
pub fn reap(ino: Ino) -> Key {
    build(FIRST, Table::Reap, &[&ino.0.to_be_bytes()])
}

/// Key of a usage counter.
pub fn usage(kind: u8, id: u64) -> Key {
    build(FIRST, Table::Usage, &[&[kind], &id.to_be_bytes()])
}

/// Key of a symlink's target.
pub fn symlink(ino: Ino) -> Key {
    build(FIRST, Table::Symlink, &[&ino.0.to_be_bytes()])
}

/// Key of an extended attribute.
pub fn xattr(ino: Ino, name: &[u8]) -> Key {
    build(FIRST, Table::Xattr, &[&ino.0.to_be_bytes(), name])
}

/// Key of a protocol state record.
pub fn state(state: &[u8]) -> Key {
    build(FIRST, Table::State, &[state])
}

/// Key of a file without a name.
pub fn orphan(ino: Ino) -> Key {
    build(FIRST, Table::Orphan, &[&ino.0.to_be_bytes()])
}

/// Key of an extent.
pub fn extent(id: ExtentId) -> Key {
    build(FAMILY, Table::Extent, &[&id.0.to_be_bytes()])
}

/// Key of a segment.
pub fn segment(id: SegmentId) -> Key {
    build(FAMILY, Table::Segment, &[&id.0.to_be_bytes()])
}

/// Key of a cached reply.
pub fn reply(request: &[u8]) -> Key {
    build(FAMILY, Table::Reply, &[request])
}

/// Key of the family's record.
pub fn meta() -> Key {
    build(FAMILY, Table::Meta, &[])
}

/// Returns the first key of a table, and the first key after it.
pub fn table_range(member: Member, table: Table) -> (Key, Key) {
    (build(member, table, &[]), Key::of(&[&prefix(member, table as u8 + 1)]))
}

/// Returns the member that has a table.
pub fn member_of(table: Table) -> Member {
    match table {
        Table::Extent | Table::Segment | Table::Reply | Table::Meta => FAMILY,
        _ => FIRST,
    }
}

/// Splits a key into member, table and fields; `None` if it is no key.
pub fn parse(key: &[u8]) -> Option<(Member, Table, &[u8])> {
    let mut reader = Reader::new(key, "key");
    let member = Member(reader.u32().ok()?);
    let table = Table::from_byte(reader.u8().ok()?)?;
    Some((member, table, reader.rest()))
}

/// Returns the object whose record has this key; `None` for records of no single object.
pub fn object(key: &[u8]) -> Option<Ino> {
    let (_, table, fields) = parse(key)?;
    let is_of_object = matches!(
        table,
        Table::Inode | Table::Name | Table::Cookie | Table::Map | Table::Symlink | Table::Xattr
    );
    number(fields).filter(|_| is_of_object).map(Ino)
}

/// Returns the eight-byte number that a key's fields begin with.
pub fn number(fields: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*fields.first_chunk::<8>()?))
}

/// Returns the second eight-byte number of a key's fields: a cookie, or the end of a range.
pub fn second_number(fields: &[u8]) -> Option<u64> {
    number(fields.get(8..)?)
}

/// Returns which of `shards` (a power of two) a key belongs to. All records of one inode and table share a shard, so
/// that a scan within an inode stays in it.
pub fn shard(key: &[u8], shards: usize) -> usize {
    usize::from(key.get(PREFIX + 7).copied().unwrap_or(0)) & (shards - 1)
}
