//! A COMPOUND that stopped on its way.

use volume::bytes::Slice;
use volume::ids::VolumeId;
use volume::request::Durability;
use wire::nfs4::{NfsStat4, OpNum4, Stateid4};
use wire::xdr::{Encode, Encoder};

use crate::state::InSlot;
use crate::v4::context::{Compound, Target};

/// A COMPOUND that stopped on its way, to be gone on with. Dropped, it ends: what was done stands, and the operation at
/// which it stopped is answered with NFS4ERR_DELAY should the client ask again; or if that is too much to be kept, with
/// NFS4ERR_RETRY_UNCACHED_REP.
#[derive(Debug)]
pub struct Progress(Option<Box<Suspended>>);

impl Progress {
    pub(super) fn new(suspended: Suspended) -> Progress {
        Progress(Some(Box::new(suspended)))
    }

    pub(super) fn into_inner(mut self) -> Option<Box<Suspended>> {
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
    operation: Option<OpNum4>,
    pub(crate) status: NfsStat4,
    tag: Box<[u8]>,
    /// The results of those before.
    pub(crate) results: Vec<u8>,
    pub(crate) current: Option<Box<[u8]>>,
    pub(crate) saved: Option<Box<[u8]>>,
    pub(crate) current_stateid: Option<Stateid4>,
    pub(crate) saved_stateid: Option<Stateid4>,
    pub(crate) slot: Option<InSlot>,
    pub(crate) waits: Vec<(VolumeId, Durability)>,
    pub(crate) changed: bool,
    pub(crate) tail: Vec<Slice>,
}

impl Suspended {
    pub(super) fn of(mut compound: Compound<'_>, tag: &[u8], results: Vec<u8>) -> Suspended {
        let bytes = |target: &Target<'_>| target.handle().as_slice().into();
        Suspended {
            index: compound.index,
            operation: compound.unfinished(),
            status: compound.status,
            tag: tag.into(),
            results,
            current: compound.current.as_ref().map(bytes),
            saved: compound.saved.as_ref().map(bytes),
            current_stateid: compound.current_stateid,
            saved_stateid: compound.saved_stateid,
            slot: compound.slot.take(),
            waits: compound.waits.iter().map(|(volume, durability)| (volume.id(), *durability)).collect(),
            changed: compound.changed,
            tail: compound.tail,
        }
    }

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
            crate::v4::operations::failure_body(operation, &mut out);
        }
        bytes
    }
}
