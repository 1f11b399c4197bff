//! Makes identifiers that nobody can guess, and reads them again.
//!
//! An identifier is a plain number, such as "stateid 7 of this client", under a permutation that a secret key selects:
//! without the key it cannot be told from random bits, whatever other identifiers are known. Nothing is stored for it, no
//! two are equal, and the server can read which client an identifier belonged to even after it forgot the identifier.
//! The key is derived from the secret of file handles, so identifiers survive restarts.
//!
//! The permutation is a balanced Feistel network over SipHash-2-4. With six rounds, telling it from a random permutation
//! takes about as many identifiers as there are (Patarin, "Security of Random Feistel Schemes with 5 or more Rounds").
//!
//! Each OPEN makes a stateid, so these have a network of their own with three rounds, the first of which is the same for all
//! stateids of a client ([`StateidMask`]). Forging one of another client takes 2^64 guesses, even if its id is known:
//! `docs/decisions/2026-11-25-stateids-of-three-rounds.md`.
//!
//! Looking an identifier up in a hash table does not reveal how much of a guess is right: any other bit leads to another
//! bucket.

use std::fmt;

use siphasher::sip::SipHasher24;
use volume::volume::Volume;

use super::{ClientId, Other, SessionId};

/// The purpose of the key, for [`Volume::subkey`].
const PURPOSE: &[u8; 16] = b"ids of clients 1";

/// Rounds of the Feistel network.
const ROUNDS: u8 = 6;

/// What an identifier is for, in the bits above the number of a round. Equal numbers of different kinds look unrelated.
#[derive(Clone, Copy)]
enum Kind {
    Client = 0x10,
    Session = 0x20,
    /// Stateids that were made before format 2 of stateids; opens of then may still have them.
    StateOfFormat1 = 0x30,
    Confirm = 0x40,
    State = 0x50,
}

/// What hides the numbers of a client's stateids, the first round of their network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateidMask(u32);

/// A hash with a secret key.
#[derive(Clone, Copy)]
struct IdKey(SipHasher24);

impl IdKey {
    fn new(key: &[u8; 16]) -> IdKey {
        IdKey(SipHasher24::new_with_key(key))
    }

    fn seal<const N: usize>(self, kind: Kind, bytes: [u8; N]) -> [u8; N] {
        self.permute(kind, bytes, 0..ROUNDS)
    }

    fn open<const N: usize>(self, kind: Kind, bytes: [u8; N]) -> [u8; N] {
        self.permute(kind, bytes, (0..ROUNDS).rev())
    }

    /// Permutes the halves of an identifier: each round changes one by a hash of the other. The same rounds in reverse undo it.
    #[inline]
    fn permute<const N: usize>(
        self,
        kind: Kind,
        bytes: [u8; N],
        rounds: impl Iterator<Item = u8>,
    ) -> [u8; N] {
        let number = |half: &[u8]| half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (left, right) = bytes.split_at(N / 2);
        let (mut left, mut right) = (number(left), number(right));
        for round in rounds {
            let (from, to) = if round.is_multiple_of(2) { (left, &mut right) } else { (right, &mut left) };
            *to ^= self.mask::<N>(kind, round, from);
        }
        let mut permuted = [0; N];
        let fill = |half: &mut [u8], number: u64| {
            half.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(byte, value)| *byte = value);
        };
        let (first, second) = permuted.split_at_mut(N / 2);
        fill(first, left);
        fill(second, right);
        permuted
    }

    /// Returns what one half of `N / 2` bytes contributes to the other.
    #[inline]
    fn mask<const N: usize>(self, kind: Kind, round: u8, half: u64) -> u64 {
        // Half of a stateid and one byte more are a single block of the hash.
        let message = u128::from(half) << 8 | u128::from(kind as u8 | round);
        let message = (message << (120 - 4 * N)).to_be_bytes();
        let hash = self.0.hash(message.get(..=N / 2).expect("no half is longer than 8 bytes"));
        hash >> (64 - 4 * N)
    }
}

/// The three rounds of stateids: a number under the hash of its client, the client under the hash of that, and that under the
/// hash of the result. The same rounds in reverse undo it.
impl IdKey {
    fn stateid_mask(self, client: ClientId) -> StateidMask {
        StateidMask(self.short_mask(0, client.0))
    }

    #[inline]
    fn seal_stateid(self, client: ClientId, mask: StateidMask, number: u32) -> [u8; 12] {
        let masked = number ^ mask.0;
        let left = client.0 ^ self.long_mask(masked);
        let right = masked ^ self.short_mask(2, left);
        let mut other = [0; 12];
        let (first, second) = other.split_at_mut(8);
        first.copy_from_slice(&left.to_be_bytes());
        second.copy_from_slice(&right.to_be_bytes());
        other
    }

