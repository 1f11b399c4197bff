//! READ, WRITE and COMMIT.

use super::{NfsStat4, StableHow4, Stateid4, Verifier4};
use crate::limits::DATA_BYTES_MAX;
use crate::payload::PayloadEncoder;
use crate::xdr::{Payload, block, length_u32};

xdr! {
    /// The arguments of READ (RFC 8881 section 18.22).
    pub struct ReadArgs {
        /// The stateid to read with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The most bytes to read.
        pub count: u32,
    }

    /// READ succeeded.
    pub struct ReadOk<'a> {
        /// Whether the data reaches the end of the file.
        pub eof: bool,
        opaque data max DATA_BYTES_MAX,
    }
}

/// The bytes before the data of READ: status, eof, length.
const READ_HEADER_BYTES: usize = 4 + 4 + 4;

/// Builds a successful result of READ in place.
pub type ReadEncoder<'b> = PayloadEncoder<'b, READ_HEADER_BYTES>;

fn read_header(eof: bool, count: usize) -> [u8; READ_HEADER_BYTES] {
    block(|fields| {
        fields.u32(NfsStat4::Ok.code());
        fields.u32(u32::from(eof));
        fields.u32(length_u32(count));
    })
}

impl ReadEncoder<'_> {
    /// Completes the result.
    pub fn finish(self, eof: bool) {
        self.complete(|count| read_header(eof, count));
    }

    /// Completes a result whose data, `count` bytes, is not in the buffer but is sent right after it.
    /// No result of another operation may follow.
    ///
    /// # Panics
    /// If data was appended, or if it needs padding.
    pub fn finish_without_data(self, eof: bool, count: usize) {
        self.complete_without_data(count, read_header(eof, count));
    }
}

xdr! {
    /// The arguments of WRITE (RFC 8881 section 18.32).
    pub struct WriteArgs<'a> {
        /// The stateid to write with.
        pub stateid: Stateid4,
        /// The offset in bytes.
        pub offset: u64,
        /// The stability required before the reply.
        pub stable: StableHow4,
        /// The data.
        pub data: Payload<'a>,
    }

    /// WRITE succeeded.
    pub struct WriteOk {
        /// The number of bytes written.
        pub count: u32,
        /// The stability reached, at least the one requested.
        pub committed: StableHow4,
        /// The write verifier at the time the data was accepted.
        pub writeverf: Verifier4,
    }

    /// The arguments of COMMIT (RFC 8881 section 18.3).
    pub struct CommitArgs {
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; 0 means everything from `offset` on.
        pub count: u32,
    }

    /// COMMIT succeeded.
    pub struct CommitOk {
        /// The write verifier, to be compared with those of the writes.
        pub writeverf: Verifier4,
    }
}
