//! The duplicate request cache: a retransmitted call gets the first reply again (rule 11 of `docs/design.md`).
//!
//! A non-idempotent call has a [`RequestKey`]. The engine journals, together with the effect of the call, the key and the
//! *result body*: what follows the accepted RPC header, from the status on. A duplicate gets a header of its own and that
//! body. Failures changed nothing and are remembered in memory only.
//!
//! While a thread executes a call, its key is in [`crate::context::in_progress::InProgress`]; a duplicate on another thread must
//! be run again, and then finds the reply. The key enters the set *before* the reply is looked up and leaves it after the
//! reply was recorded, so no duplicate is executed between the two.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use siphasher::sip::SipHasher24;
use volume::request::{self, Answer, Durability, Error, Failure, Request, RequestKey};
use volume::volume::Volume;
use wire::limits::GROUPS_MAX;
use wire::nfs3::Failed;
use wire::rpc::{AUTH_NONE, AUTH_SYS, CallHeader, Credential};
use wire::xdr::{Encode, Encoder};

use crate::call::{Call, Handled, Object, Stop};
use crate::connection::{is_privileged, origin};
use crate::status;

/// The purpose of the key of checksums.
const PURPOSE: &[u8; 16] = b"request checksum";

/// Bytes of a key: client address 16, xid, program, version and procedure 4 each, checksums 8.
const KEY_BYTES: usize = 40;

const _: () = assert!(KEY_BYTES <= volume::limits::REQUEST_KEY_BYTES_MAX);

/// Identifies a call. The address comes first: the engine shares remembered replies among clients by it.
fn request_key(
    checksums: &Checksums,
    peer: SocketAddr,
    header: &CallHeader<'_>,
    arguments: &[u8],
) -> RequestKey {
    let mut key = Vec::with_capacity(KEY_BYTES);
    let client = peer.ip().to_canonical();
    key.extend_from_slice(&mapped(client));
    for word in [header.xid, header.program, header.version, header.procedure] {
        key.extend_from_slice(&word.to_be_bytes());
    }
    let sum = checksums.of(arguments) ^ checksums.of_credential(&header.credential) ^ of_port(peer);
    key.extend_from_slice(&sum.to_be_bytes());
    RequestKey::new(key).from_origin(mapped(origin(client)))
}

/// Distinguishes calls from unprivileged ports: another export, which squashes, may apply to them.
pub(crate) fn of_port(peer: SocketAddr) -> u64 {
    u64::from(!is_privileged(peer))
}

/// Returns the sixteen bytes of an address, with IPv4 mapped into IPv6.
pub(crate) fn mapped(client: IpAddr) -> [u8; 16] {
    match client {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Makes the checksums in the keys of requests. They are stored in journals, so they never change. Their key is derived from the
/// secret of a volume: a user of the same host could otherwise search, without asking the server, for arguments with the
/// checksum of another one's call, and be given the reply to that.
pub(crate) struct Checksums(SipHasher24);

impl Checksums {
    /// Returns those for requests that change a volume.
    pub(crate) fn new(volume: &Volume) -> Checksums {
        Checksums::with_key(&volume.subkey(PURPOSE))
    }

    /// Returns those with this key.
    pub(crate) fn with_key(key: &[u8; 16]) -> Checksums {
        Checksums(SipHasher24::new_with_key(key))
    }

    /// Distinguishes calls that reuse an xid.
    pub(crate) fn of(&self, arguments: &[u8]) -> u64 {
        self.0.hash(arguments)
    }

    /// Distinguishes the principals of calls by flavor, user, group and supplementary groups. A reply is remembered for one
    /// principal, and is never given to another.
    pub(crate) fn of_credential(&self, credential: &Credential<'_>) -> u64 {
        match credential {
            Credential::Sys(user) => {
                let words = [AUTH_SYS, user.uid, user.gid];
                let mut bytes = [0; 4 * (3 + GROUPS_MAX)];
                let mut length = 0;
                for (to, word) in bytes.chunks_exact_mut(4).zip(words.iter().chain(user.groups.as_slice())) {
                    to.copy_from_slice(&word.to_be_bytes());
                    length += 4;
                }
                self.of(bytes.get(..length).unwrap_or(&bytes))
            }
            _ => self.of(&AUTH_NONE.to_be_bytes()),
        }
    }
}

/// Encodes the reply for the engine's journal. (Named so because XDR has an `Encode` too.)
pub(crate) type ToJournal<'e, T> = request::Encode<'e, T>;

/// A non-idempotent operation, for [`once`].
pub(crate) struct Once<R, S, F> {
    /// Calls the engine.
    pub(crate) run: R,
    /// Writes the whole result of a success.
    pub(crate) succeed: S,
    /// Makes the resfail body, and adds what its attributes wait for.
    pub(crate) fail: F,
}

/// Executes an operation on `object` at most once, or repeats the reply to it. Read-only exports refuse it.
pub(crate) fn once<'a, T, B: Encode>(
    call: &Call<'a>,
    object: &Object<'a>,
    out: &mut Encoder<'_>,
    operation: Once<
        impl FnOnce(&Request<'_>, ToJournal<'_, T>) -> Answer<T>,
        impl Fn(&T, &mut Encoder<'_>),
        impl FnOnce(&mut Durability) -> Result<B, Stop>,
    >,
) -> Handled<'a> {
    let Once { run, succeed, fail } = operation;
    if object.export.read_only {
        let (status, mut after) = (status::nfs3(Error::ReadOnly)?, Durability::NOW);
        Failed { status, body: fail(&mut after)? }.encode(out);
        return Ok(object.after(after));
    }
    let checksums = Checksums::new(object.volume);
    let key = request_key(&checksums, call.connection.peer, call.header, call.arguments.rest());
    let _entered = call.service.shared.in_progress.enter(&key).ok_or(Stop::Later)?;
    if let Some((answer, after)) = object.volume.lookup_request(&key) {
        out.raw(&answer);
        return Ok(object.after(after));
    }
    let mut journaled: Option<Arc<[u8]>> = None;
    let answer = run(&object.request_once(&key), &mut |value| {
        let answer = encoded(|out| succeed(value, out));
        journaled = Some(Arc::clone(&answer));
        answer.into()
    });
    match answer {
        Ok(promised) => {
            match journaled {
                Some(answer) => out.raw(&answer),
                // It succeeded without a change, so without a journal entry. A retransmission must not change anything
                // either, whatever happened since.
                None => {
                    let answer = encoded(|out| succeed(&promised.value, out));
                    out.raw(&answer);
                    object.volume.remember_unchanged(&key, answer, promised.after, call.now.wall);
                }
            }
            Ok(object.after(promised.after))
        }
        Err(Failure { error, mut after }) => {
            let failed = Failed { status: status::nfs3(error)?, body: fail(&mut after)? };
            let answer = encoded(|out| failed.encode(out));
            out.raw(&answer);
            object.volume.remember_unchanged(&key, answer, after, call.now.wall);
            Ok(object.after(after))
        }
    }
}

/// Encodes a result to be remembered.
pub(crate) fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(256);
    write(&mut Encoder::new(&mut bytes));
    bytes.into()
}

