//! What a call counts towards rate limits, and where. It is determined before the call is executed, from its arguments; what
//! the call turned out to be ([`crate::summary::CallSummary::moved`]) corrects it afterwards.
//!
//! A COMPOUND is charged in each volume for the work that it may do there. Otherwise a client that moves a byte in one volume
//! first could move the rest in another without waiting for that volume's limits. `walk.rs` follows its handles and
//! names.

use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::limits::TRANSFER_BYTES_MAX;
use wire::nfs3::{self, FileHandle3, Procedure, ReadArgs, WriteArgs};
use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4, OpNum4};
use wire::xdr::{Decode, Decoder};

use crate::incoming::IncomingRecord;

pub use crate::incoming::CopyTerms;
pub use copies::{CopyId, CopyLimits, CopyPart};
pub(crate) use walk::Map;
use walk::Walk;

mod copies;
mod walk;

/// The procedure of each program that does nothing (RFC 5531 section 12.1).
const NULL: u32 = 0;

/// What a GETXATTR asks for, bytes. Most values are shorter; the rest of a longer one is owed.
const XATTR_BYTES_ASKED: u32 = 4 << 10;

/// What all COPYs of a call together ask for at most before it is executed, bytes: as much as a WRITE may have.
pub(crate) const COPY_BYTES_CHARGED_MAX: u32 = TRANSFER_BYTES_MAX;

/// What a call, or its part in a volume, does: an operation on metadata if it moves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The bytes that READs ask for; none without a READ. A GETXATTR counts too.
    pub read: Option<u32>,
    /// The bytes that WRITEs bring; none without a WRITE. The value of SETXATTR counts too, and of what COPY copies as much as a
    /// WRITE may have.
    pub written: Option<u32>,
}

impl Work {
    /// An operation on metadata.
    pub const METADATA: Work = Work { read: None, written: None };

    /// Returns a READ of this many bytes.
    #[must_use]
    pub const fn read(bytes: u32) -> Work {
        Work { read: Some(bytes), written: None }
    }

    /// Returns a WRITE of this many bytes.
    #[must_use]
    pub const fn write(bytes: u32) -> Work {
        Work { read: None, written: Some(bytes) }
    }

    /// Returns all bytes.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.read.unwrap_or(0).saturating_add(self.written.unwrap_or(0))
    }

    fn and(self, other: Work) -> Work {
        let sum = |one: Option<u32>, other: Option<u32>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Work { read: sum(self.read, other.read), written: sum(self.written, other.written) }
    }

    /// Returns what an operation of a COMPOUND does.
    fn of(operation: &ArgOp4<'_>) -> Work {
        match operation {
            ArgOp4::Read(args) => Work::read(args.count.min(TRANSFER_BYTES_MAX)),
            ArgOp4::ReadPlus(args) => Work::read(args.count.min(TRANSFER_BYTES_MAX)),
            ArgOp4::Write(args) => Work::write(length(args.data.len())),
            ArgOp4::Getxattr(_) => Work::read(XATTR_BYTES_ASKED),
            ArgOp4::Setxattr(args) => Work::write(length(args.value.0.len())),
            ArgOp4::Copy(args) => match u32::try_from(args.count) {
                Ok(count) if count > 0 => Work::write(count.min(COPY_BYTES_CHARGED_MAX)),
                // Without a count, it is the rest of the source, however long that is.
                _ => Work::write(COPY_BYTES_CHARGED_MAX),
            },
            _ => Work::METADATA,
        }
    }
}

/// What a call does in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The volume.
    pub volume: VolumeId,
    /// What the call does there.
    pub work: Work,
}

/// What a call counts towards rate limits: operations, and the bytes of data that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// What it does in all.
    pub work: Work,
    /// Whether it must not be held: it ends what a client holds, renews its lease, or makes its data durable.
    pub is_urgent: bool,
    /// Whether it counts for the limits of its client: not if it comes from a port from which no export admits that. Users of a host
    /// could otherwise use up what its kernel's client may do, with calls that are refused.
    pub is_of_client: bool,
    first: Option<Place>,
    /// Other volumes than the first. Of ordinary clients, no call is about several.
    others: Vec<Place>,
}

impl Charge {
    /// Returns what counts for a call that does everything in one volume, or in none.
    #[must_use]
    pub fn of_one(volume: Option<VolumeId>, work: Work) -> Charge {
        let first = volume.map(|volume| Place { volume, work });
        Charge { work, is_urgent: false, is_of_client: true, first, others: Vec::new() }
    }

    /// Returns what counts for a call that does this in all, and the parts of it in these volumes. If it is not known where it does
    /// a part, that is in several.
    #[must_use]
    pub fn of_several(work: Work, mut places: Vec<Place>) -> Charge {
        places.sort_by_key(|place| std::cmp::Reverse(place.work.bytes()));
        let mut places = places.into_iter();
        Charge { first: places.next(), others: places.collect(), ..Charge::of_one(None, work) }
    }

    /// Returns the same for a call that must not be held.
    #[must_use]
    pub fn urgent(self) -> Charge {
        Charge { is_urgent: true, ..self }
    }

