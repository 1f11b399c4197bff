//! Attributes (RFC 7530 section 5, RFC 8881 section 5, RFC 7862 section 12.2, RFC 8275, RFC 8276, RFC 9754).
//!
//! Attributes are encoded as a [`Fattr4`]: a bitmap of their numbers, then their values in the order of the numbers, without
//! lengths. The values after an unknown attribute cannot be decoded, so decoding the values is a second step, which can find
//! unknown attributes.

mod values;

pub use values::{
    Ace4, ChangeAttrType4, ChangePolicy4, FsLocation4, FsLocations4, Fsid4, LayoutHint4, ModeMasked4,
    ModeUmask4, Nfsace4, Nfsacl41, OpenArguments4, SetTime4, ace_flag, ace_mask, acl_support, fh_expire,
};

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use super::{Bitmap4, FileHandle4, NfsFtype4, NfsStat4, NfsTime4, SpecData4, Utf8Str4};
use crate::array::Array;
use crate::limits::{ACES_MAX, ATTRIBUTE_BYTES_MAX, LOCATIONS_MAX};
use crate::xdr::{Block, Decode, DecodeError, Decoder, Encode, Encoder, length_u32};

/// A set of attributes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AttrMask(Bitmap4);

impl AttrMask {
    /// The empty set.
    pub const EMPTY: Self = Self(Bitmap4::EMPTY);

    /// Returns the set of these attributes.
    #[must_use]
    pub const fn of(attributes: &[Attr4]) -> Self {
        let mut bits = Bitmap4::EMPTY;
        let mut rest = attributes;
        while let [first, more @ ..] = rest {
            bits = bits.with(first.code());
            rest = more;
        }
        Self(bits)
    }

    /// Returns the set of the attributes of these numbers.
    #[must_use]
    pub const fn from_bitmap(numbers: Bitmap4) -> Self {
        Self(numbers)
    }

    /// Returns the numbers of the attributes.
    #[must_use]
    pub const fn bitmap(self) -> Bitmap4 {
        self.0
    }

    /// Returns this set with `attribute` added.
    #[must_use]
    pub const fn with(self, attribute: Attr4) -> Self {
        Self(self.0.with(attribute.code()))
    }

    /// Whether `attribute` is in the set.
    #[must_use]
    #[inline]
    pub const fn contains(self, attribute: Attr4) -> bool {
        self.0.contains(attribute.code())
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the attributes that [`Attr4`] does not include.
    #[must_use]
    pub fn unknown(self) -> Self {
        self - Self::of(Attr4::ALL)
    }

    /// Iterates over the known attributes in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Attr4> {
        self.0.iter().filter_map(Attr4::from_code)
    }

    /// Encodes a [`Fattr4`] of these attributes, all of them known. `value` appends the value of each, in their order.
    #[inline]
    pub fn encode_values(self, out: &mut Encoder<'_>, mut value: impl FnMut(Attr4, &mut Encoder<'_>)) {
        self.encode(out);
        let length_at = out.position();
        out.u32(0);
        self.0.for_each(|number| {
            Attr4::from_code(number).into_iter().for_each(|attribute| value(attribute, out));
        });
        let length = length_u32(out.position() - length_at - 4);
        out.patch(length_at, &length.to_be_bytes());
    }

    /// Bytes of a [`Fattr4`] besides its values, at most.
    pub const FATTR_BYTES_MAX: usize = Bitmap4::ENCODED_BYTES_MAX + 4;

    /// Encodes a [`Fattr4`] of these attributes as one of several fields. `values` writes all their values, in the order of the
    /// attributes.
    #[inline]
    pub fn put_around(self, fields: &mut Block<'_>, values: impl FnOnce(&mut Block<'_>)) {
        self.0.put(fields);
        fields.counted(values);
    }
}

impl BitAnd for AttrMask {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for AttrMask {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for AttrMask {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Debug for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for number in self.0.iter() {
            match Attr4::from_code(number) {
                Some(attribute) => set.entry(&attribute),
                None => set.entry(&number),
            };
        }
        set.finish()
    }
}

impl Encode for AttrMask {
    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        self.0.encode(out);
    }
}

impl Decode<'_> for AttrMask {
    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Bitmap4::decode(input).map(Self)
    }
}

#[cfg(test)]
impl crate::sample::Sample for AttrMask {
    fn sample(rng: &mut crate::sample::Rng) -> Self {
        Self(Bitmap4::sample(rng))
    }
}

