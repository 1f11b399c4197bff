//! The lease object of a group: 4 KiB that every change replaces whole. `docs/format.md` has the layout.

use std::fmt;

use crate::limits::{ADDRESSES_BYTES_MAX, NAME_BYTES_MAX};
use crate::name::Name;

/// The size of a lease object, bytes.
pub const LEASE_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"hf-lease";
const VERSION: u32 = 1;
/// Where what the checksum covers begins: behind magic, version and checksum.
const CHECKED_FROM: usize = 16;
/// Where names and addresses begin.
const TEXT_FROM: usize = 48;
const _: () = assert!(TEXT_FROM + 2 * NAME_BYTES_MAX + ADDRESSES_BYTES_MAX <= LEASE_BYTES);

/// How often the lease of a group was taken. What an owner stores carries its epoch, and higher ones win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Before the first takeover.
    pub const NONE: Epoch = Epoch(0);

    /// Returns the next one.
    pub(crate) fn next(self) -> Epoch {
        Epoch(self.0.saturating_add(1))
    }
}

/// What a process that may hold leases is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    node: Name,
    instance: u64,
    addresses: String,
}

impl Identity {
    /// Returns the identity of a process on `node`. `instance` must differ between any two processes, so it is random.
    /// `addresses` is what the store calls the connections of the process, to refuse them after it has lost its lease.
    ///
    /// # Errors
    /// `addresses` has more than [`ADDRESSES_BYTES_MAX`] bytes.
    pub fn new(node: Name, instance: u64, addresses: &str) -> Result<Identity, String> {
        if addresses.len() > ADDRESSES_BYTES_MAX {
            return Err(format!(
                "the addresses take {} bytes: at most {ADDRESSES_BYTES_MAX}",
                addresses.len()
            ));
        }
        Ok(Identity { node, instance, addresses: addresses.to_owned() })
    }

    /// Returns the node that the process runs on.
    #[must_use]
    pub fn node(&self) -> &Name {
        &self.node
    }

    /// Returns the number that no other process has.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Returns what the store calls its connections.
    #[must_use]
    pub fn addresses(&self) -> &str {
        &self.addresses
    }
}

/// Who may take a lease, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Its owner uses it: others may take it once it was not renewed for [`WATCH`](crate::WATCH).
    Held,
    /// Nobody uses it: any node may take it at once.
    Released,
    /// Nobody uses it, and one node may take it at once. Others may do so if it is not taken for [`WATCH`](crate::WATCH).
    OfferedTo(Name),
}

/// What a lease object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// How often it was taken.
    pub epoch: Epoch,
    /// Counts its changes; wraps around.
    pub counter: u64,
    /// The last owner.
    pub owner: Identity,
    /// Who may take it.
    pub state: LeaseState,
}

/// Why bytes are no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// They are not [`LEASE_BYTES`], or do not begin as a lease does.
    NoLease,
    /// A later version of Holdfast wrote them.
    Version(u32),
    /// The checksum is not that of the bytes.
    Checksum,
    /// A field has a value that was never written.
    Field(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NoLease => write!(f, "the object is not a lease"),
            Damage::Version(version) => {
                write!(f, "the lease has version {version} of its format, and this program knows {VERSION}")
            }
            Damage::Checksum => write!(f, "the checksum of the lease is wrong"),
            Damage::Field(field) => write!(f, "the lease has an impossible {field}"),
        }
    }
}

impl std::error::Error for Damage {}

impl LeaseRecord {
    /// Returns the lease of a new group, which any node may take.
    #[must_use]
    pub fn unowned(creator: Identity) -> LeaseRecord {
        LeaseRecord { epoch: Epoch::NONE, counter: 0, owner: creator, state: LeaseState::Released }
    }

    /// Returns the record that releases this one for its owner, which has ended without doing so; none if `instance` does not
    /// hold it.
    #[must_use]
    pub fn released_for(&self, instance: u64) -> Option<LeaseRecord> {
        let is_held = self.state == LeaseState::Held && self.owner.instance == instance;
        is_held.then(|| self.changed_to(LeaseState::Released))
    }

