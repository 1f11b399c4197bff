//! Clients and what they hold, as records of a volume. Byte for byte this is part of the format of a volume
//! (`docs/format.md`): each value begins with a version, and fields are XDR.
//!
//! | key | value |
//! |---|---|
//! | `C` client | [`ClientRecord`] |
//! | `N` | [`MonitorRecord`]: the status monitor |
//! | `S` session | [`SessionRecord`] |
//! | `O` ino, other | [`OpenRecord`] |
//! | `D` ino, other | [`DelegationRecord`] |
//! | `K` ino, other | [`LockStateRecord`]: a lock owner's stateid |
//! | `R` ino, other, first byte | [`RangeRecord`]: a range that this owner has locked |
//! | `P` ino, other | [`CopyRecord`]: a copy to this file continues |
//!
//! Clients, sessions and the status monitor are in the home volume, the others in the volume of their file, which their
//! keys do not name.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use volume::ids::Ino;
use volume::state::{StateChange, StateKey};
use wire::xdr::{DecodeError, Decoder, Encoder};

use crate::state::clients::client::{Host, OpenOwner};
use crate::state::files::share::Modes;
use crate::state::ids::{ClientId, Other, SessionId};
use crate::state::locks::ranges::LockKind;

/// The version that is written, the only one so far.
const VERSION: u32 = 1;

/// The longest name that a client gives itself or an owner, in bytes (RFC 8881 section 3.1, NFS4_OPAQUE_LIMIT).
pub(crate) const NAME_BYTES_MAX: usize = 1024;
/// The longest name under which a client is kept, in bytes.
const CLIENT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX + 1;
/// The longest network id or universal address, in bytes; the longest of `tcp6` has 47.
pub(crate) const ADDRESS_BYTES_MAX: usize = 128;
/// Addresses of a client that are remembered. If it comes from more, the earlier ones give way, but not the first.
pub(crate) const CLIENT_ADDRESSES_MAX: usize = 8;
/// The lowest address; that of a client whose record names none.
pub(crate) const LOWEST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const _: () = assert!(
    CLIENT_NAME_BYTES_MAX + 2 * ADDRESS_BYTES_MAX + 16 * CLIENT_ADDRESSES_MAX + 256
        <= volume::limits::STATE_VALUE_BYTES_MAX
);

/// The key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Client(ClientId),
    Session(SessionId),
    Monitor,
    Open(Ino, Other),
    Delegation(Ino, Other),
    LockState(Ino, Other),
    Range(Ino, Other, u64),
    Copy(Ino, Other),
}

impl Key {
    /// Returns its bytes.
    pub(crate) fn to_bytes(self) -> StateKey {
        match self {
            Key::Client(id) => joined::<9>(b'C', &[&id.0.to_be_bytes()]),
            Key::Session(id) => joined::<17>(b'S', &[&id.0]),
            Key::Monitor => [b'N'].into(),
            // Most records are of files, and each OPEN and CLOSE makes such a key.
            Key::Open(ino, other) => of_file(b'O', ino, other),
            Key::Delegation(ino, other) => of_file(b'D', ino, other),
            Key::LockState(ino, other) => of_file(b'K', ino, other),
            Key::Copy(ino, other) => of_file(b'P', ino, other),
            Key::Range(ino, other, first) => {
                joined::<29>(b'R', &[&ino.0.to_be_bytes(), &other.0, &first.to_be_bytes()])
            }
        }
    }

    /// Parses a key; none if it is of another protocol.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Key> {
        let (tag, rest) = bytes.split_first()?;
        let eight = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        match tag {
            b'C' => return Some(Key::Client(ClientId(eight(rest)?))),
            b'N' if rest.is_empty() => return Some(Key::Monitor),
            b'S' => return Some(Key::Session(SessionId(rest.try_into().ok()?))),
            _ => {}
        }
        let (ino, rest) = rest.split_at_checked(8)?;
        let (other, first) = rest.split_at_checked(12)?;
        let (ino, other) = (Ino(eight(ino)?), Other(other.try_into().ok()?));
        match (tag, first.is_empty()) {
            (b'O', true) => Some(Key::Open(ino, other)),
            (b'D', true) => Some(Key::Delegation(ino, other)),
            (b'K', true) => Some(Key::LockState(ino, other)),
            (b'P', true) => Some(Key::Copy(ino, other)),
            (b'R', false) => Some(Key::Range(ino, other, eight(first)?)),
            _ => None,
        }
    }

    /// Returns the change that deletes the record.
    pub(crate) fn deleted(self) -> StateChange {
        StateChange { key: self.to_bytes(), value: None }
    }

    /// Returns the change that writes the record.
    pub(crate) fn put(self, record: &impl Record) -> StateChange {
        StateChange { key: self.to_bytes(), value: Some(record.to_bytes()) }
    }
}

