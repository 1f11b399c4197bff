//! READ, WRITE and COMMIT (RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21).

use super::{Fattr3, FileHandle3, NfsStat3, PostOpAttr, Res3, WccData};
use crate::limits::{DATA_BYTES_MAX, VERIFIER_BYTES};
use crate::payload::PayloadEncoder;
use crate::xdr::{Payload, block, length_u32};

xdr! {
    /// The arguments of READ (RFC 1813 section 3.3.6).
    pub struct ReadArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// The offset in bytes.
        pub offset: u64,
        /// The number of bytes requested.
        pub count: u32,
    }

    /// READ succeeded.
    pub struct ReadOk<'a> {
        /// The attributes of the file.
        pub file_attributes: PostOpAttr,
        /// The number of bytes read, which is the length of `data`.
        pub count: u32,
        /// Whether the data reaches the end of the file.
        pub eof: bool,
        opaque data max DATA_BYTES_MAX,
    }
}

/// The result of READ. A failure has the attributes of the file.
pub type ReadRes<'a> = Res3<ReadOk<'a>, PostOpAttr>;

/// The bytes before the data of READ: status, attributes, count, eof, length.
const READ_HEADER_BYTES: usize = 4 + 4 + Fattr3::BYTES + 4 + 4 + 4;

/// Builds a successful result of READ in place.
pub type ReadEncoder<'b> = PayloadEncoder<'b, READ_HEADER_BYTES>;

fn read_header(file_attributes: &Fattr3, eof: bool, count: usize) -> [u8; READ_HEADER_BYTES] {
    block(|fields| {
        fields.u32(NfsStat3::Ok.code());
        fields.u32(1);
        file_attributes.fill(fields);
        fields.u32(length_u32(count));
        fields.u32(u32::from(eof));
        fields.u32(length_u32(count));
    })
}

impl ReadEncoder<'_> {
    /// Completes the result.
    pub fn finish(self, file_attributes: &Fattr3, eof: bool) {
        self.complete(|count| read_header(file_attributes, eof, count));
    }

    /// Completes a result whose data, `count` bytes, is not in the buffer but is sent right after it.
    ///
    /// # Panics
    /// If data was appended, or if it needs padding.
    pub fn finish_without_data(self, file_attributes: &Fattr3, eof: bool, count: usize) {
        self.complete_without_data(count, read_header(file_attributes, eof, count));
    }
}

xdr! {
    /// The stability of a WRITE (RFC 1813 section 3.3.7, stable_how).
    pub enum StableHow {
        /// Memory is sufficient.
        Unstable = 0,
        /// The data and the metadata to find it are stable.
        DataSync = 1,
        /// The data and all metadata are stable.
        FileSync = 2,
    }

    /// The write verifier, which changes when unstable data may have been lost (RFC 1813 section 2.5, writeverf3).
    pub type WriteVerf3 = [u8; VERIFIER_BYTES];

    /// The arguments of WRITE (RFC 1813 section 3.3.7).
    pub struct WriteArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// The offset in bytes.
        pub offset: u64,
        /// The number of bytes to write. It should be the length of `data`; the server decides what to answer if it is not.
        pub count: u32,
        /// The stability required before the reply.
        pub stable: StableHow,
        /// The data.
        pub data: Payload<'a>,
    }

    /// WRITE succeeded.
    pub struct WriteOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// The number of bytes written.
        pub count: u32,
        /// The stability reached, at least the one requested.
        pub committed: StableHow,
        /// The write verifier at the time the data was accepted.
        pub verf: WriteVerf3,
    }

    /// The result of WRITE. A failure has the file before and after.
    pub type WriteRes = Res3<WriteOk, WccData>;

    /// The arguments of COMMIT (RFC 1813 section 3.3.21).
    pub struct CommitArgs<'a> {
        /// The file.
        pub file: FileHandle3<'a>,
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes; 0 means everything from `offset` on.
        pub count: u32,
    }

    /// COMMIT succeeded.
    pub struct CommitOk {
        /// The file before and after.
        pub file_wcc: WccData,
        /// The write verifier, to be compared with those of the writes.
        pub verf: WriteVerf3,
    }
}

/// The result of COMMIT. A failure has the file before and after.
pub type CommitRes = Res3<CommitOk, WccData>;
