//! COMPOUND (RFC 7530 section 15.2, RFC 8881 section 16.2, RFC 7862 section 13): evaluates operations in order until
//! one fails.
//!
//! The evaluator runs on threads that must not wait. If an operation needs media or reaches a limit, or if those before it were
//! enough for one turn (`turns.rs`), the effects of the operations before it stand: their results, the current and saved
//! filehandles, the slot. They go into a [`Progress`], with which the same call runs again from that operation.
//!
//! A long one that holds what others wait for ends before its next turn, and one that waits for room in a pool before it is tried
//! again, or at all: the operation at hand fails with NFS4ERR_DELAY.
//!
//! A reply waits for the durability of one volume. If several volumes have changes that are not durable yet, the
//! COMPOUND runs again after its last operation until one volume remains.

use std::sync::Arc;

use volume::ids::VolumeId;
use volume::request::{Access, Durability};
use wire::limits::COMPOUND_OPS_MAX;
use wire::nfs3;
use wire::nfs4::compound::{CompoundReader, OpError};
use wire::nfs4::{NfsStat4, OpNum4, Utf8Str4};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::admission::{Awaited, AwaitedLimit, changes_object};
use crate::call::{self, After, Call, Handled};
use crate::progress::{Parts, Progress, Suspended, failure_body};
use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::operations::{self, Placement};
use crate::v4::waits::Several;

/// The minor versions that are served.
const MINOR_VERSIONS: u32 = 3;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let reader = CompoundReader::new(call.arguments.clone())?;
    let reply = Reply::begin(reader.tag(), out);
    if reader.minorversion() >= MINOR_VERSIONS {
        reply.finish(NfsStat4::MinorVersMismatch, 0, out);
        return Ok(After::NOW);
    }
    let mut compound = Compound::new(call, reader, reply.start);
    if let Some((suspended, ends)) = call.progress.take().map(Progress::into_parts) {
        compound.ends = ends;
        suspended.into_iter().for_each(|suspended| compound.resume(*suspended, out));
    }
    match evaluate(&mut compound, out) {
        Ok(()) => {
            reply.finish(compound.status, compound.index, out);
            reply.complete(&mut compound, call, out)
        }
        Err(Unfinished::Replay(again)) => {
            out.rewind(reply.start);
            out.raw(&again);
            // For several volumes, one after the other: the call runs again until one remains.
            let wait = compound.waits.only().map_err(|Several| call::Stop::Later)?;
            compound.evaluated.note(OpNum4::Sequence);
            sum_up(&mut compound, call);
            Ok(after(call, wait))
        }
        Err(Unfinished::Again(again)) => {
            // A worker waits for media. What would block there all the same is long.
            let would_block = matches!(again, call::Stop::WouldBlock);
            compound.is_turn_over |= would_block && call.access == Access::Blocking;
            reply.suspend(&mut compound, call, out);
            Err(again)
        }
    }
}

/// Returns what the reply to a call waits for: nothing in a volume that is no longer served.
fn after<'a>(call: &Call<'a>, wait: Option<(VolumeId, Durability)>) -> After<'a> {
    After(wait.and_then(|(id, durability)| Some((call.service.volume(id)?, durability))))
}

/// Encodes the reply for changes that were lost: no operation has a result.
pub(super) fn failed(status: nfs3::NfsStat3, out: &mut Encoder<'_>) {
    // NFS4ERR_IO equals NFS3ERR_IO, like every status that both versions have.
    status.encode(out);
    out.opaque(b"");
    out.u32(0);
}

/// Why a COMPOUND was not evaluated to its end.
enum Unfinished {
    /// It was evaluated before, with this reply.
    Replay(Arc<[u8]>),
    /// It must run again.
    Again(call::Stop),
}

/// A reply that is being written, and the positions of its parts.
struct Reply<'a> {
    tag: Utf8Str4<'a>,
    start: usize,
    count_at: usize,
}