/// Returns the key of a kind of record, of these fields. With the tag, they have `N` bytes.
fn joined<const N: usize>(tag: u8, fields: &[&[u8]]) -> StateKey {
    let mut key = [tag; N];
    let (_, mut rest) = key.split_at_mut(1);
    for field in fields {
        let (place, after) = rest.split_at_mut(field.len());
        place.copy_from_slice(field);
        rest = after;
    }
    key.into()
}

fn of_file(tag: u8, ino: Ino, other: Other) -> StateKey {
    joined::<21>(tag, &[&ino.0.to_be_bytes(), &other.0])
}

/// The value of a record.
pub(crate) trait Record: Sized {
    /// Writes the fields.
    fn write(&self, out: &mut Encoder<'_>);

    /// Reads them.
    ///
    /// # Errors
    /// If they are not what [`Record::write`] wrote.
    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Returns the version and the fields.
    fn to_bytes(&self) -> Arc<[u8]> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Encoder::new(&mut bytes);
        out.u32(VERSION);
        self.write(&mut out);
        bytes.into()
    }

    /// Parses a record; none if it is of a later version, or damaged.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut input = Decoder::new(bytes);
        if input.u32() != Ok(VERSION) {
            return None;
        }
        let record = Self::read(&mut input).ok()?;
        input.finish().is_ok().then_some(record)
    }
}

fn boxed(input: &mut Decoder<'_>, limit: usize) -> Result<Box<[u8]>, DecodeError> {
    input.opaque(limit).map(Box::from)
}

/// The principal that created a client (RFC 8881 section 2.4.3). The machine name of AUTH_SYS is not part of it: it is
/// forged as easily as the user, and changes when a host is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Principal {
    /// AUTH_NONE.
    None,
    /// A user of AUTH_SYS.
    User(u32),
}

impl Principal {
    fn write(self, out: &mut Encoder<'_>) {
        match self {
            Principal::None => out.u32(0),
            Principal::User(uid) => {
                out.u32(1);
                out.u32(uid);
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Principal, DecodeError> {
        Ok(if input.bool()? { Principal::User(input.u32()?) } else { Principal::None })
    }
}

/// The callback address of an NFSv4.0 client (RFC 7530 section 16.33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallbackAddress {
    /// RPC program.
    pub(crate) program: u32,
    /// The network id; only `tcp` and `tcp6` can be called.
    pub(crate) netid: Box<[u8]>,
    /// Universal address.
    pub(crate) address: Box<[u8]>,
    /// Returned with each callback (callback_ident).
    pub(crate) ident: u32,
}

/// The parts of a client that depend on its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// NFSv4.0.
    V40 {
        /// The verifier of SETCLIENTID_CONFIRM.
        confirm: [u8; 8],
        callback: CallbackAddress,
    },
    /// NFSv4.1 and later.
    Sessions {
        /// The minor version of its EXCHANGE_ID, for callbacks.
        minor: u32,
        /// The sequence of the last CREATE_SESSION, and the session that it created.
        created: Option<(u32, SessionId)>,
        /// Whether RECLAIM_COMPLETE was received.
        reclaimed: bool,
    },
    /// NLM.
    Nlm(Host),
}

/// A confirmed client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientRecord {
    /// Its own name (`nfs_client_id4.id`, `client_owner4.co_ownerid`).
    pub(crate) name: Box<[u8]>,
    /// Changes when it restarts.
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
    /// The instance of the server that handed out its id.
    pub(crate) instance: u32,
    /// The addresses from which it comes, the one of its introduction first; none for NLM clients.
    pub(crate) addresses: Box<[IpAddr]>,
    pub(crate) kind: ClientKind,
}

impl ClientRecord {
    /// Returns the address of its introduction.
    pub(crate) fn address(&self) -> IpAddr {
        let introduced = self.addresses.first().copied();
        match &self.kind {
            ClientKind::Nlm(host) => host.address,
            ClientKind::V40 { .. } | ClientKind::Sessions { .. } => introduced.unwrap_or(LOWEST_ADDRESS),
        }
    }
}

