//! Clients and sessions since NFSv4.1: EXCHANGE_ID, DESTROY_CLIENTID, CREATE_SESSION, DESTROY_SESSION,
//! BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, SEQUENCE, RECLAIM_COMPLETE, TEST_STATEID, FREE_STATEID, SET_SSV.
//!
//! Fields have the names of the RFC without their prefixes.

use super::{
    Bitmap4, ClientId4, NfsImplId4, NfsStat4, Opaque4, OwnerId4, RPCSEC_GSS, RpcGssSvc, SequenceId4,
    SessionId4, SlotId4, Stateid4, Verifier4,
};
use crate::array::Array;
use crate::limits::{SECURITY_FLAVORS_MAX, TEST_STATEIDS_MAX};
use crate::rpc::{AUTH_NONE, AUTH_SYS, AuthSys};
use crate::xdr::{Encoder, block};

/// The flags of EXCHANGE_ID (RFC 8881 section 18.35).
pub mod exchange_id_flag {
    /// The client understands referrals.
    pub const SUPP_MOVED_REFER: u32 = 0x01;
    /// The client understands migration.
    pub const SUPP_MOVED_MIGR: u32 = 0x02;
    /// Fencing is supported (RFC 7862).
    pub const SUPP_FENCE_OPS: u32 = 0x04;
    /// Stateids are bound to principals.
    pub const BIND_PRINC_STATEID: u32 = 0x0100;
    /// A server without pNFS.
    pub const USE_NON_PNFS: u32 = 0x0001_0000;
    /// The bits for the role of a server in pNFS.
    pub const MASK_PNFS: u32 = 0x0007_0000;
    /// The client updates a confirmed record. Only in arguments.
    pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    /// The client is confirmed. Only in results.
    pub const CONFIRMED_R: u32 = 0x8000_0000;
    /// All flags that arguments may have (RFC 8881 section 18.35, RFC 7862 section 14.1).
    pub const MASK_A: u32 = SUPP_MOVED_REFER
        | SUPP_MOVED_MIGR
        | SUPP_FENCE_OPS
        | BIND_PRINC_STATEID
        | MASK_PNFS
        | UPD_CONFIRMED_REC_A;
}

