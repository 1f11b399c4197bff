//! What a call costs.

use crate::limits::Dimension;

/// What a call does, which decides the limits that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It reads data of files.
    Read,
    /// It writes data of files.
    Write,
    /// Anything else.
    Metadata,
}

impl Class {
    /// The dimensions that calls of this class are charged in.
    pub(crate) const fn dimensions(self) -> &'static [Dimension] {
        match self {
            Class::Read => {
                &[Dimension::ReadBytes, Dimension::TotalBytes, Dimension::ReadOps, Dimension::TotalOps]
            }
            Class::Write => {
                &[Dimension::WriteBytes, Dimension::TotalBytes, Dimension::WriteOps, Dimension::TotalOps]
            }
            Class::Metadata => &[Dimension::MetadataOps, Dimension::TotalOps],
        }
    }
}

/// What a call costs: one operation, and its bytes of file data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// What it does.
    pub class: Class,
    /// Bytes of file data. They do not count if the class is [`Class::Metadata`].
    pub bytes: u32,
    /// Whether the call is never held: it is charged at once, and later calls wait for it. So are COMMIT, RENEW, CLOSE, LOCKU
    /// and others without which a client cannot make progress, or loses its lease.
    pub is_debt_only: bool,
}

impl Cost {
    /// The cost of a READ that asks for this number of bytes.
    pub const fn read(bytes: u32) -> Cost {
        Cost { class: Class::Read, bytes, is_debt_only: false }
    }

    /// The cost of a WRITE of this number of bytes.
    pub const fn write(bytes: u32) -> Cost {
        Cost { class: Class::Write, bytes, is_debt_only: false }
    }

    /// The cost of an operation on metadata.
    pub const fn metadata() -> Cost {
        Cost { class: Class::Metadata, bytes: 0, is_debt_only: false }
    }

    /// Returns the same cost for a call that is charged but never held.
    pub const fn debt_only(self) -> Cost {
        Cost { is_debt_only: true, ..self }
    }

    /// Returns what is charged in a dimension that applies.
    pub(crate) const fn units(self, dimension: Dimension) -> u32 {
        if dimension.is_bytes() { self.bytes } else { 1 }
    }
}
