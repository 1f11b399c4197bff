//! File handles and lookups: ACCESS, GETFH, LOOKUP, LOOKUPP, OPENATTR, PUTFH, PUTPUBFH, PUTROOTFH, READLINK, RESTOREFH,
//! SAVEFH, SECINFO, SECINFO_NO_NAME.

use super::{Component4, FileHandle4, Linktext4, Opaque4};
use crate::array::Array;
use crate::limits::SECURITY_FLAVORS_MAX;

/// The permissions in ACCESS (RFC 8881 section 18.1, RFC 8276 section 8.6).
pub mod access {
    /// Read data, or list a directory.
    pub const READ: u32 = 0x01;
    /// Look up in a directory.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite data, or change entries of a directory.
    pub const MODIFY: u32 = 0x04;
    /// Append data, or add entries to a directory.
    pub const EXTEND: u32 = 0x08;
    /// Delete entries of a directory.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
    /// Read extended attributes.
    pub const XAREAD: u32 = 0x40;
    /// Change extended attributes.
    pub const XAWRITE: u32 = 0x80;
    /// List extended attributes.
    pub const XALIST: u32 = 0x100;
}

xdr! {
    /// The arguments of ACCESS (RFC 8881 section 18.1).
    pub struct AccessArgs {
        /// Bits of [`access`] to check.
        pub access: u32,
    }

    /// ACCESS succeeded.
    pub struct AccessOk {
        /// The bits that the server can check.
        pub supported: u32,
        /// The bits that are granted.
        pub access: u32,
    }

    /// GETFH succeeded (RFC 8881 section 18.8).
    pub struct GetfhOk<'a> {
        /// The current file handle.
        pub object: FileHandle4<'a>,
    }

    /// The arguments of LOOKUP (RFC 8881 section 18.13).
    pub struct LookupArgs<'a> {
        /// The name to find in the current directory.
        pub objname: Component4<'a>,
    }

    /// The arguments of OPENATTR (RFC 8881 section 18.17).
    pub struct OpenattrArgs {
        /// Whether to create the directory of named attributes.
        pub createdir: bool,
    }

    /// The arguments of PUTFH (RFC 8881 section 18.19).
    pub struct PutfhArgs<'a> {
        /// The new current file handle.
        pub object: FileHandle4<'a>,
    }

    /// READLINK succeeded (RFC 8881 section 18.24).
    pub struct ReadlinkOk<'a> {
        /// The text of the link.
        pub link: Linktext4<'a>,
    }

    /// The arguments of SECINFO (RFC 8881 section 18.29).
    pub struct SecinfoArgs<'a> {
        /// A name in the current directory.
        pub name: Component4<'a>,
    }

    /// The service of RPCSEC_GSS for a call (RFC 2203, rpc_gss_svc_t).
    pub enum RpcGssSvc {
        /// Authentication.
        None = 1,
        /// Authentication and integrity.
        Integrity = 2,
        /// Authentication, integrity and encryption.
        Privacy = 3,
    }

    /// A variant of RPCSEC_GSS (RFC 8881 section 18.29, rpcsec_gss_info).
    pub struct RpcsecGssInfo<'a> {
        /// The mechanism, an object identifier in DER.
        pub oid: Opaque4<'a>,
        /// The quality of protection.
        pub qop: u32,
        /// The service.
        pub service: RpcGssSvc,
    }

    /// A security flavor (RFC 8881 section 18.29, secinfo4).
    pub union Secinfo4<'a> {
        /// A variant of RPCSEC_GSS, whose flavor is [`RPCSEC_GSS`].
        RpcsecGss(info: RpcsecGssInfo<'a>) = 6;
        /// Another flavor, for example [`crate::rpc::AUTH_SYS`]; never [`RPCSEC_GSS`].
        default Flavor(u32)
    }

    /// SECINFO or SECINFO_NO_NAME succeeded: the security flavors, preferred ones first.
    pub type SecinfoOk<'a> = Array<'a, Secinfo4<'a>, SECURITY_FLAVORS_MAX>;

    /// The arguments of SECINFO_NO_NAME (RFC 8881 section 18.45, secinfo_style4).
    pub enum SecinfoStyle4 {
        /// The flavors of the current file handle.
        CurrentFh = 0,
        /// The flavors of its parent.
        Parent = 1,
    }
}

/// The flavor of [`Secinfo4::RpcsecGss`].
pub const RPCSEC_GSS: u32 = 6;
