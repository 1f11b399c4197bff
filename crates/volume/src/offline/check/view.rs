//! What the next opening of a volume would see: the journal's records over the index's.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::copy::CopyOnWrite;
use super::findings::Findings;
use super::{FaultKind, INDEX_CACHE_BYTES, Summary, records};
use crate::api::ids::{Ino, Layer, Member};
use crate::bytes::Value;
use crate::encoding::entry::{Entry, Slot, UsageDelta};
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::MetaRecord;
use crate::journal::Ring;
use crate::media::{Media, RandomFile};
use crate::open::OpenError;
use crate::tables::index::{Index, IndexError, Snapshot};
use crate::tables::memtable::Memtable;
use crate::transaction::apply;

/// All records of a volume, as of its last durable journal entry.
pub(crate) struct View {
    index: Index,
    /// The index as of its last checkpoint; `None` after it could not be opened again.
    snapshot: Option<Snapshot>,
    /// The journal's records since then.
    recent: BTreeMap<Key, Slot>,
    /// The record about the family.
    pub(crate) meta: MetaRecord,
}

/// Receives a record: the fields of its key, and its value.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

impl View {
    /// Opens the index, on a copy-on-write view.
    pub(crate) fn open(media: &dyn Media) -> Result<View, OpenError> {
        View::open_caching(media, INDEX_CACHE_BYTES)
    }

    pub(super) fn open_caching(media: &dyn Media, cache_bytes: usize) -> Result<View, OpenError> {
        let copy = CopyOnWrite::new(media.index())
            .map_err(|error| OpenError(format!("the volume's index cannot be read: {error}")))?;
        let refused = |error: IndexError| OpenError(format!("the volume's index cannot be opened: {error}"));
        let index = Index::open(Arc::new(copy), cache_bytes).map_err(refused)?;
        let snapshot = index.snapshot().map_err(refused)?;
        let meta = snapshot.get(&key::meta()).map_err(refused)?;
        let meta = meta.ok_or_else(|| {
            OpenError("the index holds no volume: its creation was interrupted; create it again".to_owned())
        })?;
        let meta =
            MetaRecord::decode(&meta).map_err(|error| OpenError(format!("the index holds a {error}")))?;
        Ok(View { index, snapshot: Some(snapshot), recent: BTreeMap::new(), meta })
    }

    /// Reads the journal as recovery would, into memory only. Returns the usage that it adds.
    pub(crate) fn replay(
        &mut self,
        log: &dyn RandomFile,
        findings: &mut Findings,
        summary: &mut Summary,
    ) -> Vec<UsageDelta> {
        let memtable = Memtable::new(Layer(1));
        let mut usage = Vec::new();
        let inspected = Ring::inspect(log, &self.meta.anchor, &mut |_, seq, bytes| {
            match Entry::decode(bytes) {
                Ok(entry) => {
                    usage.extend_from_slice(&entry.usage);
                    apply::overlay(&memtable, records::sound_records(seq, entry.records, findings));
                }
                Err(error) => {
                    findings.add(FaultKind::Journal, None, format!("journal entry {seq} is a {error}"))
                }
            }
            Ok(())
        });
        match inspected {
            Ok(recovered) => {
                summary.journal_entries = recovered.entries;
                summary.journal_bytes = recovered.bytes;
                summary.journal_cut_bytes = recovered.cut_bytes;
            }
            // The entries before the damage leave a state that the volume was in, so it can be checked.
            Err(error) => findings.add(FaultKind::Journal, None, error.to_string()),
        }
        self.recent = memtable.sorted().into_iter().collect();
        usage
    }

    /// Returns the index alone.
    pub(crate) fn index(&self) -> Result<&Snapshot, IndexError> {
        self.snapshot.as_ref().ok_or(IndexError::Closed)
    }

    /// Continues after the index failed at one record: the library refuses calls until it is reopened.
    pub(super) fn reopen(&mut self) -> Result<(), IndexError> {
        self.snapshot = None;
        self.index.reopen()?;
        self.snapshot = Some(self.index.snapshot()?);
        Ok(())
    }

    /// Returns what the journal holds for a key.
    pub(super) fn recent(&self, key: &[u8]) -> Option<&Slot> {
        self.recent.get(key)
    }

    /// Returns the journal's records of a table, in order.
    pub(super) fn recent_of(&self, member: Member, table: Table) -> impl Iterator<Item = (&[u8], &Slot)> {
        let (from, to) = key::table_range(member, table);
        let range = self.recent.range::<[u8], _>((Bound::Included(&*from), Bound::Excluded(&*to)));
        range.map(|(key, slot)| (fields(key), slot))
    }

    /// Returns the journal's mappings of a file, in order.
    pub(super) fn recent_of_map(&self, ino: Ino) -> impl Iterator<Item = (&[u8], &Slot)> {
        let (from, to) = (key::map(ino, 0), key::map(ino, u64::MAX));
        let range = self.recent.range::<[u8], _>((Bound::Included(&*from), Bound::Included(&*to)));
        range.map(|(key, slot)| (fields(key), slot))
    }

    /// Returns a record.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Slot, IndexError> {
        match self.recent.get(key) {
            Some(slot) => Ok(slot.clone()),
            None => Ok(self.index()?.get(key)?.map(Value::from)),
        }
    }

    /// Visits a table of the index.
    pub(crate) fn each_of_index(
        &self,
        member: Member,
        table: Table,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (from, to) = key::table_range(member, table);
        self.index()?.scan(&from, &to, &mut |key, value| {
            visit(fields(key), value);
            ControlFlow::Continue(())
        })
    }

    /// Visits a table, the journal's records over the index's, in order. `visit` may look up other records.
    pub(crate) fn each(&self, member: Member, table: Table, visit: Visit<'_>) -> Result<(), IndexError> {
        let (from, to) = key::table_range(member, table);
        let mut recent =
            self.recent.range::<[u8], _>((Bound::Included(&*from), Bound::Excluded(&*to))).peekable();
        self.index()?.scan(&from, &to, &mut |key, value| {
            visit_before(&mut recent, key, visit);
            if recent.peek().is_some_and(|(newer, _)| &***newer == key) {
                visit_next(&mut recent, visit);
            } else {
                visit(fields(key), value);
            }
            ControlFlow::Continue(())
        })?;
        while recent.peek().is_some() {
            visit_next(&mut recent, visit);
        }
        Ok(())
    }
}

fn visit_before<'r>(
    recent: &mut Peekable<impl Iterator<Item = (&'r Key, &'r Slot)>>,
    key: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    while recent.peek().is_some_and(|(newer, _)| &***newer < key) {
        visit_next(recent, visit);
    }
}

fn visit_next<'r>(
    recent: &mut Peekable<impl Iterator<Item = (&'r Key, &'r Slot)>>,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    if let Some((key, Some(value))) = recent.next() {
        visit(fields(key), value);
    }
}

/// Returns the fields of a key of a known table.
fn fields(key: &[u8]) -> &[u8] {
    key::parse(key).map_or(&[], |(_, _, fields)| fields)
}