/// Encoded attributes (RFC 8881 section 3.3.7, fattr4). Their values are not decoded before [`Self::decode_values`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fattr4<'a> {
    /// The attributes.
    pub attrmask: AttrMask,
    /// Their values, at most [`ATTRIBUTE_BYTES_MAX`] bytes.
    pub attr_vals: &'a [u8],
}

impl<'a> Fattr4<'a> {
    /// No attributes.
    pub const EMPTY: Self = Self { attrmask: AttrMask::EMPTY, attr_vals: &[] };

    /// Decodes the values.
    ///
    /// # Errors
    /// See [`FattrError`].
    pub fn decode_values(&self) -> Result<Attributes4<'a>, FattrError> {
        let unknown = self.attrmask.unknown();
        if !unknown.is_empty() {
            return Err(FattrError::Unknown(unknown));
        }
        let mut input = Decoder::new(self.attr_vals);
        let attributes = Attributes4::decode_values(self.attrmask, &mut input)?;
        input.finish()?;
        Ok(attributes)
    }
}

impl fmt::Debug for Fattr4<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode_values() {
            Ok(attributes) => attributes.fmt(f),
            Err(error) => write!(f, "{:?} ({error})", self.attrmask),
        }
    }
}

impl Encode for Fattr4<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.attrmask.encode(out);
        out.opaque(self.attr_vals);
    }
}

impl<'a> Decode<'a> for Fattr4<'a> {
    #[inline]
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { attrmask: AttrMask::decode(input)?, attr_vals: input.opaque(ATTRIBUTE_BYTES_MAX)? })
    }
}

/// Why the values of a [`Fattr4`] do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FattrError {
    /// [`Attr4`] does not include these attributes. Setting or comparing them is NFS4ERR_ATTRNOTSUPP.
    Unknown(AttrMask),
    /// The values do not match the mask: NFS4ERR_BADXDR in arguments.
    Values(DecodeError),
}

impl FattrError {
    /// Returns the status for the error in arguments.
    #[must_use]
    pub const fn status(&self) -> NfsStat4 {
        match self {
            Self::Unknown(_) => NfsStat4::AttrNotSupp,
            Self::Values(_) => NfsStat4::BadXdr,
        }
    }
}

impl From<DecodeError> for FattrError {
    fn from(error: DecodeError) -> Self {
        Self::Values(error)
    }
}

impl fmt::Display for FattrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(attributes) => write!(f, "the attributes {attributes:?} are unknown"),
            Self::Values(error) => write!(f, "attributes: {error}"),
        }
    }
}

impl std::error::Error for FattrError {}

