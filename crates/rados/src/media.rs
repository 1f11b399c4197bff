//! The media of one pool: its log, index and segments.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space, Tenure};

use crate::fence::Owned;
use crate::index::{self, CurrentIndex};
use crate::journal::{self, Journal};
use crate::names::{CATALOGUE_OBJECTS, PoolNames};
use crate::segments::{self, Segments};
use crate::space::Room;

/// Where the parts of a pool are, and their space.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) names: PoolNames,
    /// The number of objects in the journal's ring.
    pub(crate) journal_objects: u64,
    /// Everything but segments and the ring.
    pub(crate) owned: Owned,
    /// The ring.
    pub(crate) ring: Owned,
    /// Segments.
    pub(crate) data: Owned,
    pub(crate) room: Arc<Room>,
    pub(crate) data_room: Arc<Room>,
    pub(crate) tenure: Arc<dyn Fn() -> Tenure + Send + Sync>,
}

/// Seals all objects of a pool that are changed in place. Its ring has `journal_objects`.
pub(crate) fn seal(owned: &Owned, names: PoolNames, journal_objects: u64) -> io::Result<()> {
    let ring = (0..journal_objects).map(|number| names.ring(number));
    let catalogue = (0..CATALOGUE_OBJECTS).map(|number| names.catalogue(number));
    owned.seal_all(ring.chain(catalogue))?;
    index::seal(owned, names)
}

impl Place {
    /// Creates the parts of a new pool.
    pub(crate) fn create(&self) -> io::Result<()> {
        journal::create(&self.ring, self.names, self.journal_objects)?;
        segments::create(&self.owned, self.names)?;
        CurrentIndex::create_first(&self.owned, self.names, &self.room)
    }

    /// Removes all that a pool has. May be repeated.
    pub(crate) fn remove(&self) -> io::Result<()> {
        segments::remove_all(&self.owned, &self.data, self.names)?;
        index::remove_all(&self.owned, self.names)?;
        self.owned.remove_all((0..self.journal_objects).map(|number| self.names.ring(number)))
    }
}

/// A pool in a namespace of a Ceph cluster, open.
pub struct RadosMedia {
    place: Place,
    log: Arc<Journal>,
    index: CurrentIndex,
    segments: Segments,
}

impl RadosMedia {
    /// Opens a pool, which is sealed.
    pub(crate) fn open(place: &Place) -> io::Result<RadosMedia> {
        let Place { names, owned, data, .. } = place.clone();
        let log = Journal::new(place.ring.clone(), names, place.journal_objects);
        let index = CurrentIndex::open(owned.clone(), names, Arc::clone(&place.room))?;
        let segments = Segments::open((owned, data), names, Arc::clone(&place.data_room))?;
        Ok(RadosMedia { place: place.clone(), log: Arc::new(log), index, segments })
    }
}

impl Media for RadosMedia {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        self.index.current()
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        Ok(self.index.create()?)
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        self.index.replace()
    }

    fn discard_index(&self) -> io::Result<()> {
        self.index.discard()
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        self.index.free_damaged(bytes)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        Ok(self.segments.create(id, capacity)?)
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        Ok(self.segments.open_one(id)?)
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.segments.delete(id)
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.segments.list())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(self.place.data_room.space())
    }

    fn tenure(&self) -> Tenure {
        if self.place.owned.fence().is_lost() { Tenure::Lost } else { (self.place.tenure)() }
    }
}
