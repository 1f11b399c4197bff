//! CREATE, LINK, REMOVE and RENAME.

use super::{AttrMask, ChangeInfo4, Component4, Fattr4, Linktext4, NfsFtype4, SpecData4};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The object that CREATE creates (RFC 8881 section 18.4, createtype4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateType4<'a> {
    /// A symbolic link.
    Lnk(Linktext4<'a>),
    /// A block device.
    Blk(SpecData4),
    /// A character device.
    Chr(SpecData4),
    /// A socket.
    Sock,
    /// A named pipe.
    Fifo,
    /// A directory.
    Dir,
    /// A type that CREATE cannot create, or an unknown one: NFS4ERR_BADTYPE.
    BadType(u32),
}

impl Encode for CreateType4<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        match self {
            Self::Lnk(linkdata) => {
                NfsFtype4::Lnk.encode(out);
                linkdata.encode(out);
            }
            Self::Blk(devdata) => {
                NfsFtype4::Blk.encode(out);
                devdata.encode(out);
            }
            Self::Chr(devdata) => {
                NfsFtype4::Chr.encode(out);
                devdata.encode(out);
            }
            Self::Sock => NfsFtype4::Sock.encode(out),
            Self::Fifo => NfsFtype4::Fifo.encode(out),
            Self::Dir => NfsFtype4::Dir.encode(out),
            Self::BadType(code) => out.u32(*code),
        }
    }
}

impl<'a> Decode<'a> for CreateType4<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let code = input.u32()?;
        match NfsFtype4::from_code(code) {
            Some(NfsFtype4::Lnk) => Linktext4::decode(input).map(Self::Lnk),
            Some(NfsFtype4::Blk) => SpecData4::decode(input).map(Self::Blk),
            Some(NfsFtype4::Chr) => SpecData4::decode(input).map(Self::Chr),
            Some(NfsFtype4::Sock) => Ok(Self::Sock),
            Some(NfsFtype4::Fifo) => Ok(Self::Fifo),
            Some(NfsFtype4::Dir) => Ok(Self::Dir),
            Some(NfsFtype4::Reg | NfsFtype4::AttrDir | NfsFtype4::NamedAttr) | None => {
                Ok(Self::BadType(code))
            }
        }
    }
}

xdr! {
    /// The arguments of CREATE (RFC 8881 section 18.4), for all types but regular files.
    pub struct CreateArgs<'a> {
        /// The type of the object.
        pub objtype: CreateType4<'a>,
        /// Its name in the current directory.
        pub objname: Component4<'a>,
        /// Its attributes.
        pub createattrs: Fattr4<'a>,
    }

    /// CREATE succeeded. The new object is the current one.
    pub struct CreateOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
        /// The attributes that were set.
        pub attrset: AttrMask,
    }

    /// The arguments of LINK (RFC 8881 section 18.9), which names the saved object in the current directory.
    pub struct LinkArgs<'a> {
        /// The name.
        pub newname: Component4<'a>,
    }

    /// LINK succeeded.
    pub struct LinkOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
    }

    /// The arguments of REMOVE (RFC 8881 section 18.25), for files and directories.
    pub struct RemoveArgs<'a> {
        /// The name in the current directory.
        pub target: Component4<'a>,
    }

    /// REMOVE succeeded.
    pub struct RemoveOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
    }

    /// The arguments of RENAME (RFC 8881 section 18.26), from the saved directory to the current one.
    pub struct RenameArgs<'a> {
        /// The name in the saved directory.
        pub oldname: Component4<'a>,
        /// The name in the current directory.
        pub newname: Component4<'a>,
    }

    /// RENAME succeeded.
    pub struct RenameOk {
        /// The source directory before and after the operation.
        pub source_cinfo: ChangeInfo4,
        /// The target directory before and after the operation.
        pub target_cinfo: ChangeInfo4,
    }
}

#[cfg(test)]
impl crate::sample::Sample for CreateType4<'_> {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        use crate::sample::Sample;
        match rng.below(7) {
            0 => Self::Lnk(Sample::sample(rng)),
            1 => Self::Blk(Sample::sample(rng)),
            2 => Self::Chr(Sample::sample(rng)),
            3 => Self::Sock,
            4 => Self::Fifo,
            5 => Self::Dir,
            _ => Self::BadType([0, 1, 8, 9, 10, u32::MAX][rng.below(6)]),
        }
    }
}
