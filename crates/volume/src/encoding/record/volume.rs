//! The record about a volume of a pool.

use crate::api::ids::{Ino, VolumeId};
use crate::encoding::codec::{Malformed, Reader, Write};
use crate::limits::INTERNAL_NAME;

/// A volume, as the pool's table of volumes has it.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its identity.
    pub id: VolumeId,
    /// Key of its handles.
    pub handle_secret: [u8; 16],
    /// Next inode number, as of the last checkpoint.
    pub next_ino: Ino,
    /// Most bytes that its files may use; `None` for as many as the pool has.
    pub size: Option<u64>,
    /// Whether it was deleted, and its records are still to be removed.
    pub is_deleted: bool,
    /// Its name, unique in the pool.
    pub name: String,
}

impl VolumeRecord {
    /// Whether it is one of users: others are kept by the server for itself.
    pub fn is_of_users(&self) -> bool {
        !self.name.starts_with(INTERNAL_NAME)
    }
}

/// Leaves the secret out.
impl std::fmt::Debug for VolumeRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let VolumeRecord { id, next_ino, size, is_deleted, name, .. } = self;
        write!(f, "{name:?} id {id} next inode {next_ino} size {size:?} deleted {is_deleted}")
    }
}

/// Stands for no limit of the size.
const UNLIMITED: u64 = u64::MAX;

impl VolumeRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40 + self.name.len());
        out.u64(self.id.0);
        out.bytes(&self.handle_secret);
        out.u64(self.next_ino.0);
        out.u64(self.size.unwrap_or(UNLIMITED));
        out.u8(u8::from(self.is_deleted));
        out.bytes(self.name.as_bytes());
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<VolumeRecord, Malformed> {
        let mut r = Reader::new(bytes, "volume record");
        let (id, handle_secret, next_ino, size) = (r.u64()?, r.array()?, r.u64()?, r.u64()?);
        let is_deleted = match r.u8()? {
            0 => false,
            1 => true,
            _ => return Err(r.malformed()),
        };
        let name = std::str::from_utf8(r.rest()).map_err(|_| r.malformed())?;
        Ok(VolumeRecord {
            id: VolumeId(id),
            handle_secret,
            next_ino: Ino(next_ino),
            size: (size != UNLIMITED).then_some(size),
            is_deleted,
            name: name.to_owned(),
        })
    }
}
