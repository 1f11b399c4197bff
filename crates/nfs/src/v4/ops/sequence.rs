//! SEQUENCE (RFC 8881 section 18.46): takes a slot of a session, so that the COMPOUND executes once.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use wire::nfs4::{NfsStat4, SequenceArgs, SequenceOk};
use wire::rpc::Credential;
use wire::xdr::Encoder;

use crate::state::ids::SessionId;
use crate::state::sessions::slots::SlotReply;
use crate::state::sessions::{Sequenced, Session, SlotRequest};
use crate::v4::context::{Compound, Done, OpStop};

/// Bytes of the following operations that distinguish requests with the same sequence. Checking all would cost more
/// than it tells: clients that make this mistake send other operations, not the same with other data.
const CHECKED_BYTES_MAX: usize = 256;

pub(crate) fn run(compound: &mut Compound<'_>, args: &SequenceArgs, out: &mut Encoder<'_>) -> Done {
    compound.check_admitted()?;
    let address = compound.connection.peer.ip().to_canonical();
    let session = compound.state().session(SessionId(args.sessionid.0))?;
    let bytes = u32::try_from(compound.call_bytes).unwrap_or(u32::MAX);
    if bytes > session.fore.request_bytes {
        return Err(NfsStat4::ReqTooBig.into());
    }
    if compound.operations > session.fore.operations {
        return Err(NfsStat4::TooManyOps.into());
    }
    let highest = session.fore.slots - 1;
    let request = SlotRequest {
        slot: args.slotid,
        sequence: args.sequenceid,
        highest_slot: args.highest_slotid,
        cache_this: args.cachethis,
        checksum: checksum(compound, &session, bytes),
        address,
    };
    match compound.state().sequence(&compound.state_context(), session, request)? {
        Sequenced::Execute(slot, status_flags) => {
            compound.set_slot(slot);
            let ok = SequenceOk {
                sessionid: args.sessionid,
                sequenceid: args.sequenceid,
                slotid: args.slotid,
                highest_slotid: highest,
                target_highest_slotid: highest,
                status_flags,
            };
            ok.encode_result(out);
            Ok(())
        }
        Sequenced::Replay(SlotReply::Cached(reply, waits)) => {
            for token in waits {
                if let Some(volume) = compound.service.volume(token.volume) {
                    compound.wait_for(volume, token.after);
                }
            }
            Err(OpStop::Replay(reply))
        }
        Sequenced::Replay(SlotReply::NotCached) => Err(NfsStat4::RetryUncachedRep.into()),
    }
}

/// Distinguishes requests with the same sequence, while the process lives.
fn checksum(compound: &Compound<'_>, session: &Session, call_bytes: u32) -> u64 {
    let mut hasher = session.hasher.build_hasher();
    hasher.write(&compound.following_bytes(CHECKED_BYTES_MAX));
    hasher.write_u32(call_bytes);
    // A remembered reply is only for the principal that made the call. It may be remembered though the client did not ask
    // for that: see `progress.rs`.
    match &compound.header.credential {
        Credential::Sys(user) => (user.uid, user.gid, user.groups.as_slice()).hash(&mut hasher),
        _ => hasher.write_u8(0),
    }
    hasher.finish()
}
