//! What a call counts towards rate limits. It is determined before the call is executed, from its arguments; what the call
//! turned out to be ([`crate::summary::CallSummary`]) corrects it afterwards.

use volume::handle::Handle;
use volume::ids::VolumeId;
use volume::limits::TRANSFER_BYTES_MAX;
use wire::nfs3::{self, FileHandle3, Procedure, ReadArgs, WriteArgs};
use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4, OpNum4};
use wire::xdr::{Decode, Decoder};

use crate::incoming::IncomingRecord;

/// The procedure of each program that does nothing (RFC 5531 section 12.1).
const NULL: u32 = 0;

/// What a call moves, if it moves file data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// What a call counts towards rate limits: one operation, and the bytes of file data that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The volume, if a handle says which it is.
    pub volume: Option<VolumeId>,
    /// Whether the call may leave the volume of that handle before it moves data, by a LOOKUP of a COMPOUND for example.
    pub may_leave: bool,
    /// What it moves; none for an operation on metadata.
    pub direction: Option<Direction>,
    /// Bytes of file data.
    pub bytes: u32,
    /// Whether it must not be held: it ends what a client holds, renews its lease, or makes its data durable.
    pub is_urgent: bool,
}

impl Charge {
    /// An operation on metadata of no volume.
    const METADATA: Charge =
        Charge { volume: None, may_leave: false, direction: None, bytes: 0, is_urgent: false };

    const URGENT: Charge = Charge { is_urgent: true, ..Charge::METADATA };

    /// Determines what a record counts; none if it is no call, or one that does nothing. What does not decode counts as an
    /// operation on metadata.
    #[must_use]
    pub(crate) fn of(record: &IncomingRecord<'_>) -> Option<Charge> {
        let (header, arguments) = record.call().ok()?;
        match (header.program, header.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => Charge::of_nfs3(header.procedure, arguments),
            (nfs4::PROGRAM, nfs4::VERSION) => match header.procedure {
                NULL => None,
                _ => Some(Charge::of_compound(arguments).unwrap_or(Charge::METADATA)),
            },
            // MOUNT, NLM and the like are few, and their states have limits of their own.
            _ => Some(Charge::URGENT),
        }
    }

    fn of_nfs3(procedure: u32, arguments: &Decoder<'_>) -> Option<Charge> {
        let procedure = Procedure::from_code(procedure)?;
        if procedure == Procedure::Null {
            return None;
        }
        let mut input = arguments.clone();
        let moved = match procedure {
            Procedure::Read => ReadArgs::decode(&mut input.clone())
                .ok()
                .map(|read| (Direction::Read, read.count.min(TRANSFER_BYTES_MAX))),
            Procedure::Write => WriteArgs::decode(&mut input.clone())
                .ok()
                .map(|write| (Direction::Write, length(write.data.len()))),
            _ => None,
        };
        // The arguments of each procedure begin with a handle.
        let handle = FileHandle3::decode(&mut input).ok();
        let volume = handle.and_then(|handle| Handle::parse(handle.as_bytes())).map(|handle| handle.volume);
        let (direction, bytes) = moved.unzip();
        Some(Charge {
            volume,
            may_leave: false,
            direction,
            bytes: bytes.unwrap_or(0),
            is_urgent: procedure == Procedure::Commit,
        })
    }

    /// Walks the operations once. A COMPOUND that moves data both ways counts as what it moves more of.
    fn of_compound(arguments: &Decoder<'_>) -> Option<Charge> {
        let mut reader = CompoundReader::new(arguments.clone()).ok()?;
        let (mut current, mut saved) = (Place::default(), Place::default());
        let mut found = Found::default();
        while let Some(Ok(number)) = reader.next_number() {
            let Ok(operation) = reader.arguments_of(number) else { break };
            found.note(&operation, current);
            match operation {
                ArgOp4::Putfh(args) => {
                    let volume = Handle::parse(args.object.as_bytes()).map(|handle| handle.volume);
                    current = Place { volume, is_left: false };
                }
                ArgOp4::Putrootfh | ArgOp4::Putpubfh => current = Place { volume: None, is_left: true },
                ArgOp4::Lookup(_) | ArgOp4::Lookupp => current.is_left = true,
                ArgOp4::Savefh => saved = current,
                ArgOp4::Restorefh => current = saved,
                _ => {}
            }
        }
        Some(found.charge(current))
    }
}

/// Where a COMPOUND is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The volume of the handle that was current last.
    volume: Option<VolumeId>,
    /// Whether it may have been left since.
    is_left: bool,
}

/// What a COMPOUND has been found to do.
#[derive(Default)]
struct Found {
    /// Where data is moved first.
    moved_at: Option<Place>,
    /// Where the first other operation is done.
    begun_at: Option<Place>,
    read: u64,
    written: u64,
    has_urgent: bool,
    has_neutral: bool,
    has_other: bool,
}

impl Found {
    fn note(&mut self, operation: &ArgOp4<'_>, current: Place) {
        match operation {
            ArgOp4::Read(args) => self.read += u64::from(args.count.min(TRANSFER_BYTES_MAX)),
            ArgOp4::ReadPlus(args) => self.read += u64::from(args.count.min(TRANSFER_BYTES_MAX)),
            ArgOp4::Write(args) => self.written += args.data.len() as u64,
            other if is_urgent(other.num()) => self.has_urgent = true,
            ArgOp4::Sequence(_) => return,
            other if is_neutral(other.num()) => {
                self.has_neutral = true;
                return;
            }
            _ => self.has_other = true,
        }
        let moves = matches!(operation, ArgOp4::Read(_) | ArgOp4::ReadPlus(_) | ArgOp4::Write(_));
        let place = if moves { &mut self.moved_at } else { &mut self.begun_at };
        place.get_or_insert(current);
    }

    fn charge(self, last: Place) -> Charge {
        let moves_data = self.moved_at.is_some();
        let place = self.moved_at.or(self.begun_at).unwrap_or(last);
        let direction = if self.read >= self.written { Direction::Read } else { Direction::Write };
        Charge {
            volume: place.volume,
            may_leave: place.is_left,
            direction: moves_data.then_some(direction),
            bytes: u32::try_from(self.read + self.written).unwrap_or(u32::MAX),
            is_urgent: !moves_data && !self.has_other && (self.has_urgent || !self.has_neutral),
        }
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
            | OpNum4::TestStateid
            | OpNum4::DestroyClientId
            | OpNum4::ReclaimComplete
            | OpNum4::OffloadCancel
    )
}

/// Operations that accompany others. Alone, they are an operation on metadata.
fn is_neutral(operation: OpNum4) -> bool {
    matches!(
        operation,
        OpNum4::Putfh
            | OpNum4::Putrootfh
            | OpNum4::Putpubfh
            | OpNum4::Savefh
            | OpNum4::Restorefh
            | OpNum4::Getattr
    )
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
