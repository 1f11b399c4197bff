//! Attributes, and GETATTR and SETATTR (RFC 1813 sections 2.6, 3.3.1 and 3.3.2).

use super::{FileHandle3, FileType3, NfsTime3, Res3, SpecData3};
use crate::xdr::{Block, Decode, DecodeError, Decoder, Encode, Encoder, block};

/// The attributes of a file (RFC 1813 section 2.6, fattr3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fattr3 {
    /// Its type.
    pub file_type: FileType3,
    /// The permission bits with setuid, setgid and sticky; no type bits.
    pub mode: u32,
    /// The number of hard links.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size in bytes.
    pub size: u64,
    /// The allocated space in bytes.
    pub used: u64,
    /// The device numbers, for devices.
    pub rdev: SpecData3,
    /// The file system.
    pub fsid: u64,
    /// The file id, unique in the file system.
    pub fileid: u64,
    /// The time of the last access.
    pub atime: NfsTime3,
    /// The time of the last modification of the data.
    pub mtime: NfsTime3,
    /// The time of the last change of the attributes.
    pub ctime: NfsTime3,
}

impl Fattr3 {
    /// The encoded size in bytes, which is fixed.
    pub const BYTES: usize = 84;

    /// Returns the bytes that [`Encode`] appends.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        block(|fields| self.fill(fields))
    }

    /// Returns the bytes of a [`PostOpAttr`] with these attributes.
    #[inline]
    #[must_use]
    pub(super) fn to_post_op_bytes(self) -> [u8; 4 + Self::BYTES] {
        block(|fields| {
            fields.u32(1);
            self.fill(fields);
        })
    }

    #[inline]
    pub(super) fn fill(&self, fields: &mut Block<'_>) {
        fields.u32(self.file_type.code());
        fields.u32(self.mode);
        fields.u32(self.nlink);
        fields.u32(self.uid);
        fields.u32(self.gid);
        fields.u64(self.size);
        fields.u64(self.used);
        fields.u32(self.rdev.major);
        fields.u32(self.rdev.minor);
        fields.u64(self.fsid);
        fields.u64(self.fileid);
        for time in [self.atime, self.mtime, self.ctime] {
            fields.u32(time.seconds);
            fields.u32(time.nanoseconds);
        }
    }
}

impl Encode for Fattr3 {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.raw(&self.to_bytes());
    }
}

impl Decode<'_> for Fattr3 {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            file_type: FileType3::decode(input)?,
            mode: input.u32()?,
            nlink: input.u32()?,
            uid: input.u32()?,
            gid: input.u32()?,
            size: input.u64()?,
            used: input.u64()?,
            rdev: SpecData3::decode(input)?,
            fsid: input.u64()?,
            fileid: input.u64()?,
            atime: NfsTime3::decode(input)?,
            mtime: NfsTime3::decode(input)?,
            ctime: NfsTime3::decode(input)?,
        })
    }
}

/// Attributes after an operation, which a server may omit (RFC 1813 section 2.6, post_op_attr).
pub type PostOpAttr = Option<Fattr3>;

xdr! {
    /// The attributes before an operation by which a client detects other changes (RFC 1813 section 2.6, wcc_attr).
    pub struct WccAttr {
        /// The size in bytes.
        pub size: u64,
        /// The time of the last modification of the data.
        pub mtime: NfsTime3,
        /// The time of the last change of the attributes.
        pub ctime: NfsTime3,
    }
}

impl From<Fattr3> for WccAttr {
    fn from(attributes: Fattr3) -> Self {
        Self { size: attributes.size, mtime: attributes.mtime, ctime: attributes.ctime }
    }
}

/// Attributes before an operation, which a server may omit (RFC 1813 section 2.6, pre_op_attr).
pub type PreOpAttr = Option<WccAttr>;

xdr! {
    /// Attributes before and after an operation, for weak cache consistency (RFC 1813 section 2.6, wcc_data).
    pub struct WccData {
        /// Read atomically with the operation.
        pub before: PreOpAttr,
        /// Read atomically with the operation.
        pub after: PostOpAttr,
    }
}

impl WccData {
    /// No attributes.
    pub const NONE: Self = Self { before: None, after: None };
}

xdr! {
    /// How to set a time (RFC 1813 section 2.6, set_atime and set_mtime).
    #[derive(Default)]
    pub union SetTime {
        /// Do not change it.
        #[default]
        DontChange = 0,
        /// Set it to the server's time.
        SetToServerTime = 1,
        /// Set it to this time.
        SetToClientTime(time: NfsTime3) = 2,
    }

    /// Attributes to set (RFC 1813 section 2.6, sattr3). `None` leaves one as it is.
    #[derive(Default)]
    pub struct Sattr3 {
        /// The permission bits.
        pub mode: Option<u32>,
        /// The owner.
        pub uid: Option<u32>,
        /// The group.
        pub gid: Option<u32>,
        /// The size in bytes.
        pub size: Option<u64>,
        /// The time of the last access.
        pub atime: SetTime,
        /// The time of the last modification.
        pub mtime: SetTime,
    }

    /// The arguments of GETATTR (RFC 1813 section 3.3.1).
    pub struct GetattrArgs<'a> {
        /// The object.
        pub object: FileHandle3<'a>,
    }

    /// GETATTR succeeded.
    pub struct GetattrOk {
        /// The attributes.
        pub obj_attributes: Fattr3,
    }

    /// The result of GETATTR.
    pub type GetattrRes = Res3<GetattrOk, ()>;

    /// The guard of SETATTR (RFC 1813 section 3.3.2, sattrguard3): the ctime that the object must have.
    pub type SattrGuard3 = Option<NfsTime3>;

    /// The arguments of SETATTR (RFC 1813 section 3.3.2).
    pub struct SetattrArgs<'a> {
        /// The object.
        pub object: FileHandle3<'a>,
        /// The new attributes.
        pub new_attributes: Sattr3,
        /// The condition.
        pub guard: SattrGuard3,
    }

    /// SETATTR succeeded.
    pub struct SetattrOk {
        /// The object before and after.
        pub obj_wcc: WccData,
    }
}

/// The result of SETATTR. A failure has the object before and after.
pub type SetattrRes = Res3<SetattrOk, WccData>;

#[cfg(test)]
mod samples {
    use super::Fattr3;
    use crate::nfs3::FileType3;
    use crate::sample::{Rng, Sample};

    impl Sample for Fattr3 {
        fn sample(rng: &mut Rng) -> Self {
            Self {
                file_type: FileType3::sample(rng),
                mode: Sample::sample(rng),
                nlink: Sample::sample(rng),
                uid: Sample::sample(rng),
                gid: Sample::sample(rng),
                size: Sample::sample(rng),
                used: Sample::sample(rng),
                rdev: Sample::sample(rng),
                fsid: Sample::sample(rng),
                fileid: Sample::sample(rng),
                atime: Sample::sample(rng),
                mtime: Sample::sample(rng),
                ctime: Sample::sample(rng),
            }
        }
    }
}
