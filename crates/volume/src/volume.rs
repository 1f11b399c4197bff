//! A volume: a file system in a pool. `ops/` holds its operations.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use siphasher::sip::SipHasher24;

use crate::api::handle::Handle;
use crate::api::ids::{Ino, Layer, ObjectId, SnapshotId, VolumeId, VolumeNumber};
use crate::api::quotas::Owner;
use crate::api::request::{Durability, Error, RequestKey};
use crate::api::results::WriteVerifier;
use crate::api::time::Time;
use crate::encoding::record::{QuotaRecord, VolumeRecord};
use crate::limits;
use crate::pool::Pool;
use crate::quotas::{Budget, Ledger};

/// A volume of an open pool. Cheap to clone: all clones are the same volume.
///
/// It dereferences to its pool: journal, index, caches and background steps are those of all volumes of the pool.
#[derive(Clone)]
pub struct Volume {
    pool: Arc<Pool>,
    pub(crate) own: Arc<VolumeState>,
}

/// What a volume does not share with the others of its pool.
pub(crate) struct VolumeState {
    /// Its number in the pool.
    pub(crate) number: VolumeNumber,
    id: VolumeId,
    handle_secret: [u8; 16],
    name: RwLock<Arc<str>>,
    is_deleted: AtomicBool,
    /// Its size and quotas, and what is reserved of them.
    pub(crate) ledger: Ledger,
    /// How many mappings the index has of its files, as of the last checkpoint.
    pub(crate) mappings: AtomicU64,
    /// The last memtable in which a file with mappings was removed or made shorter.
    unmapped_in: AtomicU64,
    next_ino: AtomicU64,
    /// Held by a rename that changes the parent of a directory.
    pub(crate) directory_moves: Mutex<()>,
    /// What was lost of the protocol state was dropped since: see [`Volume::settle_state`].
    pub(crate) is_state_settled: AtomicBool,
}