    fn open_stateid(self, other: [u8; 12]) -> (ClientId, u32) {
        let (left, right) = client_and_number(other);
        let masked = right ^ self.short_mask(2, left.0);
        let client = ClientId(left.0 ^ self.long_mask(masked));
        (client, masked ^ self.stateid_mask(client).0)
    }

    /// Returns what the right half of a stateid, four bytes, contributes to the left one.
    fn long_mask(self, right: u32) -> u64 {
        let [a, b, c, d] = right.to_be_bytes();
        self.0.hash(&[a, b, c, d, Kind::State as u8 | 1])
    }

    /// Returns what the left half of a stateid, eight bytes, contributes to the right one.
    fn short_mask(self, round: u8, left: u64) -> u32 {
        let [a, b, c, d, e, f, g, h] = left.to_be_bytes();
        let hash = self.0.hash(&[a, b, c, d, e, f, g, h, Kind::State as u8 | round]);
        u32::try_from(hash >> 32).expect("the upper half of 64 bits")
    }
}

/// Returns the two halves of a stateid: when plain, its client and its number.
fn client_and_number(other: [u8; 12]) -> (ClientId, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = other;
    (ClientId(u64::from_be_bytes([a, b, c, d, e, f, g, h])), u32::from_be_bytes([i, j, k, l]))
}

/// The key of the home volume, which this process uses, and the keys of the other volumes: an earlier process that served
/// other volumes had another home.
#[derive(Clone)]
pub(crate) struct IdKeys {
    own: IdKey,
    others: Box<[IdKey]>,
}

/// Does not show the keys.
impl fmt::Debug for IdKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdKeys").finish_non_exhaustive()
    }
}