impl<'t> Reply<'t> {
    fn begin(tag: Utf8Str4<'t>, out: &mut Encoder<'_>) -> Reply<'t> {
        let start = out.position();
        if tag.0.is_empty() {
            // The status, the tag and the number of results.
            out.raw(&[0; 12]);
        } else {
            NfsStat4::Ok.encode(out);
            tag.encode(out);
            out.u32(0);
        }
        Reply { tag, start, count_at: out.position() - 4 }
    }

    /// Fills in the status and the number of results.
    fn finish(&self, status: NfsStat4, results: u32, out: &mut Encoder<'_>) {
        out.patch(self.start, &status.code().to_be_bytes());
        out.patch(self.count_at, &results.to_be_bytes());
    }

    /// Completes the reply: gives it to the slot, and determines what it waits for.
    fn complete<'a>(
        &self,
        compound: &mut Compound<'_>,
        call: &Call<'a>,
        out: &mut Encoder<'_>,
    ) -> Handled<'a> {
        let Ok(wait) = compound.waits.only() else {
            self.suspend(compound, call, out);
            return Err(call::Stop::Later);
        };
        if let Some(slot) = compound.slot.take() {
            let kept = slot.cache_this().then(|| out.buffer().get(self.start..)).flatten();
            slot.finish(kept, wait);
        }
        if !compound.tail.is_empty() {
            call.tail.set(std::mem::take(&mut compound.tail));
        }
        call.changed.set(compound.changed);
        sum_up(compound, call);
        Ok(after(call, wait))
    }

    /// Saves the progress for another run.
    fn suspend(&self, compound: &mut Compound<'_>, call: &Call<'_>, out: &mut Encoder<'_>) {
        if compound.index > 0 {
            let results = out.buffer().get(self.count_at + 4..).unwrap_or_default().to_vec();
            let suspended = suspended(compound, self.tag.0, results);
            call.progress.set(Some(Progress::new(suspended, compound.ends)));
        }
    }
}

/// Gives the call what is to be counted.
fn sum_up(compound: &mut Compound<'_>, call: &Call<'_>) {
    let mut targets = compound.current.iter().chain(&compound.saved);
    compound.evaluated.volume = targets.find_map(Target::volume);
    compound.evaluated.ino().into_iter().for_each(|ino| call.ino.set(ino));
    call.transferred.set(compound.moved.sum_up(&mut compound.evaluated));
}

/// Returns what another run needs to continue.
fn suspended(compound: &mut Compound<'_>, tag: &[u8], results: Vec<u8>) -> Suspended {
    let bytes = |target: &Target<'_>| target.handle().as_slice().into();
    Suspended {
        index: compound.index,
        operation: compound.unfinished(),
        parts: compound.parts,
        copied: compound.copied,
        status: compound.status,
        tag: tag.into(),
        results,
        current: compound.current.as_ref().map(bytes),
        saved: compound.saved.as_ref().map(bytes),
        current_stateid: compound.current_stateid,
        saved_stateid: compound.saved_stateid,
        slot: compound.slot.take(),
        waits: compound.waits.iter().map(|(volume, durability)| (volume.id(), durability)).collect(),
        changed: compound.changed,
        evaluated: std::mem::take(&mut *compound.evaluated),
        moved: compound.moved,
        tail: std::mem::take(&mut compound.tail),
        gave_turn_up: compound.is_turn_over,
    }
}

/// Evaluates the remaining operations.
fn evaluate(compound: &mut Compound<'_>, out: &mut Encoder<'_>) -> Result<(), Unfinished> {
    while compound.status == NfsStat4::Ok {
        let Some(operation) = compound.next_operation() else { return Ok(()) };
        compound.status = step(compound, operation, out)?;
        compound.index += 1;
        compound.parts = Parts::default();
    }
    Ok(())
}

