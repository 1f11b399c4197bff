//! Inline data leaves the journal: what is still alive of it goes to segments, in file order.

use std::collections::{BTreeMap, HashSet};
use std::io;

use crate::entry::Slot;
use crate::ids::{ExtentId, Ino, Layer};
use crate::key::{self, Key, Table};
use crate::limits::EXTENT_BYTES;
use crate::record::{ExtentRecord, InodeRecord, MapRecord, Source};
use crate::segments::{Segments, Stream};
use crate::volume::Volume;

/// What became of the maps in a frozen memtable.
#[derive(Default)]
pub struct Destaged {
    /// Pieces of each file that still exists: visible ones only, in file order, none inline; holes among them.
    pub maps: BTreeMap<Ino, Vec<(u64, MapRecord)>>,
    /// Extents written for inline data.
    pub extents: BTreeMap<ExtentId, ExtentRecord>,
    /// Files that the memtable removes.
    pub removed: HashSet<Ino>,
}

impl Destaged {
    /// The index knows the extents now.
    pub fn settle(&self, segments: &Segments, layer: Layer) {
        for record in self.extents.values() {
            segments.settle(record.segment, 1, Some(layer));
        }
    }

    /// The extents are dead bytes: the next try writes others.
    pub fn abandon(&self, segments: &Segments) {
        for record in self.extents.values() {
            segments.settle(record.segment, 1, None);
        }
    }
}

impl Volume {
    /// Writes the inline data of a frozen memtable to segments and syncs them. Takes the map's records out of `records`:
    /// the result has what is left of them.
    pub(super) fn destage(&self, records: &mut [(Key, Slot)]) -> io::Result<Destaged> {
        let mut destaged = Destaged::default();
        collect(records, &mut destaged)?;
        let mut stream = self.checkpoints.stream.lock();
        let written =
            self.write_pieces(&mut stream, &mut destaged).and_then(|()| stream.flush(&self.segments));
        if let Err(error) = written {
            stream.seal(&self.segments);
            destaged.abandon(&self.segments);
            return Err(error);
        }
        Ok(destaged)
    }

    fn write_pieces(&self, stream: &mut Stream, destaged: &mut Destaged) -> io::Result<()> {
        for pieces in destaged.maps.values_mut() {
            let mut out: Vec<(u64, MapRecord)> = Vec::with_capacity(pieces.len());
            let mut run = Run::default();
            for (end, piece) in pieces.drain(..) {
                match &piece.source {
                    Source::Inline(bytes) => {
                        if !run.takes(piece.start, piece.birth, bytes.len()) {
                            run.write(self, stream, &mut out, &mut destaged.extents)?;
                            run = Run {
                                start: piece.start,
                                epoch: piece.epoch.0,
                                birth: piece.birth,
                                bytes: Vec::new(),
                            };
                        }
                        // A cut may have hidden the end of the piece.
                        let visible =
                            usize::try_from(end - piece.start).expect("inline data is far below 4 GiB");
                        run.bytes.extend_from_slice(&bytes[..visible]);
                    }
                    Source::Extent { .. } | Source::Hole => out.push((end, piece)),
                }
            }
            run.write(self, stream, &mut out, &mut destaged.extents)?;
            out.sort_unstable_by_key(|(end, _)| *end);
            *pieces = out;
        }
        Ok(())
    }
}

/// Adjacent inline pieces on their way into one extent.
#[derive(Default)]
struct Run {
    start: u64,
    epoch: u32,
    birth: u32,
    bytes: Vec<u8>,
}

impl Run {
    fn takes(&self, start: u64, birth: u32, length: usize) -> bool {
        !self.bytes.is_empty()
            && self.start + self.bytes.len() as u64 == start
            && self.birth == birth
            && self.bytes.len() + length <= EXTENT_BYTES
    }

    fn write(
        &mut self,
        volume: &Volume,
        stream: &mut Stream,
        out: &mut Vec<(u64, MapRecord)>,
        extents: &mut BTreeMap<ExtentId, ExtentRecord>,
    ) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let id = volume.new_extent();
        extents.insert(id, stream.append(&volume.segments, id, &bytes)?);
        let source = Source::Extent { id, offset: 0 };
        let epoch = crate::ids::Epoch(self.epoch);
        let piece = MapRecord { epoch, start: self.start, birth: self.birth, source };
        out.push((self.start + bytes.len() as u64, piece));
        Ok(())
    }
}

/// Finds the pieces that are visible and the files that are gone.
fn collect(records: &[(Key, Slot)], destaged: &mut Destaged) -> io::Result<()> {
    let mut inodes: BTreeMap<Ino, InodeRecord> = BTreeMap::new();
    for (key, slot) in records {
        let Some((_, table, fields)) = key::parse(key) else { continue };
        let ino = Ino(key::number(fields).unwrap_or_default());
        match (table, slot) {
            (Table::Inode, None) => {
                destaged.removed.insert(ino);
            }
            (Table::Inode, Some(value)) => {
                inodes.insert(ino, InodeRecord::decode(value).map_err(io::Error::other)?);
            }
            (Table::Map, Some(value)) if !destaged.removed.contains(&ino) => {
                let end = key::second_number(fields).unwrap_or_default();
                let piece = MapRecord::decode(value).map_err(io::Error::other)?;
                let visible = inodes.get(&ino).map_or(u64::MAX, |inode| inode.visible_end(piece.birth));
                if piece.start < end.min(visible) {
                    destaged.maps.entry(ino).or_default().push((end.min(visible), piece));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
