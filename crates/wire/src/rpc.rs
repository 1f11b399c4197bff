//! ONC RPC version 2 (RFC 5531): the headers of calls and replies.
//!
//! A server decodes calls with [`decode_call`]; [`CallError::reply`] is the reply to an invalid call, if any. A reply
//! begins with [`ReplyHeader`], or with [`encode_success`] if it is accepted and successful. Results follow the
//! header in the same record.

mod auth;
#[cfg(test)]
mod tests;

pub use auth::{AUTH_NONE, AUTH_SYS, AuthFlavors, AuthSys, Credential, Groups, Integers, OpaqueAuth};

use std::fmt;

use crate::limits::AUTH_BODY_BYTES_MAX;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, block, decode_all};

/// The version of the RPC protocol itself.
pub const RPC_VERSION: u32 = 2;

const MESSAGE_CALL: u32 = 0;
const MESSAGE_REPLY: u32 = 1;

/// The header of a call (RFC 5531 section 9, call_body). The arguments follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Identifies the call to the client; a retransmission has the same.
    pub xid: u32,
    /// The program, for example [`crate::nfs3::PROGRAM`].
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure of the program.
    pub procedure: u32,
    /// Identifies the caller.
    pub credential: Credential<'a>,
    /// Proves the credential; empty for AUTH_NONE and AUTH_SYS.
    pub verifier: OpaqueAuth<'a>,
}

impl Encode for CallHeader<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.raw(&block::<24>(|fields| {
            fields.u32(self.xid);
            fields.u32(MESSAGE_CALL);
            fields.u32(RPC_VERSION);
            fields.u32(self.program);
            fields.u32(self.version);
            fields.u32(self.procedure);
        }));
        self.credential.encode(out);
        self.verifier.encode(out);
    }
}

/// Why a record cannot be dispatched as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// It is a reply, or ends before the number of the procedure. The peer speaks another protocol, and the connection must
    /// be closed.
    NotACall,
    /// The credential or the verifier is over its limit. The connection must be closed.
    OverLimit,
    /// The version of RPC is not 2.
    RpcMismatch {
        /// The xid of the call.
        xid: u32,
    },
    /// The credential or the verifier does not decode.
    Auth {
        /// The xid of the call.
        xid: u32,
        /// [`AuthStat::BadCred`] or [`AuthStat::BadVerf`].
        stat: AuthStat,
    },
}

impl CallError {
    /// Returns the reply to send. If there is none, the connection must be closed.
    #[must_use]
    pub fn reply(self) -> Option<ReplyHeader<'static>> {
        let (xid, denied) = match self {
            Self::NotACall | Self::OverLimit => return None,
            Self::RpcMismatch { xid } => {
                (xid, RejectedReply::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION })
            }
            Self::Auth { xid, stat } => (xid, RejectedReply::AuthError(stat)),
        };
        Some(ReplyHeader { xid, body: ReplyBody::Denied(denied) })
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotACall => write!(f, "the record is not an RPC call"),
            Self::OverLimit => {
                write!(f, "the credential or verifier is longer than {AUTH_BODY_BYTES_MAX} bytes")
            }
            Self::RpcMismatch { .. } => write!(f, "the version of RPC is not 2"),
            Self::Auth { stat: AuthStat::BadVerf, .. } => write!(f, "the verifier does not decode"),
            Self::Auth { .. } => write!(f, "the credential does not decode"),
        }
    }
}

impl std::error::Error for CallError {}

/// Decodes the header of a call. The returned decoder is at the arguments.
///
/// # Errors
/// See [`CallError`].
pub fn decode_call(record: &[u8]) -> Result<(CallHeader<'_>, Decoder<'_>), CallError> {
    decode_call_in(Decoder::new(record))
}

/// The same for a record that lacks a part of a payload.
///
/// # Errors
/// See [`CallError`].
pub fn decode_call_in(mut input: Decoder<'_>) -> Result<(CallHeader<'_>, Decoder<'_>), CallError> {
    let mut word = || input.u32().map_err(|_| CallError::NotACall);
    let xid = word()?;
    if word()? != MESSAGE_CALL {
        return Err(CallError::NotACall);
    }
    // The rest of the header of another version may differ.
    if word()? != RPC_VERSION {
        return Err(CallError::RpcMismatch { xid });
    }
    let (program, version, procedure) = (word()?, word()?, word()?);
    let auth_error = |error, stat| match error {
        DecodeError::TooLong { .. } => CallError::OverLimit,
        _ => CallError::Auth { xid, stat },
    };
    let credential = OpaqueAuth::decode(&mut input).map_err(|error| auth_error(error, AuthStat::BadCred))?;
    let verifier = OpaqueAuth::decode(&mut input).map_err(|error| auth_error(error, AuthStat::BadVerf))?;
    let credential = match credential.flavor {
        AUTH_NONE => Credential::None,
        AUTH_SYS => Credential::Sys(
            decode_all(credential.body).map_err(|_| CallError::Auth { xid, stat: AuthStat::BadCred })?,
        ),
        _ => Credential::Other(credential),
    };
    Ok((CallHeader { xid, program, version, procedure, credential, verifier }, input))
}