/// Declares the attributes, in the order of their numbers.
macro_rules! attributes {
    ($($(#[$meta:meta])* $variant:ident = $code:literal, $field:ident: $type:ty;)*) => {
        xdr! {
            /// The known attributes (FATTR4_ and the name).
            pub enum Attr4 {
                $($(#[$meta])* $variant = $code,)*
            }
        }

        /// Attributes with their values. [`Encode`] produces a [`Fattr4`] of those that are `Some`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Attributes4<'a> {
            $($(#[$meta])* pub $field: Option<$type>,)*
        }

        impl<'a> Attributes4<'a> {
            /// Returns the set of the attributes that are `Some`.
            #[must_use]
            pub fn mask(&self) -> AttrMask {
                let mut bits = 0;
                $(bits |= u128::from(self.$field.is_some()) << $code;)*
                AttrMask(Bitmap4::from_bits(bits))
            }

            fn encode_value(&self, attribute: Attr4, out: &mut Encoder<'_>) {
                match attribute {
                    $(Attr4::$variant => self.$field.iter().for_each(|value| value.encode(out)),)*
                }
            }

            fn decode_values(mask: AttrMask, input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                let mut attributes = Self::default();
                for attribute in mask.iter() {
                    match attribute {
                        $(Attr4::$variant => attributes.$field = Some(Decode::decode(input)?),)*
                    }
                }
                Ok(attributes)
            }
        }

        #[cfg(test)]
        impl crate::sample::Sample for Attributes4<'_> {
            fn sample(rng: &mut crate::sample::Rng) -> Self {
                // Few or many, so that the last ones do not always follow long ones.
                let odds = 1 + rng.below(8);
                Self {
                    $($field: (rng.below(odds) == 0).then(|| crate::sample::Sample::sample(rng)),)*
                }
            }
        }
    };
}

attributes! {
    /// The supported attributes.
    SupportedAttrs = 0, supported_attrs: AttrMask;
    /// The type of the object.
    Type = 1, file_type: NfsFtype4;
    /// Bits of [`fh_expire`].
    FhExpireType = 2, fh_expire_type: u32;
    /// Changes whenever the data or the attributes change.
    Change = 3, change: u64;
    /// The size in bytes.
    Size = 4, size: u64;
    /// Whether the file system has hard links.
    LinkSupport = 5, link_support: bool;
    /// Whether the file system has symbolic links.
    SymlinkSupport = 6, symlink_support: bool;
    /// Whether the object has named attributes.
    NamedAttr = 7, named_attr: bool;
    /// The file system.
    Fsid = 8, fsid: Fsid4;
    /// Whether different handles always refer to different objects.
    UniqueHandles = 9, unique_handles: bool;
    /// The duration of a lease in seconds.
    LeaseTime = 10, lease_time: u32;
    /// Why READDIR returns no other attributes of the entry.
    RdattrError = 11, rdattr_error: NfsStat4;
    /// The access control list.
    Acl = 12, acl: Array<'a, Nfsace4<'a>, ACES_MAX>;
    /// Bits of [`acl_support`].
    Aclsupport = 13, aclsupport: u32;
    /// Whether the file was archived.
    Archive = 14, archive: bool;
    /// Whether SETATTR can set times.
    Cansettime = 15, cansettime: bool;
    /// Whether names that differ only in case are the same.
    CaseInsensitive = 16, case_insensitive: bool;
    /// Whether names keep their case.
    CasePreserving = 17, case_preserving: bool;
    /// Whether only the superuser may change the owner of a file.
    ChownRestricted = 18, chown_restricted: bool;
    /// The handle.
    Filehandle = 19, filehandle: FileHandle4<'a>;
    /// The file id, unique in the file system.
    Fileid = 20, fileid: u64;
    /// The number of files that the caller can create.
    FilesAvail = 21, files_avail: u64;
    /// The number of files that can be created.
    FilesFree = 22, files_free: u64;
    /// The total number of files that can exist.
    FilesTotal = 23, files_total: u64;
    /// The locations of the file system.
    FsLocations = 24, fs_locations: FsLocations4<'a>;
    /// Whether the file is hidden.
    Hidden = 25, hidden: bool;
    /// Whether the attributes of the file system are the same for all its objects.
    Homogeneous = 26, homogeneous: bool;
    /// The largest file in bytes.
    Maxfilesize = 27, maxfilesize: u64;
    /// The most hard links to a file.
    Maxlink = 28, maxlink: u32;
    /// The longest name in bytes.
    Maxname = 29, maxname: u32;
    /// The largest READ in bytes.
    Maxread = 30, maxread: u64;
    /// The largest WRITE in bytes.
    Maxwrite = 31, maxwrite: u64;
    /// The MIME type.
    Mimetype = 32, mimetype: Utf8Str4<'a>;
    /// The permission bits with setuid, setgid and sticky; no type bits.
    Mode = 33, mode: u32;
    /// Whether longer names are refused rather than truncated.
    NoTrunc = 34, no_trunc: bool;
    /// The number of hard links.
    Numlinks = 35, numlinks: u32;
    /// The owner.
    Owner = 36, owner: Utf8Str4<'a>;
    /// The group.
    OwnerGroup = 37, owner_group: Utf8Str4<'a>;
    /// The bytes available within the hard quota.
    QuotaAvailHard = 38, quota_avail_hard: u64;
    /// The bytes available within the soft quota.
    QuotaAvailSoft = 39, quota_avail_soft: u64;
    /// The bytes counted for the quota.
    QuotaUsed = 40, quota_used: u64;
    /// The device numbers.
    Rawdev = 41, rawdev: SpecData4;
    /// The free space available to the caller in bytes.
    SpaceAvail = 42, space_avail: u64;
    /// The free space in bytes.
    SpaceFree = 43, space_free: u64;
    /// The total space in bytes.
    SpaceTotal = 44, space_total: u64;
    /// The allocated space in bytes.
    SpaceUsed = 45, space_used: u64;
    /// Whether the file belongs to the system.
    System = 46, system: bool;
    /// The time of the last access.
    TimeAccess = 47, time_access: NfsTime4;
    /// Sets `time_access`.
    TimeAccessSet = 48, time_access_set: SetTime4;
    /// The time of the last backup.
    TimeBackup = 49, time_backup: NfsTime4;
    /// The time of creation.
    TimeCreate = 50, time_create: NfsTime4;
    /// The granularity of times.
    TimeDelta = 51, time_delta: NfsTime4;
    /// The time of the last change of the attributes.
    TimeMetadata = 52, time_metadata: NfsTime4;
    /// The time of the last modification of the data.
    TimeModify = 53, time_modify: NfsTime4;
    /// Sets `time_modify`.
    TimeModifySet = 54, time_modify_set: SetTime4;
    /// For a root, the file id of the directory on which the file system is mounted; otherwise that of the object.
    MountedOnFileid = 55, mounted_on_fileid: u64;
    /// The maximum delay of notifications about the directory.
    DirNotifDelay = 56, dir_notif_delay: NfsTime4;
    /// The maximum delay of notifications about its entries.
    DirentNotifDelay = 57, dirent_notif_delay: NfsTime4;
    /// The entries that allow and deny access.
    Dacl = 58, dacl: Nfsacl41<'a>;
    /// The entries for audit and alarm.
    Sacl = 59, sacl: Nfsacl41<'a>;
    /// Changes with the properties of the file system.
    ChangePolicy = 60, change_policy: ChangePolicy4;
    /// The layout types of the file system.
    FsLayoutTypes = 62, fs_layout_types: Array<'a, u32, LOCATIONS_MAX>;
    /// A hint for the layouts of a new file.
    LayoutHint = 63, layout_hint: LayoutHint4<'a>;
    /// The layout types of the file.
    LayoutTypes = 64, layout_types: Array<'a, u32, LOCATIONS_MAX>;
    /// The preferred block size of layouts in bytes.
    LayoutBlksize = 65, layout_blksize: u32;
    /// The preferred alignment of layouts in bytes.
    LayoutAlignment = 66, layout_alignment: u32;
    /// Sets some bits of the mode.
    ModeSetMasked = 74, mode_set_masked: ModeMasked4;
    /// The attributes that an exclusive create can set.
    SuppattrExclcreat = 75, suppattr_exclcreat: AttrMask;
    /// The encoding of names (RFC 8881 section 14.4).
    FsCharsetCap = 76, fs_charset_cap: u32;
    /// The size of which offsets and lengths of CLONE must be multiples, in bytes.
    CloneBlksize = 77, clone_blksize: u32;
    /// The space that removing the file would free, in bytes.
    SpaceFreed = 78, space_freed: u64;
    /// The semantics of `change`.
    ChangeAttrType = 79, change_attr_type: ChangeAttrType4;
    /// The mode of a new object before the umask is applied, and the umask.
    ModeUmask = 81, mode_umask: ModeUmask4;
    /// Whether the file system has extended attributes.
    XattrSupport = 82, xattr_support: bool;
    /// Whether the file's data is on slow media.
    Offline = 83, offline: bool;
    /// The `time_access` that the holder of a delegation reports.
    TimeDelegAccess = 84, time_deleg_access: NfsTime4;
    /// The `time_modify` that the holder of a delegation reports.
    TimeDelegModify = 85, time_deleg_modify: NfsTime4;
    /// The arguments that OPEN supports.
    OpenArguments = 86, open_arguments: OpenArguments4;
}

impl Attributes4<'_> {
    /// Encodes a [`Fattr4`] of the attributes that are `Some` and in `request`, and returns their set.
    pub fn encode_requested(&self, request: AttrMask, out: &mut Encoder<'_>) -> AttrMask {
        let mask = self.mask() & request;
        mask.encode_values(out, |attribute, out| self.encode_value(attribute, out));
        mask
    }
}

impl Encode for Attributes4<'_> {
    fn encode(&self, out: &mut Encoder<'_>) {
        self.encode_requested(self.mask(), out);
    }
}

#[cfg(test)]
mod samples {
    use super::{Attributes4, Decoder, Fattr4};
    use crate::sample::{Rng, Sample, encode};
    use crate::xdr::Decode;

    impl Sample for Fattr4<'_> {
        fn sample(rng: &mut Rng) -> Self {
            Self::decode(&mut Decoder::new(encode(&Attributes4::sample(rng)).leak())).expect("was encoded")
        }
    }
}