#[cfg(test)]
mod tests {
    use wire::rpc::{AuthSys, Groups, OpaqueAuth};

    use super::*;

    fn user(uid: u32, gid: u32, groups: &'static [u32]) -> Credential<'static> {
        let groups = Groups::new(groups).unwrap();
        Credential::Sys(AuthSys { stamp: uid, machine_name: b"client", uid, gid, groups })
    }

    fn header(xid: u32, procedure: u32) -> CallHeader<'static> {
        CallHeader {
            xid,
            program: 100_003,
            version: 3,
            procedure,
            credential: Credential::None,
            verifier: OpaqueAuth::NONE,
        }
    }

    fn checksums() -> Checksums {
        Checksums::with_key(&[0; 16])
    }

    fn key(client: &str, xid: u32, procedure: u32, arguments: &[u8]) -> RequestKey {
        request_key(
            &checksums(),
            SocketAddr::new(client.parse().unwrap(), 700),
            &header(xid, procedure),
            arguments,
        )
    }

    #[test]
    fn the_format_of_keys_never_changes() {
        let mut expected = vec![0; 10];
        expected.extend_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        expected.extend_from_slice(&[0, 0, 0, 5, 0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 12]);
        // SipHash-2-4 of the empty input with a zero key, and of the credential.
        let sum = 0x1e92_4b9d_7377_00d7 ^ checksums().of(&[0, 0, 0, 0]);
        expected.extend_from_slice(&sum.to_be_bytes());
        assert_eq!(key("192.0.2.1", 5, 12, b"").bytes(), expected.as_slice());
        assert_eq!(key("::ffff:192.0.2.1", 5, 12, b""), key("192.0.2.1", 5, 12, b""));
    }

    #[test]
    fn different_calls_have_different_keys() {
        let one = key("192.0.2.1", 5, 12, b"name");
        assert_eq!(one, key("192.0.2.1", 5, 12, b"name"));
        assert_ne!(one, key("192.0.2.2", 5, 12, b"name"));
        assert_ne!(one, key("192.0.2.1", 6, 12, b"name"));
        assert_ne!(one, key("192.0.2.1", 5, 13, b"name"));
        assert_ne!(one, key("192.0.2.1", 5, 12, b"nama"));
        assert_ne!(one, key("192.0.2.1", 5, 12, b"name\0"));
    }

    /// Otherwise a client could search for colliding keys without asking the server.
    #[test]
    fn a_call_from_another_kind_of_port_has_another_key() {
        let key = |peer: &str| request_key(&checksums(), peer.parse().unwrap(), &header(5, 12), b"name");
        assert_eq!(key("192.0.2.1:700"), key("192.0.2.1:1023"));
        assert_ne!(key("192.0.2.1:700"), key("192.0.2.1:1024"));
    }

    #[test]
    fn each_secret_makes_keys_of_its_own() {
        let client = "192.0.2.1:700".parse().unwrap();
        let [one, other] = [[0; 16], [1; 16]]
            .map(|key| request_key(&Checksums::with_key(&key), client, &header(5, 12), b"name"));
        assert_ne!(one, other);
    }

    #[test]
    fn calls_of_different_principals_have_different_keys() {
        let key = |credential| {
            let header = CallHeader { credential, ..header(5, 12) };
            request_key(&checksums(), "192.0.2.1:700".parse().unwrap(), &header, b"name")
        };
        let all = [
            Credential::None,
            user(0, 0, &[]),
            user(1, 0, &[]),
            user(0, 1, &[]),
            user(0, 0, &[0]),
            user(0, 0, &[0, 1]),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(key(*one) == key(*other), at == other_at, "{one:?} and {other:?}");
            }
        }
        let groups = Groups::default();
        let later = Credential::Sys(AuthSys { stamp: 9, machine_name: b"renamed", uid: 0, gid: 0, groups });
        assert_eq!(key(later), key(user(0, 0, &[])), "a retransmission has another stamp");
    }
}