    /// Returns what it does by volume, where it does most first.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.first.iter().chain(&self.others)
    }

    /// Determines what a record counts; none if it is no call, or one that does nothing. What does not decode counts as an
    /// operation on metadata.
    #[must_use]
    pub(crate) fn of(record: &IncomingRecord<'_>, map: &Map<'_>) -> Option<Charge> {
        let (header, arguments) = record.call().ok()?;
        match (header.program, header.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => Charge::of_nfs3(header.procedure, arguments, map),
            (nfs4::PROGRAM, nfs4::VERSION) => match header.procedure {
                NULL => None,
                _ => Some(Charge::of_compound(arguments, map).unwrap_or_else(Charge::unknown)),
            },
            // MOUNT, NLM and the like are few, and their states have limits of their own.
            _ => Some(Charge::unknown().urgent()),
        }
    }

    /// An operation on metadata of no volume.
    fn unknown() -> Charge {
        Charge::of_one(None, Work::METADATA)
    }

    fn of_nfs3(procedure: u32, arguments: &Decoder<'_>, map: &Map<'_>) -> Option<Charge> {
        let procedure = Procedure::from_code(procedure)?;
        if procedure == Procedure::Null {
            return None;
        }
        let mut input = arguments.clone();
        let work = match procedure {
            Procedure::Read => ReadArgs::decode(&mut input.clone())
                .map_or(Work::METADATA, |read| Work::read(read.count.min(TRANSFER_BYTES_MAX))),
            Procedure::Write => WriteArgs::decode(&mut input.clone())
                .map_or(Work::METADATA, |write| Work::write(length(write.data.len()))),
            _ => Work::METADATA,
        };
        // The arguments of each procedure begin with a handle.
        let handle = FileHandle3::decode(&mut input).ok();
        let volume = handle.and_then(|handle| Handle::parse(handle.as_bytes())).map(|handle| handle.volume);
        let charge = Charge::of_one(volume.filter(|id| map.admits(*id)), work);
        Some(if procedure == Procedure::Commit { charge.urgent() } else { charge })
    }

    /// Walks the operations once.
    fn of_compound(arguments: &Decoder<'_>, map: &Map<'_>) -> Option<Charge> {
        let mut reader = CompoundReader::new(arguments.clone()).ok()?;
        let mut walk = Walk::new(map);
        let mut found = Found::default();
        while let Some(Ok(number)) = reader.next_number() {
            let Ok(operation) = reader.arguments_of(number) else { break };
            found.note(&operation, walk.volumes());
            walk.step(&operation);
        }
        Some(found.charge(walk.volumes()))
    }
}

/// What a COMPOUND has been found to do.
#[derive(Default)]
struct Found {
    work: Work,
    places: Vec<Place>,
    /// The bytes of all COPYs, which together copy no more than one before the reply if they are charged.
    copied: u32,
    /// Operations by what they are; SEQUENCE is none of them.
    urgent: usize,
    getattrs: usize,
    moving: usize,
    others: usize,
}

impl Found {
    /// Notes an operation that is done in one of these volumes.
    fn note(&mut self, operation: &ArgOp4<'_>, volumes: impl Iterator<Item = VolumeId>) {
        let number = operation.num();
        match number {
            OpNum4::Sequence => return,
            number if is_urgent(number) => self.urgent += 1,
            OpNum4::Getattr => self.getattrs += 1,
            number if only_names(number) => {
                self.moving += 1;
                return;
            }
            _ => self.others += 1,
        }
        let mut work = Work::of(operation);
        if number == OpNum4::Copy {
            let bytes = work.bytes().min(COPY_BYTES_CHARGED_MAX - self.copied);
            self.copied += bytes;
            work = Work::write(bytes);
        }
        self.work = self.work.and(work);
        for volume in volumes {
            self.note_at(Place { volume, work });
        }
    }

    fn note_at(&mut self, place: Place) {
        match self.places.iter_mut().find(|known| known.volume == place.volume) {
            Some(known) => known.work = known.work.and(place.work),
            None => self.places.push(place),
        }
    }

    /// Returns what it counts. If it only named objects, it was about the `last` ones.
    fn charge(mut self, last: impl Iterator<Item = VolumeId>) -> Charge {
        if self.places.is_empty() && self.moving > 0 {
            last.for_each(|volume| self.note_at(Place { volume, work: Work::METADATA }));
        }
        // A GETATTR may accompany each; more of them would pass along.
        let is_urgent =
            self.others == 0 && self.getattrs <= self.urgent && (self.urgent > 0 || self.moving == 0);
        Charge { is_urgent, ..Charge::of_several(self.work, self.places) }
    }
}

/// Operations without which a client cannot end what it holds, keep its lease, or make its data durable. So is a lone SEQUENCE.
fn is_urgent(operation: OpNum4) -> bool {
    matches!(
        operation,
        OpNum4::Close
            | OpNum4::Commit
            | OpNum4::Delegpurge
            | OpNum4::Delegreturn
            | OpNum4::Locku
            | OpNum4::OpenDowngrade
            | OpNum4::Renew
            | OpNum4::SetClientId
            | OpNum4::SetClientIdConfirm
            | OpNum4::ReleaseLockowner
            | OpNum4::BackchannelCtl
            | OpNum4::BindConnToSession
            | OpNum4::ExchangeId
            | OpNum4::CreateSession
            | OpNum4::DestroySession
            | OpNum4::FreeStateid
            | OpNum4::DestroyClientId
            | OpNum4::ReclaimComplete
            | OpNum4::OffloadCancel
    )
}

/// Operations that only make an object the one that others are about. Alone, they are an operation on metadata.
fn only_names(operation: OpNum4) -> bool {
    matches!(
        operation,
        OpNum4::Putfh | OpNum4::Putrootfh | OpNum4::Putpubfh | OpNum4::Savefh | OpNum4::Restorefh
    )
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