xdr! {
    /// A client (RFC 8881 section 18.35, client_owner4).
    pub struct ClientOwner4<'a> {
        /// Changes when the client restarts.
        pub verifier: Verifier4,
        /// The client's name for itself.
        pub ownerid: OwnerId4<'a>,
    }

    /// A server (RFC 8881 section 18.35, server_owner4).
    pub struct ServerOwner4<'a> {
        /// Sessions can be used on connections to all servers for which both ids are equal.
        pub minor_id: u64,
        /// Client ids can be used with all servers for which this id is equal.
        pub major_id: OwnerId4<'a>,
    }

    /// Sets of operations by their numbers (RFC 8881 section 18.35, state_protect_ops4).
    pub struct StateProtectOps4 {
        /// The operations that only the machine credential may execute.
        pub must_enforce: Bitmap4,
        /// The operations that the machine credential may also execute.
        pub must_allow: Bitmap4,
    }

    /// Object identifiers of algorithms in DER.
    pub type SecOids4<'a> = Array<'a, Opaque4<'a>, SECURITY_FLAVORS_MAX>;

    /// A client's parameters for SSV (RFC 8881 section 18.35, ssv_sp_parms4).
    pub struct SsvSpParms4<'a> {
        /// The operations.
        pub ops: StateProtectOps4,
        /// Hash algorithms.
        pub hash_algs: SecOids4<'a>,
        /// Encryption algorithms.
        pub encr_algs: SecOids4<'a>,
        /// The number of old SSVs that the server should keep.
        pub window: u32,
        /// The number of GSS handles that the server should create.
        pub num_gss_handles: u32,
    }

    /// How a client asks for its state to be protected (RFC 8881 section 18.35, state_protect4_a).
    pub union StateProtect4A<'a> {
        /// No protection.
        None = 0,
        /// By the machine credential.
        MachCred(ops: StateProtectOps4) = 1,
        /// By a shared secret.
        Ssv(parms: SsvSpParms4<'a>) = 2,
    }

    /// How the server protects a client's state (RFC 8881 section 18.35, state_protect4_r).
    pub union StateProtect4R<'a> {
        /// No protection.
        None = 0,
        /// By the machine credential.
        MachCred(ops: StateProtectOps4) = 1,
        /// By a shared secret.
        Ssv(info: SsvProtInfo4<'a>) = 2,
    }

    /// The arguments of EXCHANGE_ID (RFC 8881 section 18.35).
    pub struct ExchangeIdArgs<'a> {
        /// The client.
        pub clientowner: ClientOwner4<'a>,
        /// Bits of [`exchange_id_flag`].
        pub flags: u32,
        /// The requested protection of its state.
        pub state_protect: StateProtect4A<'a>,
        /// Its software.
        pub client_impl_id: Option<NfsImplId4<'a>>,
    }

    /// The server's parameters for SSV (RFC 8881 section 18.35, ssv_prot_info4).
    pub struct SsvProtInfo4<'a> {
        /// The operations.
        pub ops: StateProtectOps4,
        /// The index of the hash algorithm in the client's list.
        pub hash_alg: u32,
        /// The index of the encryption algorithm in the client's list.
        pub encr_alg: u32,
        /// The length of the SSV in bytes.
        pub ssv_len: u32,
        /// The number of old SSVs that the server keeps.
        pub window: u32,
        /// GSS handles.
        pub handles: SecOids4<'a>,
    }

    /// EXCHANGE_ID succeeded.
    pub struct ExchangeIdOk<'a> {
        /// The id of the client.
        pub clientid: ClientId4,
        /// The sequence id of its next CREATE_SESSION.
        pub sequenceid: SequenceId4,
        /// Bits of [`exchange_id_flag`].
        pub flags: u32,
        /// The protection of its state.
        pub state_protect: StateProtect4R<'a>,
        /// The server.
        pub server_owner: ServerOwner4<'a>,
        /// Handles and state are valid with all servers for which this is equal.
        pub server_scope: OwnerId4<'a>,
        /// The server's software.
        pub server_impl_id: Option<NfsImplId4<'a>>,
    }

    /// The arguments of DESTROY_CLIENTID (RFC 8881 section 18.50).
    pub struct DestroyClientIdArgs {
        /// The client.
        pub clientid: ClientId4,
    }

    /// The limits of a channel of a session (RFC 8881 section 18.36, channel_attrs4).
    pub struct ChannelAttrs4 {
        /// The requested padding before payloads in bytes. Only for RDMA.
        pub headerpadsize: u32,
        /// The largest request in bytes, with its RPC header.
        pub maxrequestsize: u32,
        /// The largest reply in bytes, with its RPC header.
        pub maxresponsesize: u32,
        /// The largest cached reply in bytes, with its RPC header.
        pub maxresponsesize_cached: u32,
        /// The most operations in a COMPOUND.
        pub maxoperations: u32,
        /// The most slots.
        pub maxrequests: u32,
        /// For RDMA.
        pub rdma_ird: Option<u32>,
    }
}

/// The flags of CREATE_SESSION (RFC 8881 section 18.36).
pub mod create_session_flag {
    /// The reply cache survives a restart of the server.
    pub const PERSIST: u32 = 1;
    /// The connection also carries callbacks.
    pub const CONN_BACK_CHAN: u32 = 2;
    /// The connection changes to RDMA.
    pub const CONN_RDMA: u32 = 4;
    /// All flags.
    pub const MASK: u32 = PERSIST | CONN_BACK_CHAN | CONN_RDMA;
}

