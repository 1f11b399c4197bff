//! A COMPOUND that stopped on its way.

use volume::bytes::Slice;
use volume::ids::VolumeId;
use volume::request::Durability;
use wire::nfs4::{NfsStat4, OpNum4, Stateid4};
use wire::xdr::{Encode, Encoder};

use crate::state::SlotGuard;

/// A COMPOUND that stopped on its way, to be gone on with. Dropped, it ends: what was done stands, and the operation at
/// which it stopped is answered with NFS4ERR_DELAY should the client ask again; or if that is too much to be kept, with
/// NFS4ERR_RETRY_UNCACHED_REP.
#[derive(Debug)]
pub struct Progress(Option<Box<Suspended>>);

impl Progress {
    pub(crate) fn new(suspended: Suspended) -> Progress {
        Progress(Some(Box::new(suspended)))
    }

    pub(crate) fn into_inner(mut self) -> Option<Box<Suspended>> {
        self.0.take()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(mut suspended) = self.0.take() else { return };
        if let Some(slot) = suspended.slot.take() {
            let wait = suspended.waits.first().copied();
            let reply = suspended.delayed();
            // Of what need not be kept a slot has no room for more than of what is.
            let kept = (reply.len() <= slot.reply_bytes_cached_max()).then_some(&reply[..]);
            slot.finish(kept, wait);
        }
    }
}

/// All that a COMPOUND needs to be gone on with, besides its bytes.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The operation that is next.
    pub(crate) index: u32,
    /// Its number; none if all are done.
    pub(crate) operation: Option<OpNum4>,
    pub(crate) status: NfsStat4,
    pub(crate) tag: Box<[u8]>,
    /// The results of those before.
    pub(crate) results: Vec<u8>,
    pub(crate) current: Option<Box<[u8]>>,
    pub(crate) saved: Option<Box<[u8]>>,
    pub(crate) current_stateid: Option<Stateid4>,
    pub(crate) saved_stateid: Option<Stateid4>,
    pub(crate) slot: Option<SlotGuard>,
    pub(crate) waits: Vec<(VolumeId, Durability)>,
    pub(crate) changed: bool,
    pub(crate) tail: Vec<Slice>,
}

impl Suspended {
    /// The reply that ends it where it stopped.
    fn delayed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.results.len());
        let mut out = Encoder::new(&mut bytes);
        NfsStat4::Delay.encode(&mut out);
        out.opaque(&self.tag);
        out.u32(self.index + u32::from(self.operation.is_some()));
        out.raw(&self.results);
        if let Some(operation) = self.operation {
            operation.encode(&mut out);
            NfsStat4::Delay.encode(&mut out);
            failure_body(operation, &mut out);
        }
        bytes
    }
}

/// Writes what follows the status of a failure.
pub(crate) fn failure_body(operation: OpNum4, out: &mut Encoder<'_>) {
    // SETATTR names the attributes that it set, none of them, even then.
    if operation == OpNum4::Setattr {
        out.u32(0);
    }
}
