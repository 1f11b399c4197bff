//! Segments: each is a row of objects that are written once, from front to back, and an entry in the pool's catalogue.
//!
//! The catalogue consists of pairs, over several objects: the segment's id, and the epoch in which it was created with its capacity.
//! The epoch is part of the names of the segment's objects, so the same id of another owner names other objects. An entry comes
//! before its objects, and goes after them, so a crash leaves no object without an entry; an entry that is being deleted says so.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use volume::ids::SegmentId;
use volume::media::Blob;

use crate::fence::{Owned, Pending, wait_for_all};
use crate::names::{CATALOGUE_OBJECTS, OBJECT_BYTES, OBJECT_USIZE, PoolNames};
use crate::objects::{Piece, Step};
use crate::space::{Promise, Room};

/// What the catalogue says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    epoch: u64,
    capacity: u64,
    is_deleted: bool,
}

impl Entry {
    fn encode(&self) -> String {
        let Entry { epoch, capacity, is_deleted } = self;
        format!("{} {epoch:x} {capacity}", if *is_deleted { "deleted" } else { "segment" })
    }

    fn decode(bytes: &[u8]) -> Option<Entry> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        let is_deleted = match words.next()? {
            "segment" => false,
            "deleted" => true,
            _ => return None,
        };
        let epoch = u64::from_str_radix(words.next()?, 16).ok()?;
        let capacity = words.next()?.parse().ok()?;
        Some(Entry { epoch, capacity, is_deleted })
    }

    /// How many objects the segment has when it is full.
    fn objects(&self) -> u64 {
        self.capacity.div_ceil(OBJECT_BYTES)
    }
}

/// The segments of an open pool.
pub(crate) struct Segments {
    /// The objects of the catalogue.
    catalogue: Owned,
    /// The objects of segments, which may be in another pool of the cluster.
    data: Owned,
    names: PoolNames,
    room: Arc<Room>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<SegmentId, Entry>,
    /// Segments that are open. Those that are not any more are dropped when there are many.
    open: HashMap<SegmentId, Weak<Segment>>,
}

/// Creates the catalogue of a pool.
pub(crate) fn create(catalogue: &Owned, names: PoolNames) -> io::Result<()> {
    catalogue.create_all((0..CATALOGUE_OBJECTS).map(|number| names.catalogue(number)), b"")
}

/// Reads the catalogue.
fn read(catalogue: &Owned, names: PoolNames) -> io::Result<BTreeMap<SegmentId, Entry>> {
    let mut entries = BTreeMap::new();
    for number in 0..CATALOGUE_OBJECTS {
        let object = names.catalogue(number);
        for (key, value) in catalogue.pairs(&object)? {
            let entry = u64::from_str_radix(&key, 16).ok().zip(Entry::decode(&value));
            let (id, entry) = entry.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the object {object} is damaged at {key:?}"),
                )
            })?;
            entries.insert(SegmentId(id), entry);
        }
    }
    Ok(entries)
}

/// Returns how many segments a pool has, and their bytes.
pub(crate) fn count(catalogue: &Owned, names: PoolNames) -> io::Result<(u64, u64)> {
    let entries = read(catalogue, names)?;
    let live = entries.values().filter(|entry| !entry.is_deleted);
    Ok(live.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.capacity)))
}

/// Removes all segments of a pool, with the catalogue.
pub(crate) fn remove_all(catalogue: &Owned, data: &Owned, names: PoolNames) -> io::Result<()> {
    for (id, entry) in read(catalogue, names)? {
        data.remove_all(objects_of(names, id, entry))?;
    }
    catalogue.remove_all((0..CATALOGUE_OBJECTS).map(|number| names.catalogue(number)))
}

fn objects_of(names: PoolNames, id: SegmentId, entry: Entry) -> impl Iterator<Item = String> {
    (0..entry.objects()).map(move |number| names.segment(id, entry.epoch, number))
}

fn key_of(id: SegmentId) -> String {
    format!("{:016x}", id.0)
}

impl Segments {
    /// Reads the catalogue, which is sealed, and finishes deletions.
    pub(crate) fn open(
        (catalogue, data): (Owned, Owned),
        names: PoolNames,
        room: Arc<Room>,
    ) -> io::Result<Segments> {
        let entries = read(&catalogue, names)?;
        let deleted: Vec<SegmentId> =
            entries.iter().filter(|(_, entry)| entry.is_deleted).map(|(id, _)| *id).collect();
        let state = Mutex::new(State { entries, ..State::default() });
        let segments = Segments { catalogue, data, names, room, state };
        for id in deleted {
            segments.finish_deletion(id)?;
        }
        Ok(segments)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, id: SegmentId, entry: Entry) -> io::Result<()> {
        let (key, value) = (key_of(id), entry.encode());
        self.catalogue.change(&self.names.catalogue_of(id), Step::PutPair(&key, value.as_bytes()))?;
        self.state().entries.insert(id, entry);
        Ok(())
    }