xdr! {
    /// The handles of a callback with RPCSEC_GSS (RFC 8881 section 18.33, gss_cb_handles4).
    pub struct GssCbHandles4<'a> {
        /// The service of GSS.
        pub service: RpcGssSvc,
        /// The handle that the server uses.
        pub handle_from_server: Opaque4<'a>,
        /// The handle that the client uses.
        pub handle_from_client: Opaque4<'a>,
    }

    /// A credential for callbacks (RFC 8881 section 18.33, callback_sec_parms4).
    pub union CallbackSecParms4<'a> {
        /// AUTH_NONE.
        None = AUTH_NONE,
        /// AUTH_SYS.
        Sys(credential: AuthSys<'a>) = AUTH_SYS,
        /// RPCSEC_GSS.
        Gss(handles: GssCbHandles4<'a>) = RPCSEC_GSS,
    }

    /// The credentials that a server may use for callbacks.
    pub type SecParms4<'a> = Array<'a, CallbackSecParms4<'a>, SECURITY_FLAVORS_MAX>;

    /// The arguments of CREATE_SESSION (RFC 8881 section 18.36).
    pub struct CreateSessionArgs<'a> {
        /// The client.
        pub clientid: ClientId4,
        /// The client's next sequence id.
        pub sequence: SequenceId4,
        /// Bits of [`create_session_flag`].
        pub flags: u32,
        /// The limits of calls to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// The limits of calls to the client.
        pub back_chan_attrs: ChannelAttrs4,
        /// The program number of calls to the client.
        pub cb_program: u32,
        /// The credentials of calls to the client.
        pub sec_parms: SecParms4<'a>,
    }

    /// CREATE_SESSION succeeded.
    pub struct CreateSessionOk {
        /// The session.
        pub sessionid: SessionId4,
        /// As in the arguments.
        pub sequence: SequenceId4,
        /// Bits of [`create_session_flag`].
        pub flags: u32,
        /// The limits of calls to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// The limits of calls to the client.
        pub back_chan_attrs: ChannelAttrs4,
    }

    /// The arguments of DESTROY_SESSION (RFC 8881 section 18.37).
    pub struct DestroySessionArgs {
        /// The session.
        pub sessionid: SessionId4,
    }

    /// The channels that a client requests for a connection (RFC 8881 section 18.34, channel_dir_from_client4).
    pub enum ChannelDirFromClient4 {
        /// For calls to the server.
        Fore = 1,
        /// For calls to the client.
        Back = 2,
        /// For calls to the server, or for both if the server prefers that.
        ForeOrBoth = 3,
        /// For calls to the client, or for both if the server prefers that.
        BackOrBoth = 7,
    }

    /// The channels of a connection (RFC 8881 section 18.34, channel_dir_from_server4).
    pub enum ChannelDirFromServer4 {
        /// For calls to the server.
        Fore = 1,
        /// For calls to the client.
        Back = 2,
        /// For both.
        Both = 3,
    }

    /// The arguments of BIND_CONN_TO_SESSION (RFC 8881 section 18.34).
    pub struct BindConnToSessionArgs {
        /// The session.
        pub sessid: SessionId4,
        /// The channels.
        pub dir: ChannelDirFromClient4,
        /// Whether the connection changes to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }

    /// BIND_CONN_TO_SESSION succeeded.
    pub struct BindConnToSessionOk {
        /// The session.
        pub sessid: SessionId4,
        /// The channels.
        pub dir: ChannelDirFromServer4,
        /// Whether the connection changes to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }

    /// The arguments of BACKCHANNEL_CTL (RFC 8881 section 18.33).
    pub struct BackchannelCtlArgs<'a> {
        /// The program number of calls to the client.
        pub cb_program: u32,
        /// The credentials of calls to the client.
        pub sec_parms: SecParms4<'a>,
    }

    /// The arguments of SEQUENCE (RFC 8881 section 18.46).
    pub struct SequenceArgs {
        /// The session.
        pub sessionid: SessionId4,
        /// The next sequence id of the slot, or the last one for a retransmission.
        pub sequenceid: SequenceId4,
        /// The slot.
        pub slotid: SlotId4,
        /// The highest slot that the client currently uses.
        pub highest_slotid: SlotId4,
        /// Whether the server must cache the reply.
        pub cachethis: bool,
    }
}

