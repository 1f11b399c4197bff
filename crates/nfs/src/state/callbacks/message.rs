//! The bytes of calls to clients (RFC 7530 sections 16 and 17, RFC 8881 section 20, RFC 7862 section 16).

use wire::array::Array;
use wire::nfs4::callback::{
    CALLBACK_VERSION, CbArgOp4, CbCompoundArgsEncoder, CbNotifyLockArgs, CbOffloadArgs, CbProcedure,
    CbRecallArgs, CbSequenceArgs, OffloadFail,
};
use wire::nfs4::{
    ClientId4, FileHandle4, NfsStat4, OwnerId4, Res4, SessionId4, StableHow4, StateOwner4, Stateid4,
    Utf8Str4, WriteResponse4,
};
use wire::record::write_record;
use wire::rpc::{AuthSys, CallHeader, Credential, OpaqueAuth};
use wire::xdr::{Encode, Encoder};

use crate::state::copies::{CopyEnd, CopyProgress, Phase};
use crate::state::ids::{ClientId, SessionId, StateId};
use crate::state::record::CallbackSecurity;

/// The arguments of CB_SEQUENCE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// The client's minor version.
    pub(super) minor: u32,
    pub(super) session: SessionId,
    pub(super) sequence: u32,
    pub(super) slot: u32,
    pub(super) highest: u32,
}

/// The header of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) program: u32,
    /// NFSv4.0's callback_ident.
    pub(super) ident: u32,
    pub(super) security: CallbackSecurity,
    /// None in NFSv4.0.
    pub(super) sequence: Option<Sequence>,
}

/// The operation of a call.
#[derive(Debug)]
pub(super) enum Body {
    Null,
    Recall { stateid: StateId, handle: Box<[u8]> },
    NotifyLock { handle: Box<[u8]>, client: ClientId, owner: Box<[u8]> },
    Offload { stateid: StateId, handle: Box<[u8]>, progress: CopyProgress },
}

impl Body {
    /// Returns the operation; none for CB_NULL.
    fn operation(&self) -> Option<CbArgOp4<'_>> {
        Some(match self {
            Body::Null => return None,
            Body::Recall { stateid, handle } => {
                // A hint that a truncation causes the recall; never given.
                CbArgOp4::Recall(CbRecallArgs {
                    stateid: stateid4(*stateid),
                    truncate: false,
                    fh: file(handle),
                })
            }
            Body::NotifyLock { handle, client, owner } => {
                let lock_owner = StateOwner4 { clientid: ClientId4(client.0), owner: OwnerId4(owner) };
                CbArgOp4::NotifyLock(CbNotifyLockArgs { fh: file(handle), lock_owner })
            }
            Body::Offload { stateid, handle, progress } => CbArgOp4::Offload(CbOffloadArgs {
                fh: file(handle),
                stateid: stateid4(*stateid),
                offload_info: offload_info(progress),
            }),
        })
    }
}

fn stateid4(stateid: StateId) -> Stateid4 {
    Stateid4 { seqid: stateid.seqid, other: stateid.other.0 }
}

impl From<CopyEnd> for NfsStat4 {
    fn from(end: CopyEnd) -> NfsStat4 {
        match end {
            CopyEnd::Complete => NfsStat4::Ok,
            CopyEnd::Failed => NfsStat4::Io,
            CopyEnd::NotServed => NfsStat4::Stale,
            CopyEnd::Interrupted => NfsStat4::Delay,
        }
    }
}

/// Returns the result that CB_OFFLOAD reports. All that was copied is durable by then.
fn offload_info(progress: &CopyProgress) -> Res4<WriteResponse4, OffloadFail> {
    let status = match progress.phase {
        Phase::Ended(CopyEnd::Complete) => {
            return Ok(WriteResponse4 {
                callback_id: None,
                count: progress.done,
                committed: StableHow4::FileSync,
                writeverf: progress.verifier,
            });
        }
        Phase::Ended(end) => end.into(),
        // The copy was cancelled in the meantime, which ended its stateid.
        Phase::Running | Phase::Syncing | Phase::Gone => NfsStat4::BadStateId,
    };
    Err(OffloadFail { status, bytes_copied: progress.done })
}

fn file(handle: &[u8]) -> FileHandle4<'_> {
    FileHandle4::new(handle).expect("handles are within the limit of NFSv4, see limits.rs")
}

impl Call {
    /// Encodes the call with its record mark.
    pub(super) fn encode(&self, xid: u32, body: &Body) -> Vec<u8> {
        let groups = wire::rpc::Groups::new(&[]).expect("no groups are not too many");
        let credential = match self.security {
            CallbackSecurity::None => Credential::None,
            CallbackSecurity::Sys { uid, gid } => {
                Credential::Sys(AuthSys { stamp: 0, machine_name: b"holdfast", uid, gid, groups })
            }
        };
        let operation = body.operation();
        let procedure = if operation.is_none() { CbProcedure::Null } else { CbProcedure::Compound };
        let header = CallHeader {
            xid,
            program: self.program,
            version: CALLBACK_VERSION,
            procedure: procedure.code(),
            credential,
            verifier: OpaqueAuth::NONE,
        };
        let mut record = Vec::with_capacity(256);
        write_record(&mut record, |out| {
            header.encode(out);
            if let Some(operation) = &operation {
                self.compound(out, operation);
            }
        });
        record
    }

    /// Encodes the arguments of CB_COMPOUND.
    fn compound(&self, out: &mut Encoder<'_>, operation: &CbArgOp4<'_>) {
        let minor = self.sequence.map_or(0, |sequence| sequence.minor);
        let mut operations = CbCompoundArgsEncoder::begin(out, Utf8Str4(b""), minor, self.ident);
        if let Some(sequence) = &self.sequence {
            operations.push(&CbArgOp4::Sequence(CbSequenceArgs {
                sessionid: SessionId4(sequence.session.0),
                sequenceid: sequence.sequence,
                slotid: sequence.slot,
                highest_slotid: sequence.highest,
                cachethis: false,
                referring_call_lists: Array::EMPTY,
            }));
        }
        operations.push(operation);
        operations.finish();
    }
}
