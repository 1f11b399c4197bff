//! Copying within and between servers (RFC 7862): CLONE, COPY, COPY_NOTIFY, OFFLOAD_CANCEL, OFFLOAD_STATUS.

use super::{Netaddr4, NfsStat4, NfsTime4, StableHow4, Stateid4, Utf8Str4, Verifier4};
use crate::array::Array;
use crate::limits::LOCATIONS_MAX;

xdr! {
    /// The arguments of CLONE (RFC 7862 section 15.13), from the saved file to the current one.
    pub struct CloneArgs {
        /// The stateid to read with.
        pub src_stateid: Stateid4,
        /// The stateid to write with.
        pub dst_stateid: Stateid4,
        /// The offset in the source in bytes.
        pub src_offset: u64,
        /// The offset in the destination in bytes.
        pub dst_offset: u64,
        /// The length in bytes; 0 means up to the end of the source.
        pub count: u64,
    }

    /// The location of a server (RFC 7862 section 15.2, netloc4).
    pub union Netloc4<'a> {
        /// A name.
        Name(name: Utf8Str4<'a>) = 1,
        /// A URL.
        Url(url: Utf8Str4<'a>) = 2,
        /// An address.
        Netaddr(address: Netaddr4<'a>) = 3,
    }

    /// Equivalent locations of a server.
    pub type Netlocs4<'a> = Array<'a, Netloc4<'a>, LOCATIONS_MAX>;

    /// The arguments of COPY (RFC 7862 section 15.2), from the saved file to the current one.
    pub struct CopyArgs<'a> {
        /// The stateid to read with.
        pub src_stateid: Stateid4,
        /// The stateid to write with.
        pub dst_stateid: Stateid4,
        /// The offset in the source in bytes.
        pub src_offset: u64,
        /// The offset in the destination in bytes.
        pub dst_offset: u64,
        /// The length in bytes; 0 means up to the end of the source.
        pub count: u64,
        /// Whether the copied bytes must be contiguous from the start of the range.
        pub consecutive: bool,
        /// Whether the copy must be complete before the reply.
        pub synchronous: bool,
        /// The server of the source; empty for this server.
        pub source_server: Netlocs4<'a>,
    }

    /// The requirements of a copy (RFC 7862 section 15.2, copy_requirements4).
    pub struct CopyRequirements4 {
        /// Whether the copied bytes are contiguous from the start of the range.
        pub consecutive: bool,
        /// Whether the copy is complete before the reply.
        pub synchronous: bool,
    }

    /// The outcome of a write (RFC 7862 section 7.1, write_response4).
    pub struct WriteResponse4 {
        /// The copy, if it continues in the background.
        pub callback_id: Option<Stateid4>,
        /// The number of bytes written.
        pub count: u64,
        /// The stability reached.
        pub committed: StableHow4,
        /// The write verifier at the time the data was accepted.
        pub writeverf: Verifier4,
    }

    /// COPY succeeded.
    pub struct CopyOk {
        /// The outcome of the write.
        pub response: WriteResponse4,
        /// The requirements that the copy meets.
        pub requirements: CopyRequirements4,
    }
}

xdr_failure! {
    /// COPY failed.
    pub enum CopyFail {
        /// The requirements that the server could meet.
        OffloadNoReqs(CopyRequirements4) = OffloadNoReqs
    }
}

xdr! {
    /// The arguments of COPY_NOTIFY (RFC 7862 section 15.3).
    pub struct CopyNotifyArgs<'a> {
        /// The stateid to read with.
        pub src_stateid: Stateid4,
        /// The server that will read the source.
        pub destination_server: Netloc4<'a>,
    }

    /// COPY_NOTIFY succeeded.
    pub struct CopyNotifyOk<'a> {
        /// The time within which the other server must begin to read.
        pub lease_time: NfsTime4,
        /// The stateid for the other server to read with.
        pub stateid: Stateid4,
        /// The locations of the source for the other server.
        pub source_server: Netlocs4<'a>,
    }

    /// The arguments of OFFLOAD_CANCEL (RFC 7862 section 15.8).
    pub struct OffloadCancelArgs {
        /// The copy.
        pub stateid: Stateid4,
    }

    /// The arguments of OFFLOAD_STATUS (RFC 7862 section 15.9).
    pub struct OffloadStatusArgs {
        /// The copy.
        pub stateid: Stateid4,
    }

    /// OFFLOAD_STATUS succeeded.
    pub struct OffloadStatusOk {
        /// The number of bytes copied.
        pub count: u64,
        /// The status of the copy, if it is complete.
        pub complete: Option<NfsStat4>,
    }
}
