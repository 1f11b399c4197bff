//! Destaging: moves the live inline data out of the journal into segments, in file order.

use std::collections::{BTreeMap, HashSet};
use std::io;

use crate::api::ids::{ExtentId, Layer, ObjectId};
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{ExtentMapping, ExtentRecord, InodeRecord, Source};
use crate::limits::EXTENT_BYTES_MAX;
use crate::pool::Identity;
use crate::segments::{Segments, Stream};

/// Visible mappings of a frozen memtable, in file order: `(end, mapping)`. Inline data is borrowed.
type Visible<'r> = BTreeMap<ObjectId, Vec<(u64, ExtentMapping<&'r [u8]>)>>;

/// The maps of a frozen memtable after destaging.
#[derive(Default)]
pub struct Destaged {
    /// Mappings of each remaining file: visible ones only, in file order, none inline; including holes.
    pub maps: BTreeMap<ObjectId, Vec<(u64, ExtentMapping)>>,
    /// Extents written for inline data, in the order of their ids.
    pub extents: Vec<(ExtentId, ExtentRecord)>,
    /// Files that the memtable removes.
    pub removed: HashSet<ObjectId>,
}

impl Destaged {
    /// Records that the index has the extents.
    pub fn complete(&self, segments: &Segments, layer: Layer) {
        self.resolve_pending(segments, Some(layer));
    }

    /// Gives up the extents: the next attempt writes new ones.
    pub fn abandon(&self, segments: &Segments) {
        self.resolve_pending(segments, None);
    }

    fn resolve_pending(&self, segments: &Segments, layer: Option<Layer>) {
        for of_segment in self.extents.chunk_by(|(_, a), (_, b)| a.segment == b.segment) {
            segments.resolve_pending(of_segment[0].1.segment, of_segment.len() as u64, layer);
        }
    }
}

/// Writes inline data to segments.
pub(super) struct Destager<'v> {
    pub(super) segments: &'v Segments,
    pub(super) identity: &'v Identity,
}

impl Destager<'_> {
    /// Writes the inline data of a frozen memtable to segments and syncs them.
    pub(super) fn destage(&self, records: &[(Key, Slot)]) -> io::Result<Destaged> {
        let mut destaged = Destaged::default();
        let visible = collect(records, &mut destaged.removed)?;
        let mut stream = self.segments.streams().checkpoint.lock();
        let written = self
            .write_pieces(&mut stream, &visible, &mut destaged)
            .and_then(|()| stream.flush(self.segments));
        if let Err(error) = written {
            stream.seal(self.segments);
            destaged.abandon(self.segments);
            return Err(error);
        }
        Ok(destaged)
    }

    fn write_pieces(
        &self,
        stream: &mut Stream,
        visible: &Visible<'_>,
        destaged: &mut Destaged,
    ) -> io::Result<()> {
        for (ino, mappings) in visible {
            let mut out: Vec<(u64, ExtentMapping)> = Vec::with_capacity(mappings.len());
            let mut run = Run::default();
            for (end, mapping) in mappings {
                match &mapping.source {
                    Source::Inline(bytes) => {
                        // A truncation may have hidden the end of the mapping.
                        let visible =
                            usize::try_from(end - mapping.start).expect("inline data is far below 4 GiB");
                        let bytes = &bytes[..visible];
                        if !run.takes(mapping, bytes.len()) {
                            run.write(self, stream, &mut out, &mut destaged.extents)?;
                            run = Run { first: Some(mapping), ..Run::default() };
                        }
                        run.parts.push(bytes);
                        run.length += bytes.len();
                    }
                    Source::Extent { .. } | Source::Hole | Source::Lost => {
                        out.push((*end, mapping.to_owned()))
                    }
                }
            }
            run.write(self, stream, &mut out, &mut destaged.extents)?;
            out.sort_unstable_by_key(|(end, _)| *end);
            destaged.maps.insert(*ino, out);
        }
        Ok(())
    }
}

/// Adjacent inline mappings that become one extent.
#[derive(Default)]
struct Run<'r> {
    first: Option<&'r ExtentMapping<&'r [u8]>>,
    parts: Vec<&'r [u8]>,
    length: usize,
}

impl Run<'_> {
    fn takes(&self, mapping: &ExtentMapping<&[u8]>, length: usize) -> bool {
        self.first.is_some_and(|first| {
            first.start + self.length as u64 == mapping.start
                && first.birth == mapping.birth
                && self.length + length <= EXTENT_BYTES_MAX
        })
    }

    fn write(
        &self,
        destager: &Destager<'_>,
        stream: &mut Stream,
        out: &mut Vec<(u64, ExtentMapping)>,
        extents: &mut Vec<(ExtentId, ExtentRecord)>,
    ) -> io::Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        let id = destager.identity.new_extent();
        extents.push((id, stream.append(destager.segments, id, self.parts.iter().copied())?));
        let source = Source::Extent { id, offset: 0 };
        let mapping = ExtentMapping { start: first.start, birth: first.birth, source };
        out.push((first.start + self.length as u64, mapping));
        Ok(())
    }
}

/// Collects the visible mappings and the removed files.
fn collect<'r>(records: &'r [(Key, Slot)], removed: &mut HashSet<ObjectId>) -> io::Result<Visible<'r>> {
    let mut maps: Visible<'r> = BTreeMap::new();
    let mut inodes: BTreeMap<ObjectId, InodeRecord> = BTreeMap::new();
    for (key, slot) in records {
        let Some((_, table, fields)) = key::parse(key) else { continue };
        let Some(id) = key::object(key) else { continue };
        match (table, slot) {
            (Table::Inode, None) => {
                removed.insert(id);
            }
            (Table::Inode, Some(value)) => {
                inodes.insert(id, InodeRecord::decode(value).map_err(io::Error::other)?);
            }
            (Table::Map, Some(value)) if !removed.contains(&id) => {
                let end = key::second_number(fields).unwrap_or_default();
                let mapping = ExtentMapping::borrow(value).map_err(io::Error::other)?;
                let visible = inodes.get(&id).map_or(u64::MAX, |inode| inode.visible_end(mapping.birth));
                if mapping.start < end.min(visible) {
                    maps.entry(id).or_default().push((end.min(visible), mapping));
                }
            }
            _ => {}
        }
    }
    Ok(maps)
}
