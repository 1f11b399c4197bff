//! Journal entries, one per transaction. Replay puts, deletes and adds usage; it re-runs no logic.

use std::sync::Arc;

use crate::api::ids::VolumeNumber;
use crate::api::quotas::QuotaKind;
use crate::api::request::RequestKey;
use crate::api::time::Time;
use crate::bytes::Value;
use crate::encoding::codec::{Malformed, Reader, Write};
use crate::encoding::key::Key;

mod draft;

pub use draft::Draft;

/// A record's new value; `None` deletes it.
pub type Slot = Option<Value>;

/// A change of a usage counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageDelta {
    /// Whose.
    pub kind: QuotaKind,
    /// Which one of that kind.
    pub id: u64,
    /// Change in bytes.
    pub bytes: i64,
    /// Change in inodes.
    pub inodes: i64,
}

/// A cached request: its key, when it was answered, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The request.
    pub key: RequestKey,
    /// When it was answered.
    pub time: Time,
    /// The encoded result.
    pub answer: Arc<[u8]>,
}

/// One transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Records to put and delete, in order.
    pub records: Vec<(Key, Slot)>,
    /// Indices of records put where no layer holds the key, or deleted without need of a tombstone: see
    /// [`crate::tables::memtable::Memtable::apply`]. Known only to the transaction and not encoded, as replay does
    /// not need them.
    pub fresh: Vec<usize>,
    /// The volume whose usage changes; [`crate::key::POOL`] if none does.
    pub volume: VolumeNumber,
    /// Usage to add.
    pub usage: Vec<UsageDelta>,
    /// The request that caused it, if a retransmission must not execute again.
    pub remembered: Option<Remembered>,
}

const DELETE: u8 = 0;
const PUT: u8 = 1;

/// Bytes of the number of records that an entry begins with.
const COUNT_BYTES: usize = 4;

fn encoded_count(records: &[(Key, Slot)]) -> [u8; COUNT_BYTES] {
    u32::try_from(records.len()).expect("an entry has far fewer than 2^32 records").to_be_bytes()
}

fn encode_record(out: &mut Vec<u8>, key: &[u8], slot: &Slot) {
    out.u8(if slot.is_some() { PUT } else { DELETE });
    out.short_bytes(key);
    if let Some(value) = slot {
        out.long_bytes(value);
    }
}

impl Entry {
    /// Encodes the entry.
    pub fn encode(&self) -> Vec<u8> {
        let values: usize =
            self.records.iter().map(|(key, slot)| key.len() + 7 + slot.as_ref().map_or(0, |v| v.len())).sum();
        let remembered = self.remembered.as_ref().map_or(0, |it| it.key.bytes().len() + it.answer.len() + 12);
        let mut out = Vec::with_capacity(values + 25 * self.usage.len() + remembered + 20);
        out.extend_from_slice(&encoded_count(&self.records));
        for (key, slot) in &self.records {
            encode_record(&mut out, key, slot);
        }
        self.encode_rest(&mut out);
        out
    }

    /// Encodes what follows the records.
    fn encode_rest(&self, out: &mut Vec<u8>) {
        out.u32(self.volume.0);
        out.u16(u16::try_from(self.usage.len()).expect("an entry changes a handful of counters"));
        for delta in &self.usage {
            out.u8(delta.kind.byte());
            out.u64(delta.id);
            out.i64(delta.bytes);
            out.i64(delta.inodes);
        }
        out.u8(u8::from(self.remembered.is_some()));
        if let Some(remembered) = &self.remembered {
            out.short_bytes(remembered.key.bytes());
            out.i64(remembered.time.nanos());
            out.short_bytes(&remembered.answer);
        }
    }

    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
        let mut reader = Reader::new(bytes, "journal entry");
        let r = &mut reader;
        let mut entry = Entry::default();
        for _ in 0..r.u32()? {
            let tag = r.u8()?;
            let key = Key::from(r.short_bytes()?);
            let slot = match tag {
                DELETE => None,
                PUT => Some(Value::from(r.long_bytes()?)),
                _ => return Err(r.malformed()),
            };
            entry.records.push((key, slot));
        }
        entry.volume = VolumeNumber(r.u32()?);
        for _ in 0..r.u16()? {
            let kind = QuotaKind::from_byte(r.u8()?).ok_or(r.malformed())?;
            entry.usage.push(UsageDelta { kind, id: r.u64()?, bytes: r.i64()?, inodes: r.i64()? });
        }
        entry.remembered = match r.u8()? {
            0 => None,
            1 => Some(Remembered {
                key: RequestKey::new(r.short_bytes()?),
                time: Time::from_nanos(r.i64()?),
                answer: r.short_bytes()?.into(),
            }),
            _ => return Err(r.malformed()),
        };
        reader.finish()?;
        Ok(entry)
    }
}