impl VolumeState {
    /// Returns the state of a volume with this record and these quotas, of which the index has so many mappings. It shares `budget`
    /// with the other volumes of the pool.
    pub(crate) fn new(
        number: VolumeNumber,
        record: &VolumeRecord,
        quotas: BTreeMap<Owner, QuotaRecord>,
        mappings: u64,
        budget: &Arc<Budget>,
    ) -> VolumeState {
        VolumeState {
            number,
            id: record.id,
            handle_secret: record.handle_secret,
            name: RwLock::new(Arc::from(record.name.as_str())),
            is_deleted: AtomicBool::new(record.is_deleted),
            ledger: Ledger::new(record.size, quotas, budget),
            mappings: AtomicU64::new(mappings),
            unmapped_in: AtomicU64::new(0),
            next_ino: AtomicU64::new(record.next_ino.0),
            directory_moves: Mutex::new(()),
            is_state_settled: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }

    pub(crate) fn set_name(&self, name: &str) {
        *self.name.write() = Arc::from(name);
    }

    /// Whether it was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }

    pub(crate) fn set_deleted(&self, is_deleted: bool) {
        self.is_deleted.store(is_deleted, Ordering::Release);
    }

    /// Returns the record about the volume, as of now.
    pub(crate) fn record(&self) -> VolumeRecord {
        VolumeRecord {
            id: self.id,
            handle_secret: self.handle_secret,
            next_ino: Ino(self.next_ino.load(Ordering::Relaxed)),
            size: self.ledger.lock().size(),
            is_deleted: false,
            name: String::from(&**self.name.read()),
        }
    }

    /// Notes that a change in this memtable removes mappings, which the checkpoint frees that makes it part of the index.
    pub(crate) fn note_unmapped(&self, layer: Layer) {
        self.unmapped_in.fetch_max(layer.0, Ordering::Relaxed);
    }

    /// Whether this memtable, or a later one, removes mappings.
    pub(crate) fn unmaps_since(&self, layer: Layer) -> bool {
        self.unmapped_in.load(Ordering::Relaxed) >= layer.0
    }

    /// Returns a new inode number.
    pub(crate) fn new_ino(&self) -> Ino {
        Ino(self.next_ino.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the next inode number. It may be ahead of the contents of a checkpoint; that skips numbers, which is harmless.
    pub(crate) fn next_ino(&self) -> Ino {
        Ino(self.next_ino.load(Ordering::Relaxed))
    }
}

impl Deref for Volume {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Volume {
    pub(crate) fn new(pool: Arc<Pool>, own: Arc<VolumeState>) -> Volume {
        Volume { pool, own }
    }

    /// Returns the pool that it is in.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns its identity.
    pub fn id(&self) -> VolumeId {
        self.own.id
    }

    /// Returns its number in the pool.
    pub fn number(&self) -> VolumeNumber {
        self.own.number
    }

    /// Returns its name, which is unique in the pool.
    pub fn name(&self) -> Arc<str> {
        self.own.name()
    }

    /// Returns the limit on the bytes that its files use, if there is one.
    pub fn size(&self) -> Option<u64> {
        self.own.ledger.lock().size()
    }

    /// Returns how many mappings the index has of its files, as of the last checkpoint, and after how many they get no more.
    pub fn mappings(&self) -> (u64, Option<u64>) {
        let most = self.own.ledger.mappings_max();
        (self.own.mappings.load(Ordering::Relaxed), (most < u64::MAX).then_some(most))
    }

    /// Returns an object of this volume.
    pub(crate) fn object(&self, ino: Ino) -> ObjectId {
        self.own.number.object(ino)
    }

    /// Returns the handle of an object.
    pub fn handle(&self, ino: Ino) -> Handle {
        Handle::new(self.own.id, ino, SnapshotId::LIVE, &self.own.handle_secret)
    }

    /// Returns the object of a handle. Operations return [`Error::Stale`] if it no longer exists.
    ///
    /// # Errors
    /// [`Error::BadHandle`] for a handle that no server of this volume made, [`Error::Stale`] for a deleted snapshot or
    /// volume.
    pub fn resolve(&self, handle: &Handle) -> Result<Ino, Error> {
        if handle.volume != self.own.id || !handle.is_genuine(&self.own.handle_secret) {
            return Err(Error::BadHandle);
        }
        if handle.snapshot == SnapshotId::LIVE && !self.own.is_deleted() {
            Ok(handle.ino)
        } else {
            Err(Error::Stale)
        }
    }

    /// Returns a key for `purpose`, derived from the secret of handles: as durable, and as hard to guess. Different
    /// purposes have unrelated keys.
    pub fn subkey(&self, purpose: &[u8; 16]) -> [u8; 16] {
        // Handles are hashed in 28 bytes, so a purpose of another length never yields one of their checksums.
        let part = |number: u8| {
            let mut message = [number; 17];
            message[..16].copy_from_slice(purpose);
            SipHasher24::new_with_key(&self.own.handle_secret).hash(&message)
        };
        (u128::from(part(0)) << 64 | u128::from(part(1))).to_be_bytes()
    }

    /// Returns the answer to an earlier request with this key, and what a reply that repeats it waits for.
    pub fn lookup_request(&self, key: &RequestKey) -> Option<(Arc<[u8]>, Durability)> {
        self.duplicate_requests.lookup(&self.own_key(key))
    }

    fn own_key(&self, key: &RequestKey) -> RequestKey {
        key.clone().for_volume(self.own.number)
    }

    /// Caches the reply of a non-idempotent request that failed or had nothing to do; in memory only.
    pub fn remember_unchanged(&self, key: &RequestKey, answer: Arc<[u8]>, after: Durability, now: Time) {
        let record = crate::encoding::record::ReplyRecord { time: now, seq: after.seq, answer };
        self.duplicate_requests.insert(self.own_key(key), record, after.flush, false);
    }

    /// Returns the write verifier in force: derived from the generation and from the losses since.
    pub fn write_verifier(&self) -> WriteVerifier {
        let generation = u64::from(self.generation());
        let losses = self.losses.load(Ordering::Acquire);
        WriteVerifier((self.own.id.0.rotate_left(17) ^ (generation << 24) ^ losses).to_be_bytes())
    }

    /// Returns gauges for operators, those of its pool included: name and value.
    pub fn gauges(&self) -> Vec<(&'static str, u64)> {
        let usage = self.usage.of(self.number());
        let mut gauges = vec![("usage_bytes", usage.bytes), ("usage_inodes", usage.inodes)];
        gauges.extend(self.pool.gauges());
        gauges
    }
}

/// Checks a name that an operation takes.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Error::Invalid);
    }
    Ok(())
}
