//! Keys of records: `volume (4) | table (1) | fields`, big-endian, so that byte order is scan order.
//!
//! The volume comes first so that a clone can read through to its parent (rule 7 of `docs/design.md`), and all records
//! of a volume are one range. Volume 0 is the pool: tables that all its volumes share. `docs/format.md` lists the
//! tables.

use crate::api::ids::{Cookie, ExtentId, Ino, ObjectId, SegmentId, VolumeNumber};
use crate::api::quotas::{Owner, QuotaKind};
use crate::encoding::codec::Reader;

mod owned;

pub use owned::Key;

/// Stands for the pool: tables that all its volumes share.
pub const POOL: VolumeNumber = VolumeNumber(0);

/// The first volume of a pool.
pub const FIRST: VolumeNumber = VolumeNumber(1);

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
    /// `volume, ino` → a removed file whose map remains to be freed.
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
    /// `kind, id` → the limits of an owner, and since when it exceeds soft ones.
    Quota = 0x0b,
    /// `ino` → how far the quota tree of this directory is.
    Tree = 0x0c,
    /// no fields → how many records the volume's map table has.
    MapCount = 0x0d,
    /// `extent` → place, checksums and reference count.
    Extent = 0x10,
    /// `segment` → size and live bytes.
    Segment = 0x11,
    /// `volume`, `request key` → cached reply.
    Reply = 0x12,
    /// The one record about the whole pool.
    Meta = 0x13,
    /// `volume` → identity, name and size of a volume.
    Volume = 0x14,
}

impl Table {
    /// All tables, in key order.
    pub const ALL: [Table; 18] = [
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
        Table::Quota,
        Table::Tree,
        Table::MapCount,
        Table::Extent,
        Table::Segment,
        Table::Reply,
        Table::Meta,
        Table::Volume,
    ];

    fn from_byte(byte: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| *table as u8 == byte)
    }
}

fn build(volume: VolumeNumber, table: Table, fields: &[&[u8]]) -> Key {
    let prefix = prefix(volume, table as u8);
    match fields {
        [] => Key::of(&[&prefix]),
        [field] => Key::of(&[&prefix, field]),
        [first, second] => Key::of(&[&prefix, first, second]),
        _ => unreachable!("no table's keys have more fields"),
    }
}

fn prefix(volume: VolumeNumber, table: u8) -> [u8; PREFIX] {
    let [a, b, c, d] = volume.0.to_be_bytes();
    [a, b, c, d, table]
}

/// Key of an inode's record.
pub fn inode(object: ObjectId) -> Key {
    build(object.volume, Table::Inode, &[&object.ino.0.to_be_bytes()])
}

/// Key of a name.
pub fn name(directory: ObjectId, name: &[u8]) -> Key {
    build(directory.volume, Table::Name, &[&directory.ino.0.to_be_bytes(), name])
}

/// Key of a name in READDIR's order.
pub fn cookie(directory: ObjectId, cookie: Cookie) -> Key {
    build(directory.volume, Table::Cookie, &[&directory.ino.0.to_be_bytes(), &cookie.0.to_be_bytes()])
}

/// Key of the range of a file that ends at `end`.
pub fn map(object: ObjectId, end: u64) -> Key {
    build(object.volume, Table::Map, &[&object.ino.0.to_be_bytes(), &end.to_be_bytes()])
}

/// Key of a removed file.
pub fn reap(object: ObjectId) -> Key {
    build(POOL, Table::Reap, &[&object.volume.0.to_be_bytes(), &object.ino.0.to_be_bytes()])
}

/// Key of a usage counter.
pub fn usage(volume: VolumeNumber, kind: u8, id: u64) -> Key {
    build(volume, Table::Usage, &[&[kind], &id.to_be_bytes()])
}

/// Key of a quota.
pub fn quota(volume: VolumeNumber, owner: Owner) -> Key {
    build(volume, Table::Quota, &[&[owner.kind.byte()], &owner.id.to_be_bytes()])
}

/// Key of a quota tree.
pub fn tree(root: ObjectId) -> Key {
    build(root.volume, Table::Tree, &[&root.ino.0.to_be_bytes()])
}

/// Key of the count of a volume's mappings.
pub fn map_count(volume: VolumeNumber) -> Key {
    build(volume, Table::MapCount, &[])
}

