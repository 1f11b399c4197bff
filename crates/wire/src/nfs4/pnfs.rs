//! The arguments of parallel NFS: GETDEVICEINFO, GETDEVICELIST, LAYOUTCOMMIT, LAYOUTERROR, LAYOUTGET, LAYOUTRETURN,
//! LAYOUTSTATS.
//!
//! Holdfast has no layouts and answers these operations with errors. Layout types are numbers and their bodies opaque.

use super::{Bitmap4, DeviceId4, NfsStat4, NfsTime4, Opaque4, Stateid4, Verifier4};
use crate::array::Array;
use crate::limits::LOCATIONS_MAX;

xdr! {
    /// The arguments of GETDEVICEINFO (RFC 8881 section 18.40).
    pub struct GetdeviceinfoArgs {
        /// The device.
        pub device_id: DeviceId4,
        /// The layout type.
        pub layout_type: u32,
        /// The largest resok body in bytes.
        pub maxcount: u32,
        /// The notifications that the client requests.
        pub notify_types: Bitmap4,
    }

    /// Data of a layout type (RFC 8881 section 3.3.18, layoutupdate4).
    pub struct LayoutBody4<'a> {
        /// The layout type.
        pub layout_type: u32,
        /// The data.
        pub body: Opaque4<'a>,
    }

    /// The arguments of GETDEVICELIST (RFC 8881 section 18.41).
    pub struct GetdevicelistArgs {
        /// The layout type.
        pub layout_type: u32,
        /// The most devices to return.
        pub maxdevices: u32,
        /// The cookie to continue from; 0 to start.
        pub cookie: u64,
        /// The verifier returned with the cookie.
        pub cookieverf: Verifier4,
    }

    /// The arguments of LAYOUTCOMMIT (RFC 8881 section 18.42).
    pub struct LayoutcommitArgs<'a> {
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes.
        pub length: u64,
        /// Whether the client reclaims the layout after a restart of the server.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid4,
        /// The offset of the last byte written (newoffset4).
        pub last_write_offset: Option<u64>,
        /// The time of the last modification (newtime4).
        pub time_modify: Option<NfsTime4>,
        /// Data of the layout type.
        pub layoutupdate: LayoutBody4<'a>,
    }

    /// The I/O mode of a layout (RFC 8881 section 3.3.20, layoutiomode4).
    pub enum LayoutIomode4 {
        /// Reading.
        Read = 1,
        /// Reading and writing.
        Rw = 2,
        /// Any, in LAYOUTRETURN.
        Any = 3,
    }

    /// The arguments of LAYOUTGET (RFC 8881 section 18.43).
    pub struct LayoutgetArgs {
        /// Whether the client requests a signal when a layout becomes available.
        pub signal_layout_avail: bool,
        /// The layout type.
        pub layout_type: u32,
        /// The I/O mode.
        pub iomode: LayoutIomode4,
        /// The offset in bytes.
        pub offset: u64,
        /// The number of bytes requested.
        pub length: u64,
        /// The smallest acceptable length in bytes.
        pub minlength: u64,
        /// The stateid of the open, or of the client's layouts.
        pub stateid: Stateid4,
        /// The largest size of the layouts in bytes.
        pub maxcount: u32,
    }

    /// A range of a file whose layouts are returned (RFC 8881 section 18.44, layoutreturn_file4).
    pub struct LayoutReturnFile4<'a> {
        /// The offset in bytes.
        pub offset: u64,
        /// The length in bytes.
        pub length: u64,
        /// The layouts.
        pub stateid: Stateid4,
        /// Data of the layout type.
        pub body: Opaque4<'a>,
    }

    /// The layouts to return (RFC 8881 section 18.44, layoutreturn4).
    pub union LayoutReturn4<'a> {
        /// Those of a range of the current file.
        File(file: LayoutReturnFile4<'a>) = 1,
        /// Those of the current file system.
        Fsid = 2,
        /// All.
        All = 3,
    }

    /// The arguments of LAYOUTRETURN (RFC 8881 section 18.44).
    pub struct LayoutreturnArgs<'a> {
        /// Whether the layouts are from before a restart of the server.
        pub reclaim: bool,
        /// The layout type.
        pub layout_type: u32,
        /// The I/O mode of the layouts.
        pub iomode: LayoutIomode4,
        /// The layouts to return.
        pub layoutreturn: LayoutReturn4<'a>,
    }

    /// An error of a device (RFC 7862 section 15.6, device_error4).
    pub struct DeviceError4 {
        /// The device.
        pub deviceid: DeviceId4,
        /// Its status.
        pub status: NfsStat4,
        /// The number of the operation.
        pub opnum: u32,
    }

    /// The arguments of LAYOUTERROR (RFC 7862 section 15.6).
    pub struct LayouterrorArgs<'a> {
        /// The offset of the range in bytes.
        pub offset: u64,
        /// The length of the range in bytes.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid4,
        /// The errors.
        pub errors: Array<'a, DeviceError4, LOCATIONS_MAX>,
    }

    /// A volume of I/O (RFC 7862 section 15.7, io_info4).
    pub struct IoInfo4 {
        /// The number of operations.
        pub count: u64,
        /// The number of bytes.
        pub bytes: u64,
    }

    /// The arguments of LAYOUTSTATS (RFC 7862 section 15.7).
    pub struct LayoutstatsArgs<'a> {
        /// The offset of the range in bytes.
        pub offset: u64,
        /// The length of the range in bytes.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid4,
        /// The reads.
        pub read: IoInfo4,
        /// The writes.
        pub write: IoInfo4,
        /// The device.
        pub deviceid: DeviceId4,
        /// Data of the layout type.
        pub layoutupdate: LayoutBody4<'a>,
    }
}