/// Flags about the state of a client (RFC 8881 section 18.46, sr_status_flags).
pub mod sequence_status {
    /// No callback channel works.
    pub const CB_PATH_DOWN: u32 = 0x0001;
    /// The lease expired, and all state with it.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x0008;
    /// The lease expired, and some state with it.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x0010;
    /// An administrator revoked state.
    pub const ADMIN_STATE_REVOKED: u32 = 0x0020;
    /// Delegations or layouts were revoked.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x0040;
    /// Another server has the state of some file systems.
    pub const LEASE_MOVED: u32 = 0x0080;
    /// The server restarted, and state must be reclaimed.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x0100;
    /// This session's callback channel does not work.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x0200;
    /// The callback channel has an unrecoverable fault.
    pub const BACKCHANNEL_FAULT: u32 = 0x0400;
}

xdr! {
    /// SEQUENCE succeeded.
    pub struct SequenceOk {
        /// As in the arguments.
        pub sessionid: SessionId4,
        /// As in the arguments.
        pub sequenceid: SequenceId4,
        /// As in the arguments.
        pub slotid: SlotId4,
        /// The highest slot that the server accepts.
        pub highest_slotid: SlotId4,
        /// The highest slot that the server wants the client to use.
        pub target_highest_slotid: SlotId4,
        /// Bits of [`sequence_status`].
        pub status_flags: u32,
    }

    /// The arguments of RECLAIM_COMPLETE (RFC 8881 section 18.51).
    pub struct ReclaimCompleteArgs {
        /// Whether only the current file system is reclaimed.
        pub one_fs: bool,
    }

    /// The arguments of TEST_STATEID (RFC 8881 section 18.48).
    pub struct TestStateidArgs<'a> {
        /// The stateids to test.
        pub stateids: Array<'a, Stateid4, TEST_STATEIDS_MAX>,
    }

    /// TEST_STATEID succeeded.
    pub struct TestStateidOk<'a> {
        /// The status of each stateid.
        pub status_codes: Array<'a, NfsStat4, TEST_STATEIDS_MAX>,
    }

    /// The arguments of FREE_STATEID (RFC 8881 section 18.38).
    pub struct FreeStateidArgs {
        /// The stateid to free.
        pub stateid: Stateid4,
    }

    /// The arguments of SET_SSV (RFC 8881 section 18.47).
    pub struct SetSsvArgs<'a> {
        /// The value to be combined with the secret.
        pub ssv: Opaque4<'a>,
        /// The proof of the value.
        pub digest: Opaque4<'a>,
    }
}

/// Bytes of the result of a SEQUENCE that succeeded: a status and [`SequenceOk`].
const SEQUENCE_RESULT_BYTES: usize = 4 + 16 + 5 * 4;

impl SequenceOk {
    /// Encodes the result, as [`SequenceRes`](super::SequenceRes) does. It is the first of nearly every COMPOUND, so this takes
    /// one step.
    #[inline]
    pub fn encode_result(&self, out: &mut Encoder<'_>) {
        let result: [u8; SEQUENCE_RESULT_BYTES] = block(|fields| {
            fields.u32(NfsStat4::Ok.code());
            fields.put(self.sessionid.0);
            fields.u32(self.sequenceid);
            fields.u32(self.slotid);
            fields.u32(self.highest_slotid);
            fields.u32(self.target_highest_slotid);
            fields.u32(self.status_flags);
        });
        out.raw(&result);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SequenceRes;
    use super::*;
    use crate::sample::{Rng, Sample as _, encode};

    #[test]
    fn the_result_of_sequence_is_encoded_as_others_are() {
        let ok = SequenceOk::sample(&mut Rng::new(1));
        let mut bytes = Vec::new();
        ok.encode_result(&mut Encoder::new(&mut bytes));
        assert_eq!(bytes, encode(&SequenceRes::Ok(ok)));
    }
}