    /// Whether the process `owner` took it, and took it last.
    pub(crate) fn is_of(&self, owner: &Identity) -> bool {
        self.owner.instance == owner.instance && self.owner.node == owner.node
    }

    /// Returns the record after its owner gives it a state, which renews it.
    pub(crate) fn changed_to(&self, state: LeaseState) -> LeaseRecord {
        LeaseRecord { counter: self.counter.wrapping_add(1), state, ..self.clone() }
    }

    /// Returns the record after `taker` takes it.
    pub(crate) fn taken_by(&self, taker: &Identity) -> LeaseRecord {
        LeaseRecord {
            epoch: self.epoch.next(),
            counter: self.counter.wrapping_add(1),
            owner: taker.clone(),
            state: LeaseState::Held,
        }
    }

    /// Returns the bytes of the object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (state, offered) = match &self.state {
            LeaseState::Held => (0, ""),
            LeaseState::Released => (1, ""),
            LeaseState::OfferedTo(node) => (2, node.as_str()),
        };
        let node = self.owner.node.as_str();
        let length = |text: &str| u8::try_from(text.len()).expect("names are short");
        let addresses = u16::try_from(self.owner.addresses.len()).expect("an identity has short ones");
        let mut bytes = Vec::with_capacity(LEASE_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.counter.to_be_bytes());
        bytes.extend(self.owner.instance.to_be_bytes());
        bytes.extend(self.epoch.0.to_be_bytes());
        bytes.extend([state, length(node), length(offered), 0]);
        bytes.extend(addresses.to_be_bytes());
        bytes.resize(TEXT_FROM, 0);
        bytes.extend([node, offered, &self.owner.addresses].concat().into_bytes());
        bytes.resize(LEASE_BYTES, 0);
        let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[CHECKED_FROM - 4..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads the bytes of the object.
    ///
    /// # Errors
    /// The bytes are not what [`LeaseRecord::encode`] returns for any record.
    pub fn decode(bytes: &[u8]) -> Result<LeaseRecord, Damage> {
        if bytes.len() != LEASE_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(Damage::NoLease);
        }
        let mut head = Fields(&bytes[MAGIC.len()..]);
        let (version, checksum) = (head.u32()?, head.u32()?);
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        if checksum != crc32c::crc32c(&bytes[CHECKED_FROM..]) {
            return Err(Damage::Checksum);
        }
        let (counter, instance, epoch) = (head.u64()?, head.u64()?, Epoch(head.u32()?));
        let [state, node, offered, _] = head.array()?;
        let [high, low] = head.array()?;
        let mut text = Fields(&bytes[TEXT_FROM..]);
        let node = Name::new(text.text(node.into())?).map_err(|_| Damage::Field("node"))?;
        let offered = text.text(offered.into())?;
        let state = match (state, offered) {
            (0, "") => LeaseState::Held,
            (1, "") => LeaseState::Released,
            (2, node) => LeaseState::OfferedTo(Name::new(node).map_err(|_| Damage::Field("state"))?),
            _ => return Err(Damage::Field("state")),
        };
        let addresses = text.text(u16::from_be_bytes([high, low]).into())?;
        let owner = Identity::new(node, instance, addresses).map_err(|_| Damage::Field("addresses"))?;
        let record = LeaseRecord { epoch, counter, owner, state };
        if epoch.0 == u32::MAX {
            return Err(Damage::Field("epoch"));
        }
        if record.encode() != bytes {
            return Err(Damage::Field("padding"));
        }
        Ok(record)
    }
}

/// The rest of the bytes that fields are read from.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Damage::NoLease)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Damage> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn text(&mut self, length: usize) -> Result<&'b str, Damage> {
        let (text, rest) = self.0.split_at_checked(length).ok_or(Damage::Field("length"))?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Damage::Field("text"))
    }
}

#[cfg(test)]
mod tests;