impl IdKeys {
    /// Derives the keys of these volumes. The one with the lowest id is the home.
    pub(crate) fn of<'v>(volumes: impl Iterator<Item = &'v Volume>) -> IdKeys {
        let mut volumes: Vec<&Volume> = volumes.collect();
        volumes.sort_unstable_by_key(|volume| volume.id());
        let keys: Vec<[u8; 16]> = volumes.iter().map(|volume| volume.subkey(PURPOSE)).collect();
        match keys.split_first() {
            Some((own, others)) => IdKeys::new(*own, others),
            // Without volumes, no client can be confirmed.
            None => IdKeys::new([0; 16], &[]),
        }
    }

    /// Returns keys; new identifiers are made with `own`.
    pub(crate) fn new(own: [u8; 16], others: &[[u8; 16]]) -> IdKeys {
        IdKeys { own: IdKey::new(&own), others: others.iter().map(IdKey::new).collect() }
    }

    fn all(&self) -> impl Iterator<Item = IdKey> {
        std::iter::once(self.own).chain(self.others.iter().copied())
    }

    /// Returns the id of client `number` of `instance`.
    pub(crate) fn client(&self, instance: u32, number: u32) -> ClientId {
        let plain = u64::from(instance) << 32 | u64::from(number);
        ClientId(u64::from_be_bytes(self.own.seal(Kind::Client, plain.to_be_bytes())))
    }

    /// Returns the instances that may have handed out a client id, one for each key. Wrong keys yield random ones.
    pub(crate) fn instances(&self, id: ClientId) -> impl Iterator<Item = u32> {
        self.all().map(move |key| {
            let plain = u64::from_be_bytes(key.open(Kind::Client, id.0.to_be_bytes()));
            u32::try_from(plain >> 32).expect("the upper half of 64 bits")
        })
    }

    /// Returns the id of session `number` that `instance` created for `client`.
    pub(crate) fn session(&self, client: ClientId, instance: u32, number: u32) -> SessionId {
        let created = u128::from(instance) << 32 | u128::from(number);
        let plain = u128::from(client.0) << 64 | created;
        SessionId(self.own.seal(Kind::Session, plain.to_be_bytes()))
    }

    /// Returns the clients that a session may belong to, with the instance that created it, one for each key. Wrong
    /// keys yield random clients, which do not exist.
    pub(crate) fn clients_of_session(&self, id: SessionId) -> impl Iterator<Item = (ClientId, u32)> {
        self.all().map(move |key| {
            let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = key.open(Kind::Session, id.0);
            let client = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            (ClientId(client), u32::from_be_bytes([i, j, k, l]))
        })
    }

    /// Returns what hides the numbers of the stateids of `client`.
    pub(crate) fn stateid_mask(&self, client: ClientId) -> StateidMask {
        self.own.stateid_mask(client)
    }

    /// Returns stateid `number` of `client`, whose mask this is.
    pub(crate) fn other(&self, client: ClientId, mask: StateidMask, number: u32) -> Other {
        Other(self.own.seal_stateid(client, mask, number))
    }

    /// Returns the clients that a stateid may belong to, with its number, one for each key and format. Wrong ones yield
    /// random clients, which do not exist.
    pub(crate) fn clients_of_other(&self, other: Other) -> impl Iterator<Item = (ClientId, u32)> {
        let format_1 = move |key: IdKey| client_and_number(key.open(Kind::StateOfFormat1, other.0));
        self.all().map(move |key| key.open_stateid(other.0)).chain(self.all().map(format_1))
    }

    /// Returns verifier `number` of `instance` for SETCLIENTID_CONFIRM.
    pub(crate) fn confirm(&self, instance: u32, number: u32) -> [u8; 8] {
        let plain = u64::from(instance) << 32 | u64::from(number);
        self.own.seal(Kind::Confirm, plain.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    #[test]
    fn identifiers_name_their_client_to_holders_of_the_key() {
        let keys = IdKeys::new(KEY, &[[8; 16]]);
        let client = keys.client(0x6543_2100, 7);
        assert_eq!(keys.instances(client).next(), Some(0x6543_2100));
        assert_eq!(keys.clients_of_session(keys.session(client, 5, 6)).next(), Some((client, 5)));
        let other = keys.other(client, keys.stateid_mask(client), 9);
        assert_eq!(keys.clients_of_other(other).next(), Some((client, 9)));
        let moved = IdKeys::new([8; 16], &[KEY]);
        assert_eq!(
            moved.clients_of_other(other).nth(1),
            Some((client, 9)),
            "the home volume was another one"
        );
        assert_ne!(moved.clients_of_other(other).next(), Some((client, 9)));
    }

    /// The bits in which neighbours differ; half of them is what chance gives.
    fn distance(one: &[u8], other: &[u8]) -> u32 {
        one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
    }

    #[test]
    fn neighbours_look_unrelated() {
        let keys = IdKeys::new(KEY, &[]);
        let (mut clients, mut sessions, mut others) = (0, 0, 0);
        for number in 0..1000 {
            let [one, two] = [number, number + 1].map(|number| keys.client(1, number));
            clients += distance(&one.0.to_be_bytes(), &two.0.to_be_bytes());
            let [one, two] = [number, number + 1].map(|number| keys.session(one, 1, number));
            sessions += distance(&one.0, &two.0);
            let client = keys.client(1, 1);
            let mask = keys.stateid_mask(client);
            let [one, two] = [number, number + 1].map(|number| keys.other(client, mask, number));
            others += distance(&one.0, &two.0);
        }
        for (changed, bits) in [(clients, 64), (sessions, 128), (others, 96)] {
            let share = f64::from(changed) / f64::from(bits * 1000);
            assert!((0.48..0.52).contains(&share), "{share} of {bits} bits");
        }
        assert_ne!(IdKeys::new([8; 16], &[]).client(1, 1), keys.client(1, 1), "without the key");
        assert_ne!(keys.client(1, 1).0.to_be_bytes(), keys.confirm(1, 1), "kinds differ");
    }

    /// Volumes of earlier versions must be readable.
    #[test]
    fn the_format_of_identifiers_never_changes() {
        let keys = IdKeys::new(std::array::from_fn(|at| u8::try_from(at).unwrap()), &[]);
        let client = keys.client(0x6500_0000, 1);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&client.0.to_be_bytes()), "c112edb6d388561d");
        assert_eq!(hex(&keys.session(client, 0x6500_0000, 2).0), "717ca515f5973f4c5bce82ffb8f5cc85");
        assert_eq!(hex(&keys.other(client, keys.stateid_mask(client), 3).0), "c9f61441c5c328ab2eccb68d");
    }

    #[test]
    fn stateids_of_format_1_name_their_client() {
        let keys = IdKeys::new(std::array::from_fn(|at| u8::try_from(at).unwrap()), &[KEY]);
        let other = Other(*b"\xf9\x64\x84\x17\x32\x10\x15\xe2\xb6\x84\x3a\xc7");
        let named: Vec<_> = keys.clients_of_other(other).collect();
        assert_eq!(named.len(), 4, "two keys, two formats");
        assert!(named.contains(&(keys.client(0x6500_0000, 1), 3)), "{named:?}");
    }

    /// Of all stateids that were handed out, no two are equal, whatever their client; and each names its own.
    #[test]
    fn stateids_are_a_permutation() {
        let keys = IdKeys::new(KEY, &[]);
        let mut made = std::collections::BTreeSet::new();
        for client in (0..64).map(|number| keys.client(1, number)) {
            let mask = keys.stateid_mask(client);
            for number in (0..256).chain([u32::MAX]) {
                let other = keys.other(client, mask, number);
                assert!(made.insert(other), "{number} of {client:?}");
                assert_eq!(keys.clients_of_other(other).next(), Some((client, number)));
            }
        }
    }
}
