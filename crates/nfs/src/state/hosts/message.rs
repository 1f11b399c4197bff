//! The bytes of calls to hosts: results of messages, NLM_GRANTED, and NSM's NOTIFY.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use volume::time::Time;
use wire::nlm4::{self, HostName, Netobj, Nlm4Lock, Nlm4Stats, Res, TestArgs};
use wire::nsm::{self, StatChge};
use wire::record::write_record;
use wire::rpc::{AcceptStat, CallHeader, Credential, OpaqueAuth, ReplyBody, ReplyHeader};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::state::callbacks::outgoing::Destination;

use super::{Grant, owner_of};
use crate::state::config::UNTOLD_LEASES_MAX;
use crate::state::locks::ranges::LockKind;
use crate::state::shares::{Held, Holder, Resource};
use crate::state::{DurabilityToken, StateStore};

/// The purpose of a call.
#[derive(Clone, Debug)]
pub(super) enum MessageKind {
    /// The result of a message.
    Result,
    /// A lock that a waiter got.
    Granted(Arc<Grant>),
    /// This server restarted.
    Restarted,
    /// Whether the host is still there.
    Inquiry,
}

/// A call to a host.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    host: IpAddr,
    program: u32,
    version: u32,
    procedure: u32,
    /// Empty for grants, which are encoded when they are sent.
    args: Box<[u8]>,
    pub(super) kind: MessageKind,
    /// What must be durable first.
    pub(super) after: Option<DurabilityToken>,
    /// When it was first due.
    pub(super) first_due: Time,
    /// When it is due.
    pub(super) due: Time,
    /// Its memory, counted while any copy exists.
    counted: Option<Arc<Held>>,
}

/// Encodes a value.
fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

impl Message {
    /// Creates the result of a message.
    pub(super) fn result(
        now: Time,
        host: IpAddr,
        procedure: u32,
        args: Vec<u8>,
        after: Option<DurabilityToken>,
    ) -> Message {
        let (program, version) = (nlm4::PROGRAM, nlm4::VERSION);
        let (args, kind) = (args.into(), MessageKind::Result);
        let counted = None;
        Message { host, program, version, procedure, args, kind, after, first_due: now, due: now, counted }
    }

    /// Counts the call's memory with that of its host. Returns none beyond its share. NLM_GRANTED is never dropped, as nothing
    /// else would free the lock of a host that is gone: its place in the queue for the lock pays for it, and its bytes exist
    /// and count only from when it is sent until that has ended.
    pub(super) fn counted(self, holder: impl FnOnce() -> Arc<Holder>) -> Option<Message> {
        if self.counted.is_some() || self.grant().is_some() {
            return Some(self);
        }
        let counted = Held::within_share(&holder(), Resource::CallBytes, bytes_of(&self.args))?;
        Some(Message { counted: Some(Arc::new(counted)), ..self })
    }

    /// Creates NLM_GRANTED.
    pub(super) fn granted(grant: &Arc<Grant>, token: DurabilityToken) -> Message {
        let host = grant.open.client.host.map_or(IpAddr::from([0, 0, 0, 0]), |host| host.address);
        let procedure = nlm4::Procedure::Granted.code();
        Message {
            kind: MessageKind::Granted(Arc::clone(grant)),
            ..Message::result(grant.since, host, procedure, Vec::new(), Some(token))
        }
    }

    /// Creates NSM's NOTIFY: `server`, as `host` knows it, has restarted.
    pub(super) fn restarted(now: Time, host: IpAddr, server: IpAddr, state: i32) -> Message {
        let name = server.to_string();
        let args = encoded(&StatChge { mon_name: nsm::HostName(name.as_bytes()), state }).into();
        let (program, version, procedure) = (nsm::PROGRAM, nsm::VERSION, nsm::Procedure::Notify.code());
        let (kind, after, counted) = (MessageKind::Restarted, None, None);
        Message { host, program, version, procedure, args, kind, after, first_due: now, due: now, counted }
    }

    /// Creates NLM's NULL, which any lock manager answers.
    pub(super) fn inquiry(now: Time, host: IpAddr) -> Message {
        let nothing = Message::result(now, host, nlm4::Procedure::Null.code(), Vec::new(), None);
        Message { kind: MessageKind::Inquiry, ..nothing }
    }

