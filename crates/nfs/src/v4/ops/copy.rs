//! COPY (RFC 7862 section 15.2) within the server, by sharing data. A few parts, which is all of most files, are copied
//! before the reply. The rest is copied after it if the client allows that; otherwise the client continues from there.
//!
//! Where rate limits count what is written, all COPYs of a call together copy no more before the reply than was charged for.
//! Whatever is copied beyond that would be owed, and calls of others would wait until it is paid.

use volume::request::{Access, Durability};
use wire::nfs4::{
    CopyArgs, CopyOk, CopyRequirements4, CopyRes, NfsStat4, StableHow4, Stateid4, WriteResponse4,
};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::charge::COPY_BYTES_CHARGED_MAX;
use crate::incoming::CopyTerms;
use crate::state::copies::{CopyRequest, CopySide};
use crate::state::ids::StateId;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::ops::clone::{Copied, check_files};

pub(crate) fn run(compound: &mut Compound<'_>, args: &CopyArgs<'_>, out: &mut Encoder<'_>) -> Done {
    if !args.source_server.is_empty() {
        return Err(NfsStat4::NotSupp.into());
    }
    let (offset, at) = (args.src_offset, args.dst_offset);
    let Copied { from, to, size, in_flight: _in_flight } =
        check_files(compound, args.src_stateid, args.dst_stateid)?;
    if compound.parts.is_first() {
        let rest = size.checked_sub(offset).ok_or(NfsStat4::Inval)?;
        if args.count > rest {
            return Err(NfsStat4::Inval.into());
        }
        compound.parts.wanted = if args.count == 0 { rest } else { args.count };
    }
    compound.note_change();
    let wanted = compound.parts.wanted;
    let most = match compound.copy_terms {
        CopyTerms::Free => u64::MAX,
        CopyTerms::Charged | CopyTerms::ChargedByTarget => {
            u64::from(COPY_BYTES_CHARGED_MAX).saturating_sub(compound.copied)
        }
    };
    if most == 0 && wanted > 0 {
        // To copy nothing would mean that the source ends there.
        return Err(NfsStat4::Delay.into());
    }
    let (count, after) = first_parts(compound, (&from, offset), (&to, at), wanted.min(most))?;
    compound.note_written(to.volume, count);
    compound.copied += count;
    let may_continue = !args.synchronous && compound.copy_terms != CopyTerms::ChargedByTarget;
    let left = if count < wanted && may_continue {
        let order = order(compound, args, (&from, &to), wanted)?;
        continue_after_reply(compound, order, (count, after))
    } else {
        None
    };
    CopyRes::Ok(CopyOk {
        response: WriteResponse4 {
            callback_id: left,
            // CB_OFFLOAD reports the count of an asynchronous copy.
            count: if left.is_none() { count } else { 0 },
            // The reply waits for the journal.
            committed: StableHow4::FileSync,
            writeverf: to.volume.write_verifier().0,
        },
        requirements: CopyRequirements4 { consecutive: true, synchronous: left.is_none() },
    })
    .encode(out);
    Ok(())
}

/// Copies the parts before the reply: one in an event loop, and those of one run on a worker thread. Returns their bytes,
/// and when they are durable.
fn first_parts<'c>(
    compound: &mut Compound<'c>,
    (from, offset): (&Object<'c>, u64),
    (to, at): (&Object<'c>, u64),
    wanted: u64,
) -> Result<(u64, Durability), OpStop> {
    // For the engine, a length of zero means everything.
    while compound.parts.is_first() || compound.parts.done < wanted {
        let done = compound.parts.done;
        match copy_part(compound, (from, offset + done), (to, at + done), wanted - done) {
            Ok(0) => break,
            Ok(count) => compound.parts.done += count,
            Err(OpStop::WouldBlock) if compound.access == Access::Cached => return Err(OpStop::WouldBlock),
            // The parts already copied are reported.
            Err(_) if done > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok((compound.parts.done, compound.waits_for(to.volume)))
}

/// Copies one part, which is one journal entry. Returns its bytes.
fn copy_part<'c>(
    compound: &mut Compound<'c>,
    (from, offset): (&Object<'c>, u64),
    (to, at): (&Object<'c>, u64),
    count: u64,
) -> Result<u64, OpStop> {
    compound.begin_part()?;
    let part = to.volume.copy_range(&to.request(), (from.ino, offset), (to.ino, at), count);
    Ok(compound.answered(to.volume, part)?.count)
}

fn order(
    compound: &Compound<'_>,
    args: &CopyArgs<'_>,
    (from, to): (&Object<'_>, &Object<'_>),
    count: u64,
) -> Result<CopyRequest, OpStop> {
    // Whatever their seqids will be.
    let lasting = |stateid: Stateid4| match StateId::from(stateid) {
        stateid if stateid.is_without_state() => stateid,
        stateid => StateId { seqid: 0, ..stateid },
    };
    let side = |object: &Object<'_>, stateid, offset| CopySide {
        file: object.file_id(),
        stateid: lasting(stateid),
        offset,
    };
    Ok(CopyRequest {
        from: side(from, compound.saved_stateid(args.src_stateid)?, args.src_offset),
        to: side(to, compound.stateid(args.dst_stateid)?, args.dst_offset),
        count,
        credentials: to.request().credentials.clone(),
        peer: compound.connection.peer,
        rules: [from, to].map(|object| object.export.clone()),
    })
}

/// Lets the copy continue after the reply. Returns its stateid, if it does.
fn continue_after_reply(
    compound: &mut Compound<'_>,
    order: CopyRequest,
    done: (u64, Durability),
) -> Option<Stateid4> {
    let client = compound.session_client()?;
    let begun = compound.state().begin_copy(&compound.state_context(), &client, order, done);
    match begun {
        Ok(Some((stateid, token))) => {
            compound.wait_for_token(token);
            Some(stateid.into())
        }
        // The part already copied is reported.
        Ok(None) | Err(_) => None,
    }
}