/// Returns whose usage or quota the fields of a record's key name.
pub fn owner(fields: &[u8]) -> Option<Owner> {
    let (kind, id) = fields.split_first()?;
    Some(Owner::new(QuotaKind::from_byte(*kind)?, u64::from_be_bytes(id.try_into().ok()?)))
}

/// Key of a symlink's target.
pub fn symlink(object: ObjectId) -> Key {
    build(object.volume, Table::Symlink, &[&object.ino.0.to_be_bytes()])
}

/// Key of an extended attribute.
pub fn xattr(object: ObjectId, name: &[u8]) -> Key {
    build(object.volume, Table::Xattr, &[&object.ino.0.to_be_bytes(), name])
}

/// Key of a protocol state record.
pub fn state(volume: VolumeNumber, state: &[u8]) -> Key {
    build(volume, Table::State, &[state])
}

/// Key of a file without a name.
pub fn orphan(object: ObjectId) -> Key {
    build(object.volume, Table::Orphan, &[&object.ino.0.to_be_bytes()])
}

/// Key of an extent.
pub fn extent(id: ExtentId) -> Key {
    build(POOL, Table::Extent, &[&id.0.to_be_bytes()])
}

/// Key of a segment.
pub fn segment(id: SegmentId) -> Key {
    build(POOL, Table::Segment, &[&id.0.to_be_bytes()])
}

/// Key of a cached reply of a volume.
pub fn reply(volume: VolumeNumber, request: &[u8]) -> Key {
    build(POOL, Table::Reply, &[&volume.0.to_be_bytes(), request])
}

/// Splits the fields of a key of a cached reply into the volume and the request.
pub fn replied(fields: &[u8]) -> Option<(VolumeNumber, &[u8])> {
    let (volume, request) = fields.split_first_chunk()?;
    Some((VolumeNumber(u32::from_be_bytes(*volume)), request))
}

/// Key of the pool's record.
pub fn meta() -> Key {
    build(POOL, Table::Meta, &[])
}

/// Key of the record about a volume.
pub fn volume(number: VolumeNumber) -> Key {
    build(POOL, Table::Volume, &[&number.0.to_be_bytes()])
}

/// Returns the volume that the fields of a key of the table of volumes name.
pub fn volume_number(fields: &[u8]) -> Option<VolumeNumber> {
    Some(VolumeNumber(u32::from_be_bytes(fields.try_into().ok()?)))
}

/// Returns the first key of all records of a volume, and the first key after them.
pub fn volume_range(volume: VolumeNumber) -> (Key, Key) {
    let first = |number: u32| Key::of(&[&number.to_be_bytes()]);
    (first(volume.0), first(volume.0 + 1))
}

/// Returns the first key of a table, and the first key after it.
pub fn table_range(volume: VolumeNumber, table: Table) -> (Key, Key) {
    (build(volume, table, &[]), Key::of(&[&prefix(volume, table as u8 + 1)]))
}

/// Whether a table is the pool's own, and not of each volume.
pub fn is_of_pool(table: Table) -> bool {
    matches!(table, Table::Reap | Table::Extent | Table::Segment | Table::Reply | Table::Meta | Table::Volume)
}

/// Splits a key into volume, table and fields; `None` if it is no key.
pub fn parse(key: &[u8]) -> Option<(VolumeNumber, Table, &[u8])> {
    let mut reader = Reader::new(key, "key");
    let volume = VolumeNumber(reader.u32().ok()?);
    let table = Table::from_byte(reader.u8().ok()?)?;
    Some((volume, table, reader.rest()))
}

/// Returns the object whose record has this key; `None` for records of no single object.
pub fn object(key: &[u8]) -> Option<ObjectId> {
    let (volume, table, fields) = parse(key)?;
    let is_of_object = matches!(
        table,
        Table::Inode
            | Table::Name
            | Table::Cookie
            | Table::Map
            | Table::Symlink
            | Table::Xattr
            | Table::Orphan
            | Table::Tree
    );
    number(fields).filter(|_| is_of_object).map(|number| volume.object(Ino(number)))
}

/// Returns the object that the fields of a key of the reap table name.
pub fn reaped(fields: &[u8]) -> Option<ObjectId> {
    let (volume, ino) = fields.split_first_chunk::<4>()?;
    Some(VolumeNumber(u32::from_be_bytes(*volume)).object(Ino(number(ino)?)))
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
