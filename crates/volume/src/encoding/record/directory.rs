//! Names. Each is stored twice: by name for LOOKUP and by cookie for READDIR.

use std::sync::Arc;

use super::inode::{type_byte, type_from_byte};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Epoch, Ino};
use crate::encoding::codec::{Malformed, Reader, Write};

/// The object that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// Epoch of birth.
    pub epoch: Epoch,
    /// The object.
    pub ino: Ino,
    /// Its place in READDIR's order.
    pub cookie: Cookie,
    /// Type of the object.
    pub file_type: FileType,
}

impl NameRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(21);
        out.u32(self.epoch.0);
        out.u64(self.ino.0);
        out.u64(self.cookie.0);
        out.u8(type_byte(self.file_type));
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<NameRecord, Malformed> {
        let mut r = Reader::new(bytes, "name record");
        let (epoch, ino, cookie) = (Epoch(r.u32()?), Ino(r.u64()?), Cookie(r.u64()?));
        let file_type = type_from_byte(r.u8()?).ok_or(r.malformed())?;
        r.finish()?;
        Ok(NameRecord { epoch, ino, cookie, file_type })
    }
}

/// A name in READDIR's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieRecord {
    /// Epoch of birth.
    pub epoch: Epoch,
    /// The object.
    pub ino: Ino,
    /// The name.
    pub name: Arc<[u8]>,
}

impl CookieRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.name.len());
        out.u32(self.epoch.0);
        out.u64(self.ino.0);
        out.bytes(&self.name);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<CookieRecord, Malformed> {
        let mut r = Reader::new(bytes, "cookie record");
        Ok(CookieRecord { epoch: Epoch(r.u32()?), ino: Ino(r.u64()?), name: r.rest().into() })
    }
}
