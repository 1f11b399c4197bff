//! Names. Each is stored twice: by name for LOOKUP and by cookie for READDIR.

use std::sync::Arc;

use super::inode::{type_byte, type_from_byte};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino};
use crate::encoding::codec::{Malformed, Reader, Write};

/// The object that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRecord {
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
        let mut out = Vec::with_capacity(17);
        out.u64(self.ino.0);
        out.u64(self.cookie.0);
        out.u8(type_byte(self.file_type));
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<NameRecord, Malformed> {
        let mut r = Reader::new(bytes, "name record");
        let (ino, cookie) = (Ino(r.u64()?), Cookie(r.u64()?));
        let file_type = type_from_byte(r.u8()?).ok_or(r.malformed())?;
        r.finish()?;
        Ok(NameRecord { ino, cookie, file_type })
    }
}

/// A name in READDIR's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieRecord {
    /// The object.
    pub ino: Ino,
    /// The name.
    pub name: Arc<[u8]>,
}

impl CookieRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.name.len());
        out.u64(self.ino.0);
        out.bytes(&self.name);
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<CookieRecord, Malformed> {
        let mut r = Reader::new(bytes, "cookie record");
        Ok(CookieRecord { ino: Ino(r.u64()?), name: r.rest().into() })
    }
}