impl Record for ClientRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        out.opaque(&self.name);
        out.opaque_fixed(&self.verifier);
        self.principal.write(out);
        out.u32(self.instance);
        out.u32(u32::try_from(self.addresses.len()).expect("a few"));
        self.addresses.iter().for_each(|address| out.opaque_fixed(&address_bytes(*address)));
        match &self.kind {
            ClientKind::V40 { confirm, callback } => {
                out.u32(0);
                out.opaque_fixed(confirm);
                out.u32(callback.program);
                out.opaque(&callback.netid);
                out.opaque(&callback.address);
                out.u32(callback.ident);
            }
            ClientKind::Sessions { minor, created, reclaimed } => {
                out.u32(1);
                out.u32(*minor);
                out.bool(created.is_some());
                if let Some((sequence, session)) = created {
                    out.u32(*sequence);
                    out.opaque_fixed(&session.0);
                }
                out.bool(*reclaimed);
            }
            ClientKind::Nlm(host) => {
                out.u32(2);
                out.opaque_fixed(&address_bytes(host.address));
                out.opaque_fixed(&address_bytes(host.server));
                out.u32(host.state.cast_unsigned());
            }
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let name = boxed(input, CLIENT_NAME_BYTES_MAX)?;
        let verifier = input.array()?;
        let principal = Principal::read(input)?;
        let instance = input.u32()?;
        let addresses = read_addresses(input)?;
        let kind = match input.u32()? {
            0 => {
                let confirm = input.array()?;
                let program = input.u32()?;
                let netid = boxed(input, ADDRESS_BYTES_MAX)?;
                let address = boxed(input, ADDRESS_BYTES_MAX)?;
                let callback = CallbackAddress { program, netid, address, ident: input.u32()? };
                ClientKind::V40 { confirm, callback }
            }
            1 => {
                let minor = input.u32()?;
                let created =
                    if input.bool()? { Some((input.u32()?, SessionId(input.array()?))) } else { None };
                ClientKind::Sessions { minor, created, reclaimed: input.bool()? }
            }
            2 => {
                let (address, server) = (address_of(input.array()?), address_of(input.array()?));
                ClientKind::Nlm(Host { address, server, state: input.u32()?.cast_signed() })
            }
            value => return Err(DecodeError::BadEnum { name: "kind of a client", value }),
        };
        Ok(ClientRecord { name, verifier, principal, instance, addresses, kind })
    }
}

fn read_addresses(input: &mut Decoder<'_>) -> Result<Box<[IpAddr]>, DecodeError> {
    let count = input.u32()?;
    if !usize::try_from(count).is_ok_and(|count| count <= CLIENT_ADDRESSES_MAX) {
        return Err(DecodeError::TooLong { length: count, limit: CLIENT_ADDRESSES_MAX });
    }
    (0..count).map(|_| input.array().map(address_of)).collect()
}

/// Converts an address to one of IPv6.
pub(crate) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn address_of(bytes: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

/// The status monitor of this server (NSM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MonitorRecord {
    /// Odd, and larger with each start.
    pub(crate) state: u32,
}

impl Record for MonitorRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        out.u32(self.state);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(MonitorRecord { state: input.u32()? })
    }
}

/// The limits of a session's channel (RFC 8881 section 18.36.1, `channel_attrs4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    /// The largest request, in bytes.
    pub(crate) request_bytes: u32,
    /// The largest reply, in bytes.
    pub(crate) reply_bytes: u32,
    /// The largest reply that is cached, in bytes.
    pub(crate) cached_bytes: u32,
    /// Operations of a COMPOUND.
    pub(crate) operations: u32,
    /// Slots: concurrent requests.
    pub(crate) slots: u32,
}

impl Channel {
    fn write(&self, out: &mut Encoder<'_>) {
        let Channel { request_bytes, reply_bytes, cached_bytes, operations, slots } = *self;
        [request_bytes, reply_bytes, cached_bytes, operations, slots]
            .iter()
            .for_each(|value| out.u32(*value));
    }

    fn read(input: &mut Decoder<'_>) -> Result<Channel, DecodeError> {
        Ok(Channel {
            request_bytes: input.u32()?,
            reply_bytes: input.u32()?,
            cached_bytes: input.u32()?,
            operations: input.u32()?,
            slots: input.u32()?,
        })
    }
}

/// The credential of callbacks (RFC 8881 section 18.36.1, `callback_sec_parms4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackSecurity {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS, as this user and group.
    Sys { uid: u32, gid: u32 },
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// The fore channel.
    pub(crate) fore: Channel,
    /// The backchannel.
    pub(crate) back: Channel,
    /// The flags that CREATE_SESSION granted (`csr_flags`).
    pub(crate) flags: u32,
    /// The RPC program of callbacks.
    pub(crate) program: u32,
    pub(crate) security: CallbackSecurity,
}