xdr! {
    /// Why authentication failed (RFC 5531 section 9, auth_stat).
    pub enum AuthStat {
        /// Success; never in a rejection.
        Ok = 0 "AUTH_OK",
        /// The credential is damaged.
        BadCred = 1 "AUTH_BADCRED",
        /// The client must begin a new session.
        RejectedCred = 2 "AUTH_REJECTEDCRED",
        /// The verifier is damaged.
        BadVerf = 3 "AUTH_BADVERF",
        /// The verifier has expired or was replayed.
        RejectedVerf = 4 "AUTH_REJECTEDVERF",
        /// The flavor is too weak for this server.
        TooWeak = 5 "AUTH_TOOWEAK",
        /// The verifier of the reply is wrong; local to the client.
        InvalidResp = 6 "AUTH_INVALIDRESP",
        /// Unknown reason; local to the client.
        Failed = 7 "AUTH_FAILED",
        /// Kerberos version 4: generic error.
        KerbGeneric = 8 "AUTH_KERB_GENERIC",
        /// Kerberos version 4: the credential has expired.
        TimeExpire = 9 "AUTH_TIMEEXPIRE",
        /// Kerberos version 4: problem with the ticket file.
        TktFile = 10 "AUTH_TKT_FILE",
        /// Kerberos version 4: cannot decode the authenticator.
        Decode = 11 "AUTH_DECODE",
        /// Kerberos version 4: wrong address in the ticket.
        NetAddr = 12 "AUTH_NET_ADDR",
        /// RPCSEC_GSS: no credentials for the user.
        GssCredProblem = 13 "RPCSEC_GSS_CREDPROBLEM",
        /// RPCSEC_GSS: problem with the context.
        GssCtxProblem = 14 "RPCSEC_GSS_CTXPROBLEM",
    }

    /// The status of an accepted call (RFC 5531 section 9, accept_stat). Results follow only [`Self::Success`].
    pub union AcceptStat {
        /// The procedure ran; its results follow.
        Success = 0,
        /// The program is not available.
        ProgUnavail = 1,
        /// The version of the program is not available.
        ProgMismatch {
            /// The lowest available version.
            low: u32,
            /// The highest available version.
            high: u32,
        } = 2,
        /// The program has no such procedure.
        ProcUnavail = 3,
        /// The arguments do not decode.
        GarbageArgs = 4,
        /// The server failed, for example for lack of memory.
        SystemErr = 5,
    }

    /// Why a call was rejected (RFC 5531 section 9, rejected_reply).
    pub union RejectedReply {
        /// The version of RPC is not 2.
        RpcMismatch {
            /// The lowest supported version.
            low: u32,
            /// The highest supported version.
            high: u32,
        } = 0,
        /// Authentication failed.
        AuthError(stat: AuthStat) = 1,
    }

    /// Whether a call was accepted (RFC 5531 section 9, reply_body).
    pub union ReplyBody<'a> {
        /// The call was accepted.
        Accepted {
            /// Authenticates the server; empty.
            verifier: OpaqueAuth<'a>,
            /// The status.
            stat: AcceptStat,
        } = 0,
        /// The call was rejected.
        Denied(denied: RejectedReply) = 1,
    }
}

impl fmt::Display for AcceptStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("SUCCESS"),
            Self::ProgUnavail => f.write_str("PROG_UNAVAIL"),
            Self::ProgMismatch { low, high } => write!(f, "PROG_MISMATCH (it has versions {low} to {high})"),
            Self::ProcUnavail => f.write_str("PROC_UNAVAIL"),
            Self::GarbageArgs => f.write_str("GARBAGE_ARGS"),
            Self::SystemErr => f.write_str("SYSTEM_ERR"),
        }
    }
}

impl fmt::Display for RejectedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RpcMismatch { low, high } => write!(f, "RPC_MISMATCH (it has versions {low} to {high})"),
            Self::AuthError(stat) => write!(f, "AUTH_ERROR, {stat}"),
        }
    }
}

/// The header of a reply (RFC 5531 section 9). Results follow an accepted, successful one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The xid of the call.
    pub xid: u32,
    /// Whether the call was accepted.
    pub body: ReplyBody<'a>,
}

impl ReplyHeader<'static> {
    /// Returns the header of the reply to an accepted call, with an empty verifier.
    #[must_use]
    pub const fn accepted(xid: u32, stat: AcceptStat) -> Self {
        Self { xid, body: ReplyBody::Accepted { verifier: OpaqueAuth::NONE, stat } }
    }

    /// Returns the header of the reply to a call whose authentication failed.
    #[must_use]
    pub const fn auth_error(xid: u32, stat: AuthStat) -> Self {
        Self { xid, body: ReplyBody::Denied(RejectedReply::AuthError(stat)) }
    }
}

impl ReplyHeader<'_> {
    /// Whether results follow.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self.body, ReplyBody::Accepted { stat: AcceptStat::Success, .. })
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.u32(self.xid);
        out.u32(MESSAGE_REPLY);
        self.body.encode(out);
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let xid = input.u32()?;
        let message = input.u32()?;
        if message != MESSAGE_REPLY {
            return Err(DecodeError::BadEnum { name: "msg_type of a reply", value: message });
        }
        let body = ReplyBody::decode(input)?;
        Ok(Self { xid, body })
    }
}

/// The size of the header that [`encode_success`] appends, in bytes.
pub const SUCCESS_BYTES: usize = 24;

/// Appends the header of an accepted and successful reply in one step.
#[inline]
pub fn encode_success(out: &mut Encoder<'_>, xid: u32) {
    out.raw(&block::<SUCCESS_BYTES>(|fields| {
        fields.u32(xid);
        fields.u32(MESSAGE_REPLY);
        fields.u32(0);
        fields.u32(AUTH_NONE);
        fields.u32(0);
        fields.u32(0);
    }));
}
