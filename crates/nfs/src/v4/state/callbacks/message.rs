//! The bytes of a call to a client (RFC 7530 section 16 and 17, RFC 8881 section 20).

use wire::record::write_record;
use wire::rpc::{AuthSys, CallHeader, Credential, OpaqueAuth};
use wire::xdr::{Encode, Encoder};

use crate::v4::state::ids::{ClientId, SessionId, StateId};
use crate::v4::state::record::CallbackSecurity;

/// The version of every callback program (RFC 8881 section 20).
const VERSION: u32 = 1;

const CB_NULL: u32 = 0;
const CB_COMPOUND: u32 = 1;

const OP_CB_RECALL: u32 = 4;
const OP_CB_SEQUENCE: u32 = 11;
const OP_CB_NOTIFY_LOCK: u32 = 13;

/// What CB_SEQUENCE says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// The minor version that the client speaks.
    pub(super) minor: u32,
    pub(super) session: SessionId,
    pub(super) sequence: u32,
    pub(super) slot: u32,
    pub(super) highest: u32,
}

/// Who is called, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) program: u32,
    /// NFSv4.0's callback_ident.
    pub(super) ident: u32,
    pub(super) security: CallbackSecurity,
    /// None in NFSv4.0.
    pub(super) sequence: Option<Sequence>,
}

/// What is said.
#[derive(Debug)]
pub(super) enum Body {
    Null,
    Recall { stateid: StateId, handle: Box<[u8]> },
    NotifyLock { handle: Box<[u8]>, client: ClientId, owner: Box<[u8]> },
}

impl Call {
    /// The call with its record mark.
    pub(super) fn encode(&self, xid: u32, body: &Body) -> Vec<u8> {
        let groups = wire::rpc::Groups::new(&[]).expect("no groups are not too many");
        let credential = match self.security {
            CallbackSecurity::None => Credential::None,
            CallbackSecurity::Sys { uid, gid } => {
                Credential::Sys(AuthSys { stamp: 0, machine_name: b"holdfast", uid, gid, groups })
            }
        };
        let procedure = if matches!(body, Body::Null) { CB_NULL } else { CB_COMPOUND };
        let header = CallHeader {
            xid,
            program: self.program,
            version: VERSION,
            procedure,
            credential,
            verifier: OpaqueAuth::NONE,
        };
        let mut record = Vec::with_capacity(256);
        write_record(&mut record, |out| {
            header.encode(out);
            self.compound(out, body);
        });
        record
    }

    /// The arguments of CB_COMPOUND.
    fn compound(&self, out: &mut Encoder<'_>, body: &Body) {
        if matches!(body, Body::Null) {
            return;
        }
        // No tag.
        out.opaque(b"");
        out.u32(self.sequence.map_or(0, |sequence| sequence.minor));
        out.u32(self.ident);
        out.u32(if self.sequence.is_some() { 2 } else { 1 });
        if let Some(sequence) = &self.sequence {
            out.u32(OP_CB_SEQUENCE);
            out.opaque_fixed(&sequence.session.0);
            out.u32(sequence.sequence);
            out.u32(sequence.slot);
            out.u32(sequence.highest);
            // Need not be remembered, and refers to no calls.
            out.bool(false);
            out.u32(0);
        }
        match body {
            Body::Null => {}
            Body::Recall { stateid, handle } => {
                out.u32(OP_CB_RECALL);
                out.u32(stateid.seqid);
                out.opaque_fixed(&stateid.other.0);
                // The file is not about to be truncated.
                out.bool(false);
                out.opaque(handle);
            }
            Body::NotifyLock { handle, client, owner } => {
                out.u32(OP_CB_NOTIFY_LOCK);
                out.opaque(handle);
                out.u64(client.0);
                out.opaque(owner);
            }
        }
    }
}
