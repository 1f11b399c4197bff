//! Creates, renames, resizes and deletes volumes while others are served.
//!
//! Each change is one journal entry. Clients lose a deleted volume at once; checkpoints then remove its records in
//! bounded portions, and give the references of its extents back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod quotas;
mod trees;

use crate::api::ids::{Ino, VolumeNumber};
use crate::api::request::{Answer, Durability, Error, Promised};
use crate::api::results::VolumeListing;
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::key::POOL;
use crate::encoding::record::{UsageRecord, VolumeRecord};
use crate::limits::{VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};
use crate::open::{VolumeOptions, root_record};
use crate::pool::Pool;
use crate::quotas::{Ledger, size_limit};
use crate::volume::{Volume, VolumeState};

impl Pool {
    /// Creates an empty volume, in memory and with one journal entry.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than [`VOLUME_NAME_BYTES_MAX`] or has a `/` or NUL; `Exists` for that of
    /// another volume; `TooManyVolumes` beyond [`VOLUMES_MAX`] volumes, with those being deleted; and those of every change:
    /// `NoSpace`, `ReadOnly`, or `Busy`, after which the caller tries again in a moment.
    pub fn create_volume(self: &Arc<Pool>, options: &VolumeOptions, now: Time) -> Answer<Volume> {
        let _one_at_a_time = self.volume_changes.lock();
        self.check_new_name(&options.name)?;
        if self.volumes.read().len() + self.deletions.len() >= VOLUMES_MAX {
            return Err(Error::TooManyVolumes.into());
        }
        let number = VolumeNumber(self.next_volume.load(Ordering::Relaxed));
        let record = VolumeRecord {
            id: options.id,
            handle_secret: options.handle_secret,
            next_ino: Ino(Ino::ROOT.0 + 1),
            size: size_limit(options.size),
            is_deleted: false,
            name: options.name.clone(),
        };
        let root_id = number.object(Ino::ROOT);
        let mut change = self.begin(number)?;
        let (stamp, _) = self.committer.stamp(now);
        let root = root_record(options, stamp);
        change.put_new(key::volume(number), record.encode());
        change.put_new(key::inode(root_id), root.encode());
        change.add_usage(&root, 0, 1);
        // Before the entry can be frozen: the checkpoint that contains it stores this number.
        self.next_volume.store(number.0 + 1, Ordering::Relaxed);
        let seq = change.commit();
        self.negative_lookups.directory_created(root_id);
        let own = Arc::new(VolumeState::new(number, &record, BTreeMap::new(), 0, &self.quota_budget));
        if own.ledger.is_limited() {
            self.expect_accounts(&own.ledger);
        }
        self.volumes.write().insert(number, Arc::clone(&own));
        let after = Durability::of(seq);
        Ok(Promised { value: Volume::new(Arc::clone(self), own), after })
    }

    /// Gives a volume another name. Handles stay valid.
    ///
    /// # Errors
    /// Those of names as for [`Pool::create_volume`]; `Stale` if the volume was deleted; and those of every change.
    pub fn rename_volume(&self, volume: &Volume, name: &str) -> Result<Durability, Error> {
        let _one_at_a_time = self.volume_changes.lock();
        if *volume.name() == *name {
            return Ok(Durability::NOW);
        }
        self.check_new_name(name)?;
        let record = VolumeRecord { name: name.to_owned(), ..volume.own.record() };
        let seq = self.put_volume(volume.number(), &record)?;
        volume.own.set_name(name);
        Ok(seq)
    }

    /// Limits the bytes that the files of a volume may use; `None`, zero or 2^64 - 1 for as many as the pool has. A size below
    /// what they use refuses growth only. Data that is accepted at the same moment may exceed a limit where there was none.
    ///
    /// # Errors
    /// `Stale` if the volume was deleted; and those of every change.
    pub fn resize_volume(&self, volume: &Volume, size: Option<u64>) -> Result<Durability, Error> {
        let _one_at_a_time = self.volume_changes.lock();
        let size = size_limit(size);
        if volume.size() == size {
            return Ok(Durability::NOW);
        }
        let record = VolumeRecord { size, ..volume.own.record() };
        let after = self.put_volume(volume.number(), &record)?;
        if size.is_some() {
            self.expect_accounts(&volume.own.ledger);
        }
        volume.own.ledger.resize(size, self.write_back.pace());
        Ok(after)
    }