    /// Returns the host.
    pub(super) fn host(&self) -> IpAddr {
        self.host
    }

    /// Notes that the server had no room to send it. A host must have been asked, or told of a lock, for a whole lease before it
    /// loses its locks; but a lock that others may want does not wait for ever for that. Calls of its own origin that are unanswered
    /// give it no time.
    pub(in crate::state) fn was_not_sent(&mut self, now: Time, lease: Duration) {
        let begins_anew = match &self.kind {
            MessageKind::Inquiry => true,
            MessageKind::Granted(grant) => {
                grant.open.client.holder.held_by_origin(Resource::CallBytes) == 0
                    && now.since(grant.since) < UNTOLD_LEASES_MAX * lease
            }
            MessageKind::Result | MessageKind::Restarted => false,
        };
        if begins_anew {
            self.first_due = now;
        }
    }

    /// Returns the lock that it grants, if it grants one.
    pub(in crate::state) fn grant(&self) -> Option<&Grant> {
        match &self.kind {
            MessageKind::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    /// Returns where it goes.
    pub(crate) fn destination(&self) -> Destination {
        Destination::Program { host: self.host, program: self.program, version: self.version }
    }

    /// Returns the status of a host's answer, `Granted` if the procedure has no result; none if the call failed, or if it
    /// answers another NLM_GRANTED.
    pub(super) fn status(&self, record: &[u8]) -> Option<Nlm4Stats> {
        let mut input = Decoder::new(record);
        match ReplyHeader::decode(&mut input).ok()?.body {
            ReplyBody::Accepted { stat: AcceptStat::Success, .. } => {}
            _ => return None,
        }
        let MessageKind::Granted(grant) = &self.kind else { return Some(Nlm4Stats::Granted) };
        let res = Res::decode(&mut input).ok()?;
        (res.cookie.0 == grant.cookie()).then_some(res.stat)
    }

    /// Returns what is sent.
    pub(crate) fn call(&self, store: &dyn StateStore) -> HostCall {
        let header = CallHeader {
            xid: 0,
            program: self.program,
            version: self.version,
            procedure: self.procedure,
            credential: Credential::None,
            verifier: OpaqueAuth::NONE,
        };
        let args = self.grant().map_or_else(|| self.args.clone(), |grant| grant_args(grant, store));
        HostCall { header, args }
    }
}

/// The arguments of NLM_GRANTED, in the terms of the LOCK that had to wait.
fn grant_args(grant: &Grant, store: &dyn StateStore) -> Box<[u8]> {
    let handle = store.handle(grant.open.file);
    let (svid, oh) = owner_of(grant.owner.name());
    let (l_offset, l_len) = nlm_range(grant.range);
    let caller_name = HostName(grant.open.client.caller_name());
    let alock = Nlm4Lock { caller_name, fh: Netobj(&handle), oh: Netobj(oh), svid, l_offset, l_len };
    let exclusive = grant.kind == LockKind::Write;
    encoded(&TestArgs { cookie: Netobj(grant.cookie()), exclusive, alock }).into()
}

/// What a call with these arguments counts while they and its record exist, in bytes.
fn bytes_of(args: &[u8]) -> u64 {
    (size_of::<Message>() + 2 * args.len()) as u64
}

/// A call to a host, without its xid.
#[derive(Debug)]
pub(crate) struct HostCall {
    header: CallHeader<'static>,
    args: Box<[u8]>,
}

impl HostCall {
    /// Returns what it counts, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.args)
    }

    /// Encodes the call with its record mark.
    pub(crate) fn encode(&self, xid: u32) -> Vec<u8> {
        let mut record = Vec::with_capacity(self.args.len() + 64);
        write_record(&mut record, |out| {
            CallHeader { xid, ..self.header }.encode(out);
            out.raw(&self.args);
        });
        record
    }
}

/// Converts a range to NLM's offset and length, where 0 is "to the end".
pub(crate) fn nlm_range(range: super::Range) -> (u64, u64) {
    let length = if range.last == u64::MAX { 0 } else { range.length() };
    (range.first, length)
}