/// Evaluates one operation and writes its result. Returns its status.
fn step(
    compound: &mut Compound<'_>,
    operation: Result<OpNum4, OpError>,
    out: &mut Encoder<'_>,
) -> Result<NfsStat4, Unfinished> {
    let at = out.position();
    let number = operation.unwrap_or_else(|error| error.num());
    number.encode(out);
    let body = out.position();
    compound.evaluated.begin(number, || compound.current.as_ref()?.stored_id());
    let done = match operation {
        Ok(number) if compound.ends && !compound.has_owner_sequence(number) => Err(NfsStat4::Delay.into()),
        Ok(number) => compound.take_turn(number).and_then(|()| perform(compound, number, at, out)),
        Err(error) => Err(error.status(compound.minor).into()),
    };
    match done {
        Ok(()) => {
            compound.evaluated.note(number);
            Ok(written_status(out, body))
        }
        Err(OpStop::Status(status)) => {
            out.rewind(body);
            Ok(fail(compound, number, status, out))
        }
        Err(stop) => {
            out.rewind(at);
            Err(match stop {
                OpStop::Replay(replay) => Unfinished::Replay(replay),
                OpStop::WouldBlock => Unfinished::Again(call::Stop::WouldBlock),
                OpStop::Busy(limit) => Unfinished::Again(call::Stop::Busy(awaited(compound, number, limit))),
                OpStop::Later | OpStop::Status(_) => Unfinished::Again(call::Stop::Later),
            })
        }
    }
}

/// Writes the result of an operation that failed, after its number. Returns its status.
fn fail(compound: &mut Compound<'_>, operation: OpNum4, status: NfsStat4, out: &mut Encoder<'_>) -> NfsStat4 {
    compound.tail.clear();
    status.encode(out);
    failure_body(operation, out);
    compound.evaluated.note(operation);
    status
}

/// Returns what an operation that met a limit waits for, if it is ordered: ordered operations change the current object.
fn awaited(compound: &Compound<'_>, operation: OpNum4, limit: AwaitedLimit) -> Option<Awaited> {
    let volume = compound.current.as_ref().and_then(Target::volume)?;
    changes_object(operation).then_some((volume, limit))
}

/// Returns the status at the beginning of a result.
fn written_status(out: &mut Encoder<'_>, at: usize) -> NfsStat4 {
    let written = out.buffer().get(at..).unwrap_or_default();
    if written.starts_with(&[0; 4]) {
        return NfsStat4::Ok;
    }
    NfsStat4::decode(&mut Decoder::new(written)).expect("an operation writes its status first")
}

/// Executes an operation if its position and the remaining room allow it.
fn perform(compound: &mut Compound<'_>, operation: OpNum4, at: usize, out: &mut Encoder<'_>) -> Done {
    let kind = Placement::of(operation);
    check_count(compound)?;
    check_order(compound, kind)?;
    if compound.minor > 0 && operation.is_obsolete() {
        return Err(NfsStat4::NotSupp.into());
    }
    // An operation that cannot be undone is not begun if there may be no room for its result.
    if kind == Placement::Change {
        compound.check_room(at + operations::CHANGE_RESULT_BYTES_MAX)?;
        return operations::execute(compound, operation, out);
    }
    operations::execute(compound, operation, out)?;
    let tail: usize = compound.tail.iter().map(|slice| slice.len()).sum();
    compound.check_room(out.position() + tail)
}

/// Refuses too many operations. SEQUENCE checks the lower limit of a session.
fn check_count(compound: &Compound<'_>) -> Result<(), OpStop> {
    match compound.operations > COMPOUND_OPS_MAX {
        true if compound.minor == 0 => Err(NfsStat4::Resource.into()),
        true => Err(NfsStat4::TooManyOps.into()),
        false => Ok(()),
    }
}

/// With sessions, a COMPOUND begins with SEQUENCE, or is a single operation of a few (RFC 8881 section 2.10.2.1 and the
/// sections of those operations).
fn check_order(compound: &Compound<'_>, kind: Placement) -> Result<(), OpStop> {
    if compound.minor == 0 {
        return Ok(());
    }
    match (compound.index, kind) {
        (0, Placement::Sequence) => Ok(()),
        (_, Placement::Sequence) => Err(NfsStat4::SequencePos.into()),
        (0, Placement::Alone | Placement::Sessionless) if compound.operations == 1 => Ok(()),
        (_, Placement::Alone) => Err(NfsStat4::NotOnlyOp.into()),
        (0, Placement::Sessionless) => Err(NfsStat4::NotOnlyOp.into()),
        (0, _) => Err(NfsStat4::OpNotInSession.into()),
        _ => Ok(()),
    }
}