impl Record for SessionRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        self.fore.write(out);
        self.back.write(out);
        out.u32(self.flags);
        out.u32(self.program);
        match self.security {
            CallbackSecurity::None => out.u32(0),
            CallbackSecurity::Sys { uid, gid } => [1, uid, gid].iter().for_each(|value| out.u32(*value)),
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (fore, back) = (Channel::read(input)?, Channel::read(input)?);
        let (flags, program) = (input.u32()?, input.u32()?);
        let security = if input.bool()? {
            CallbackSecurity::Sys { uid: input.u32()?, gid: input.u32()? }
        } else {
            CallbackSecurity::None
        };
        Ok(SessionRecord { fore, back, flags, program, security })
    }
}

/// An owner's open of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenRecord<'a> {
    /// The open owner.
    pub(crate) owner: Cow<'a, [u8]>,
    /// The seqid of the stateid.
    pub(crate) seqid: u32,
    /// The modes in which it was opened, one bit each; see `share.rs`.
    pub(crate) modes: u16,
    /// Whether the owner was confirmed, or needs no confirmation.
    pub(crate) confirmed: bool,
    /// The principal of the owner; known only for NFSv4.0.
    pub(crate) principal: Option<Principal>,
}

impl<'a> OpenRecord<'a> {
    /// Returns the record of an owner's open.
    pub(crate) fn of(owner: &'a OpenOwner, seqid: u32, modes: Modes, confirmed: bool) -> OpenRecord<'a> {
        let principal = owner.principal();
        OpenRecord { owner: Cow::Borrowed(&owner.name), seqid, modes: modes.0, confirmed, principal }
    }

    /// Returns how many bytes it has at most: those of a record with a user.
    pub(crate) fn bytes_max(&self) -> usize {
        self.owner.len().next_multiple_of(4) + 8 * 4
    }
}

impl Record for OpenRecord<'_> {
    fn write(&self, out: &mut Encoder<'_>) {
        out.opaque(&self.owner);
        out.u32(self.seqid);
        out.u32(u32::from(self.modes));
        out.bool(self.confirmed);
        out.bool(self.principal.is_some());
        if let Some(principal) = self.principal {
            principal.write(out);
        }
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let owner = input.opaque(NAME_BYTES_MAX)?.to_vec().into();
        let (seqid, modes) = (input.u32()?, input.u32()?);
        let modes =
            u16::try_from(modes).map_err(|_| DecodeError::TooLong { length: modes, limit: 0xffff })?;
        let confirmed = input.bool()?;
        let principal = if input.bool()? { Some(Principal::read(input)?) } else { None };
        Ok(OpenRecord { owner, seqid, modes, confirmed, principal })
    }
}

/// The stateid of a lock owner for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockStateRecord {
    /// The lock owner.
    pub(crate) owner: Box<[u8]>,
    /// The open that the locks depend on.
    pub(crate) open: Other,
    /// The seqid of the stateid.
    pub(crate) seqid: u32,
}

impl Record for LockStateRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        out.opaque(&self.owner);
        out.opaque_fixed(&self.open.0);
        out.u32(self.seqid);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let owner = boxed(input, NAME_BYTES_MAX)?;
        Ok(LockStateRecord { owner, open: Other(input.array()?), seqid: input.u32()? })
    }
}

/// A locked range; its first byte is in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeRecord {
    /// Its last byte.
    pub(crate) last: u64,
    pub(crate) kind: LockKind,
}

impl Record for RangeRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        out.u64(self.last);
        out.bool(self.kind == LockKind::Write);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let last = input.u64()?;
        let kind = if input.bool()? { LockKind::Write } else { LockKind::Read };
        Ok(RangeRecord { last, kind })
    }
}

/// A delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelegationRecord {
    /// Whether it is a write delegation.
    pub(crate) write: bool,
    /// The seqid of the stateid.
    pub(crate) seqid: u32,
}

impl Record for DelegationRecord {
    fn write(&self, out: &mut Encoder<'_>) {
        out.bool(self.write);
        out.u32(self.seqid);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(DelegationRecord { write: input.bool()?, seqid: input.u32()? })
    }
}

/// A copy that continues and whose end its client awaits. Everything else about it is lost with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyRecord;

impl Record for CopyRecord {
    fn write(&self, _: &mut Encoder<'_>) {}

    fn read(_: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(CopyRecord)
    }
}

#[cfg(test)]
mod tests;