    /// Lists all volumes by number, also those of which only records remain to be removed: their names are free, and their
    /// bytes and objects are not counted any more.
    pub fn list_volumes(&self) -> Vec<VolumeListing> {
        let volumes = self.volumes.read().clone();
        let mut listed: Vec<VolumeListing> = volumes
            .iter()
            .map(|(number, own)| listing(*number, own.record(), self.usage.of(*number)))
            .collect();
        let deleting = self.deletions.records();
        let gone = deleting.into_iter().filter(|(number, _)| !volumes.contains_key(number));
        listed.extend(gone.map(|(number, record)| listing(number, record, UsageRecord::default())));
        listed.sort_by_key(|volume| volume.number);
        listed
    }

    /// Deletes a volume. All its handles are stale and its name is free at once; checkpoints free its space. Returns what a
    /// reply that says so waits for.
    ///
    /// # Errors
    /// `Stale` if it was deleted before; `ReadOnly` if the pool refuses changes.
    pub fn delete_volume(&self, volume: &Volume) -> Result<Durability, Error> {
        let _one_at_a_time = self.volume_changes.lock();
        let number = volume.number();
        if volume.own.is_deleted() {
            return Err(Error::Stale);
        }
        // Checked before clients can see the volume gone.
        if self.refuses_changes().is_some() {
            return Err(Error::ReadOnly);
        }
        let record = VolumeRecord { is_deleted: true, ..volume.own.record() };
        {
            // No change of the volume is in progress now, and none can begin afterwards.
            let _quiet = self.view.write();
            volume.own.set_deleted(true);
            self.volumes.write().remove(&number);
            self.deletions.add(number, record.clone());
        }
        volume.own.ledger.lock().forget();
        let put = self.begin_background(POOL).map(|mut change| {
            change.put(key::volume(number), record.encode());
            // Before the entry can be frozen: the checkpoint that contains it writes no counters and replies of the volume.
            self.usage.clear(number);
            self.duplicate_requests.forget_volume(number);
            change.commit()
        });
        let seq = put.inspect_err(|_| {
            self.deletions.remove(number);
            self.volumes.write().insert(number, Arc::clone(&volume.own));
            volume.own.set_deleted(false);
        })?;
        self.orphans.forget_volume(number);
        self.write_back.press();
        self.checkpoints.kick();
        Ok(Durability::of(seq))
    }

    /// Has transactions of a volume look at its limits from now on.
    fn expect_accounts(&self, ledger: &Ledger) {
        self.has_limits.store(true, Ordering::Release);
        ledger.expect_accounts();
    }

    fn put_volume(&self, number: VolumeNumber, record: &VolumeRecord) -> Result<Durability, Error> {
        let mut change = self.begin_freeing(number)?;
        change.put(key::volume(number), record.encode());
        Ok(Durability::of(change.commit()))
    }

    fn check_new_name(&self, name: &str) -> Result<(), Error> {
        if name.is_empty() || name.len() > VOLUME_NAME_BYTES_MAX || name.contains(['/', '\0']) {
            return Err(Error::Invalid);
        }
        let volumes = self.volumes.read();
        if volumes.values().any(|own| *own.name() == *name) { Err(Error::Exists) } else { Ok(()) }
    }
}

fn listing(number: VolumeNumber, record: VolumeRecord, usage: UsageRecord) -> VolumeListing {
    VolumeListing {
        name: record.name,
        number,
        id: record.id,
        size: record.size,
        bytes_used: usage.bytes,
        objects: usage.inodes,
        is_being_deleted: record.is_deleted,
    }
}