    /// Creates an empty segment for which there is space.
    pub(crate) fn create(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<Segment>> {
        if self.state().entries.contains_key(&id) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("segment {id} exists")));
        }
        let promise = self.room.promise(capacity)?;
        let entry = Entry { epoch: self.catalogue.epoch(), capacity, is_deleted: false };
        self.put(id, entry)?;
        if let Err(error) = self.allocate(id, entry) {
            // What there is of it is deleted when the pool is opened next, if not now.
            let _ = self.delete(id);
            return Err(error);
        }
        Ok(self.opened(id, entry, Some(promise)))
    }

    /// Gives the objects of a segment their length, so that a full pool takes what is written to them.
    fn allocate(&self, id: SegmentId, entry: Entry) -> io::Result<()> {
        let length = [Step::Create, Step::SetLength(OBJECT_BYTES)];
        let objects = objects_of(self.names, id, entry);
        let allocated: Vec<Pending> =
            objects.map(|object| self.data.start_unguarded(&object, &length)).collect();
        wait_for_all(allocated)
    }

    /// Opens a segment for reading.
    pub(crate) fn open_one(&self, id: SegmentId) -> io::Result<Arc<Segment>> {
        let entry = self.state().entries.get(&id).copied();
        let entry = entry.filter(|entry| !entry.is_deleted).ok_or_else(|| missing(id))?;
        let open = self.state().open.get(&id).and_then(Weak::upgrade);
        Ok(open.unwrap_or_else(|| self.opened(id, entry, None)))
    }

    fn opened(&self, id: SegmentId, entry: Entry, promise: Option<Promise>) -> Arc<Segment> {
        let segment = Arc::new(Segment {
            data: self.data.clone(),
            names: self.names,
            id,
            entry,
            pending: Mutex::default(),
            promise,
            is_deleted: AtomicBool::new(false),
        });
        let mut state = self.state();
        if state.open.len() > 1024 {
            state.open.retain(|_, segment| segment.strong_count() > 0);
        }
        state.open.insert(id, Arc::downgrade(&segment));
        segment
    }

    /// Deletes a segment. If readers have it open, its objects go with the last of them, and its entry with the next opening.
    pub(crate) fn delete(&self, id: SegmentId) -> io::Result<()> {
        let entry = self.state().entries.get(&id).copied();
        let entry = entry.filter(|entry| !entry.is_deleted).ok_or_else(|| missing(id))?;
        self.put(id, Entry { is_deleted: true, ..entry })?;
        let open = self.state().open.remove(&id).and_then(|segment| segment.upgrade());
        match open {
            Some(open) => {
                open.is_deleted.store(true, Ordering::Release);
                Ok(())
            }
            None => self.finish_deletion(id),
        }
    }

    /// Removes the objects of a segment and its entry, which says that it is deleted.
    fn finish_deletion(&self, id: SegmentId) -> io::Result<()> {
        let entry = self.state().entries.get(&id).copied();
        let Some(entry) = entry else { return Ok(()) };
        self.data.remove_all(objects_of(self.names, id, entry))?;
        self.catalogue.change(&self.names.catalogue_of(id), Step::RemovePair(&key_of(id)))?;
        self.state().entries.remove(&id);
        Ok(())
    }

    /// Lists the segments, in order.
    pub(crate) fn list(&self) -> Vec<SegmentId> {
        let state = self.state();
        state.entries.iter().filter(|(_, entry)| !entry.is_deleted).map(|(id, _)| *id).collect()
    }
}

fn missing(id: SegmentId) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no segment {id}"))
}

/// An open segment.
pub(crate) struct Segment {
    data: Owned,
    names: PoolNames,
    id: SegmentId,
    entry: Entry,
    /// Writes since the last sync.
    pending: Mutex<Vec<Pending>>,
    /// Space that it may still use, if it was created by this process.
    promise: Option<Promise>,
    /// Whether its objects go when nobody has it open any more.
    is_deleted: AtomicBool,
}

impl Segment {
    fn name(&self, object: u64) -> String {
        self.names.segment(self.id, self.entry.epoch, object)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if *self.is_deleted.get_mut() {
            for object in objects_of(self.names, self.id, self.entry) {
                // Nobody waits: the next opening of the pool removes what is left.
                drop(self.data.start_unguarded(&object, &[Step::Remove]));
            }
        }
    }
}

impl Blob for Segment {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_all(&mut [(offset, buffer)])
    }

    fn read_all(&self, wanted: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let mut pieces = Vec::new();
        for (offset, buffer) in wanted {
            let end = offset.saturating_add(buffer.len() as u64);
            if end > self.entry.objects() * OBJECT_BYTES {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the segment"));
            }
            let (mut at, mut rest) = (*offset, &mut **buffer);
            while !rest.is_empty() {
                let within = at % OBJECT_BYTES;
                let room = usize::try_from(OBJECT_BYTES - within).expect("an object fits memory");
                let (first, after) = rest.split_at_mut(room.min(rest.len()));
                at += first.len() as u64;
                rest = after;
                pieces.push(Piece::new(self.name((at - 1) / OBJECT_BYTES), within, first));
            }
        }
        self.data.read(&mut pieces);
        for piece in pieces {
            let count = match piece.result {
                // Nothing was written there. Checksums tell if something was.
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                count => count?,
            };
            piece.buffer[count..].fill(0);
        }
        Ok(())
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let (mut at, mut rest) = (offset, &mut parts.to_vec()[..]);
        while !rest.is_empty() {
            let within = at % OBJECT_BYTES;
            let room = OBJECT_USIZE - usize::try_from(within).expect("an object fits memory");
            let (mut piece, mut taken) = (Vec::new(), 0);
            for part in &*rest {
                let count = part.len().min(room - taken);
                // The slice of a part lives as long as the part.
                piece.push(count);
                taken += count;
            }
            let slices: Vec<IoSlice<'_>> =
                rest.iter().zip(&piece).map(|(part, count)| IoSlice::new(&part[..*count])).collect();
            let name = self.name(at / OBJECT_BYTES);
            let pending = self.data.start_unguarded(&name, &[Step::Write(within, &slices)]);
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
            drop(slices);
            IoSlice::advance_slices(&mut rest, taken);
            at += taken as u64;
            if let Some(promise) = &self.promise {
                promise.keep(taken as u64);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        wait_for_all(pending)
    }
}
