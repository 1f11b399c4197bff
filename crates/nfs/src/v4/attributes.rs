//! Converts the engine's attributes to those of NFSv4 (RFC 8881 section 5, RFC 7862 section 12.2), and back.

use volume::attributes::{Attributes, FileType, SetAttributes, SetTime};
use volume::ids::Ino;
use volume::limits::{CLONE_BLOCK_BYTES, FILE_BYTES_MAX, LINKS_MAX, NAME_BYTES_MAX, TRANSFER_BYTES_MAX};
use volume::results::VolumeStatus;
use volume::time::Time;
use wire::array::Array;
use wire::nfs4::{
    Attr4, AttrMask, Attributes4, ChangeAttrType4, Fattr4, Fsid4, ModeUmask4, NfsFtype4, NfsStat4, NfsTime4,
    SetTime4, SpecData4, Utf8Str4, acl_support, fh_expire,
};

use crate::call::Object;
use crate::exports::pseudo::Node;
use crate::v4::attributes::acl::Aces;
use crate::v4::attributes::decimal::Decimal;
use crate::v4::context::{Compound, HandleBytes, OpStop, Target};

pub(crate) mod acl;
mod decimal;

/// Nanoseconds in a second; a time's nanoseconds must be fewer.
const NANOSECONDS: u32 = 1_000_000_000;

/// The bits of a mode.
const MODE_BITS: u32 = 0o7777;

/// Attributes that GETATTR returns in every minor version.
const SHOWN: AttrMask = AttrMask::of(&[
    Attr4::SupportedAttrs,
    Attr4::Type,
    Attr4::FhExpireType,
    Attr4::Change,
    Attr4::Size,
    Attr4::LinkSupport,
    Attr4::SymlinkSupport,
    Attr4::NamedAttr,
    Attr4::Fsid,
    Attr4::UniqueHandles,
    Attr4::LeaseTime,
    Attr4::RdattrError,
    Attr4::Acl,
    Attr4::Aclsupport,
    Attr4::Cansettime,
    Attr4::CaseInsensitive,
    Attr4::CasePreserving,
    Attr4::ChownRestricted,
    Attr4::Filehandle,
    Attr4::Fileid,
    Attr4::FilesAvail,
    Attr4::FilesFree,
    Attr4::FilesTotal,
    Attr4::Homogeneous,
    Attr4::Maxfilesize,
    Attr4::Maxlink,
    Attr4::Maxname,
    Attr4::Maxread,
    Attr4::Maxwrite,
    Attr4::Mode,
    Attr4::NoTrunc,
    Attr4::Numlinks,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::Rawdev,
    Attr4::SpaceAvail,
    Attr4::SpaceFree,
    Attr4::SpaceTotal,
    Attr4::SpaceUsed,
    Attr4::TimeAccess,
    Attr4::TimeDelta,
    Attr4::TimeMetadata,
    Attr4::TimeModify,
    Attr4::MountedOnFileid,
]);

/// Attributes that can be set but not read.
const WRITE_ONLY: AttrMask = AttrMask::of(&[Attr4::TimeAccessSet, Attr4::TimeModifySet]);

/// Attributes that SETATTR accepts.
const SETTABLE: AttrMask = AttrMask::of(&[
    Attr4::Size,
    Attr4::Acl,
    Attr4::Mode,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::TimeAccessSet,
    Attr4::TimeModifySet,
]);

/// Attributes that can be set only at creation.
const CREATION_ONLY: AttrMask = AttrMask::of(&[Attr4::ModeUmask]);

/// Attributes since NFSv4.1.
const SINCE_1: AttrMask = AttrMask::of(&[Attr4::SuppattrExclcreat]);

/// Attributes since NFSv4.2.
const SINCE_2: AttrMask =
    AttrMask::of(&[Attr4::CloneBlksize, Attr4::ChangeAttrType, Attr4::ModeUmask, Attr4::XattrSupport]);

/// Attributes that need the state of the whole volume.
const OF_VOLUME: AttrMask = AttrMask::of(&[
    Attr4::FilesAvail,
    Attr4::FilesFree,
    Attr4::FilesTotal,
    Attr4::SpaceAvail,
    Attr4::SpaceFree,
    Attr4::SpaceTotal,
]);

/// Attributes that VERIFY cannot compare.
const NOT_COMPARED: AttrMask =
    AttrMask::of(&[Attr4::RdattrError, Attr4::TimeAccessSet, Attr4::TimeModifySet]);

/// Returns the attributes that a minor version supports.
pub(crate) fn supported(minor: u32) -> AttrMask {
    let mut all = SHOWN | WRITE_ONLY;
    if minor >= 1 {
        all = all | SINCE_1;
    }
    if minor >= 2 {
        all = all | SINCE_2;
    }
    all
}

/// Checks the attributes that GETATTR and READDIR are asked for.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set (RFC 8881 section 5.5).
pub(crate) fn check_request(request: AttrMask) -> Result<(), OpStop> {
    if (request & WRITE_ONLY).is_empty() { Ok(()) } else { Err(NfsStat4::Inval.into()) }
}

/// Checks the attributes that VERIFY and NVERIFY compare.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for unknown attributes, NFS4ERR_INVAL for those without a value.
pub(crate) fn check_comparison(mask: AttrMask, minor: u32) -> Result<(), OpStop> {
    if !(mask - supported(minor)).is_empty() {
        return Err(NfsStat4::AttrNotSupp.into());
    }
    if (mask & NOT_COMPARED).is_empty() { Ok(()) } else { Err(NfsStat4::Inval.into()) }
}

/// What the attributes of one object borrow.
#[derive(Debug)]
pub(crate) struct Lent {
    owner: Decimal,
    group: Decimal,
    handle: HandleBytes,
    aces: Aces,
}

/// All that is needed to encode an object's attributes.
pub(crate) struct Shown {
    lent: Lent,
    fsid: u64,
    attributes: Attributes,
    mounted_on: u64,
    status: VolumeStatus,
    change_type: ChangeAttrType4,
    minor: u32,
    lease_time: u32,
}

impl Shown {
    /// Reads the attributes of a filehandle's object.
    pub(crate) fn of<'c>(
        compound: &mut Compound<'c>,
        target: &Target<'c>,
        request: AttrMask,
    ) -> Result<Shown, OpStop> {
        match target {
            Target::Pseudo(node) => Ok(Shown::pseudo(compound, node)),
            Target::Stored(object) => {
                let attributes = object.volume.attributes(&object.request(), object.ino);
                let attributes = compound.answered(object.volume, attributes)?;
                Shown::stored(compound, object, &attributes, request)
            }
        }
    }

    /// Returns the attributes of an object of a volume that are known already.
    pub(crate) fn stored<'c>(
        compound: &mut Compound<'c>,
        object: &Object<'c>,
        attributes: &Attributes,
        request: AttrMask,
    ) -> Result<Shown, OpStop> {
        let status = if (request & OF_VOLUME).is_empty() {
            VolumeStatus::default()
        } else {
            compound.answered(object.volume, object.volume.status(&object.request()))?
        };
        let covered = compound.covered(object.volume.id(), attributes.ino);
        Ok(Shown {
            lent: Lent {
                owner: Decimal::new(attributes.uid),
                group: Decimal::new(attributes.gid),
                handle: HandleBytes::new(&object.handle_bytes(attributes.ino)),
                aces: Aces::of_mode(u32::from(attributes.mode), attributes.file_type),
            },
            fsid: object.volume.id().0,
            attributes: *attributes,
            mounted_on: covered.map_or(attributes.ino.0, |node| node.fileid),
            status,
            change_type: ChangeAttrType4::MonotonicIncr,
            minor: compound.minor,
            lease_time: compound.service.shared.state.lease_time(),
        })
    }

    /// Returns the attributes of a directory of the pseudo file system.
    pub(crate) fn pseudo(compound: &Compound<'_>, node: &Node) -> Shown {
        let pseudo = &compound.service.pseudo;
        let attributes = pseudo.attributes(node);
        Shown {
            lent: Lent {
                owner: Decimal::new(attributes.uid),
                group: Decimal::new(attributes.gid),
                handle: Target::Pseudo(node).handle(),
                aces: Aces::of_mode(u32::from(attributes.mode), attributes.file_type),
            },
            // No volume has this id.
            fsid: 0,
            attributes,
            mounted_on: node.fileid,
            status: VolumeStatus::default(),
            change_type: ChangeAttrType4::Undefined,
            minor: compound.minor,
            lease_time: compound.service.shared.state.lease_time(),
        }
    }

    /// Returns all attributes.
    pub(crate) fn attributes(&self) -> Attributes4<'_> {
        let shown = &self.attributes;
        let mut all = self.of_file_system();
        all.file_type = Some(file_type(shown.file_type));
        all.change = Some(shown.change);
        all.size = Some(shown.size);
        all.rdattr_error = Some(NfsStat4::Ok);
        all.acl = Some(Array::new(self.lent.aces.as_slice()).expect("a mode has few entries"));
        all.filehandle = Some(self.lent.handle.as_handle());
        all.fileid = Some(shown.ino.0);
        all.mode = Some(u32::from(shown.mode));
        all.numlinks = Some(shown.links);
        all.owner = Some(Utf8Str4(self.lent.owner.as_bytes()));
        all.owner_group = Some(Utf8Str4(self.lent.group.as_bytes()));
        all.rawdev = Some(SpecData4 { major: shown.device.major, minor: shown.device.minor });
        all.space_used = Some(shown.used);
        all.time_access = Some(time4(shown.atime));
        all.time_metadata = Some(time4(shown.ctime));
        all.time_modify = Some(time4(shown.mtime));
        all.mounted_on_fileid = Some(self.mounted_on);
        all
    }

    /// Returns the attributes that all objects of a file system share.
    fn of_file_system(&self) -> Attributes4<'_> {
        let status = &self.status;
        let mut all = Attributes4 {
            supported_attrs: Some(supported(self.minor)),
            fh_expire_type: Some(fh_expire::PERSISTENT),
            link_support: Some(true),
            symlink_support: Some(true),
            named_attr: Some(false),
            fsid: Some(Fsid4 { major: self.fsid, minor: 0 }),
            unique_handles: Some(true),
            lease_time: Some(self.lease_time),
            aclsupport: Some(acl_support::ALLOW | acl_support::DENY),
            cansettime: Some(true),
            case_insensitive: Some(false),
            case_preserving: Some(true),
            chown_restricted: Some(true),
            files_avail: Some(status.inodes_free),
            files_free: Some(status.inodes_free),
            files_total: Some(status.inodes_total),
            homogeneous: Some(true),
            maxfilesize: Some(FILE_BYTES_MAX),
            maxlink: Some(LINKS_MAX),
            maxname: u32::try_from(NAME_BYTES_MAX).ok(),
            maxread: Some(u64::from(TRANSFER_BYTES_MAX)),
            maxwrite: Some(u64::from(TRANSFER_BYTES_MAX)),
            no_trunc: Some(true),
            space_avail: Some(status.bytes_free),
            space_free: Some(status.bytes_free),
            space_total: Some(status.bytes_total),
            time_delta: Some(NfsTime4 { seconds: 0, nseconds: 1 }),
            ..Attributes4::default()
        };
        if self.minor >= 1 {
            all.suppattr_exclcreat = Some(settable_at_creation(self.minor) - AttrMask::of(&[Attr4::Acl]));
        }
        if self.minor >= 2 {
            all.change_attr_type = Some(self.change_type);
            all.clone_blksize = u32::try_from(CLONE_BLOCK_BYTES).ok();
            all.xattr_support = Some(self.fsid != 0);
        }
        all
    }
}

fn file_type(file_type: FileType) -> NfsFtype4 {
    match file_type {
        FileType::Regular => NfsFtype4::Reg,
        FileType::Directory => NfsFtype4::Dir,
        FileType::Block => NfsFtype4::Blk,
        FileType::Character => NfsFtype4::Chr,
        FileType::Symlink => NfsFtype4::Lnk,
        FileType::Socket => NfsFtype4::Sock,
        FileType::Fifo => NfsFtype4::Fifo,
    }
}

fn time4(time: Time) -> NfsTime4 {
    NfsTime4 { seconds: time.seconds(), nseconds: time.subsecond_nanos() }
}

/// Returns the attributes that can be set at creation.
fn settable_at_creation(minor: u32) -> AttrMask {
    if minor >= 2 { SETTABLE | CREATION_ONLY } else { SETTABLE }
}

/// Decodes the attributes to set on an existing object.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for attributes that are not supported or that the engine cannot store, NFS4ERR_INVAL for those
/// that cannot be set and for invalid values, NFS4ERR_BADOWNER for owners that are not numbers, NFS4ERR_BADXDR.
pub(crate) fn to_set(fattr: &Fattr4<'_>, minor: u32, current: &Attributes) -> Result<SetAttributes, OpStop> {
    check_settable(fattr.attrmask, SETTABLE, minor)?;
    values(&fattr.decode_values()?, u32::from(current.mode), current.file_type)
}

/// Decodes the attributes of a new object.
///
/// # Errors
/// Those of [`to_set`].
pub(crate) fn to_create(
    fattr: &Fattr4<'_>,
    minor: u32,
    file_type: FileType,
) -> Result<SetAttributes, OpStop> {
    check_settable(fattr.attrmask, settable_at_creation(minor), minor)?;
    values(&fattr.decode_values()?, 0, file_type)
}

fn check_settable(mask: AttrMask, settable: AttrMask, minor: u32) -> Result<(), OpStop> {
    if !(mask - supported(minor)).is_empty() {
        return Err(NfsStat4::AttrNotSupp.into());
    }
    if (mask - settable).is_empty() { Ok(()) } else { Err(NfsStat4::Inval.into()) }
}

/// Converts the values; `mode` is the mode before.
fn values(wanted: &Attributes4<'_>, mode: u32, file_type: FileType) -> Result<SetAttributes, OpStop> {
    let mut set = SetAttributes {
        size: wanted.size,
        uid: wanted.owner.map(number).transpose()?,
        gid: wanted.owner_group.map(number).transpose()?,
        atime: set_time(wanted.time_access_set)?,
        mtime: set_time(wanted.time_modify_set)?,
        mode: wanted.mode,
    };
    if let Some(ModeUmask4 { mode, umask }) = wanted.mode_umask {
        if wanted.mode.is_some() || umask > 0o777 {
            return Err(NfsStat4::Inval.into());
        }
        set.mode = Some(if mode > MODE_BITS { mode } else { mode & !umask });
    }
    if set.mode.is_some_and(|mode| mode > MODE_BITS) {
        return Err(NfsStat4::Inval.into());
    }
    if let Some(aces) = &wanted.acl {
        // The mode's other bits stay (RFC 8881 section 6.4.1.3).
        let permissions = acl::permissions(aces.iter(), file_type)?;
        set.mode = Some(set.mode.unwrap_or(mode) & !0o777 | permissions);
    }
    Ok(set)
}

/// Parses an owner or group, a number in digits (RFC 8881 section 5.9).
fn number(name: Utf8Str4<'_>) -> Result<u32, OpStop> {
    let digits = std::str::from_utf8(name.0).map_err(|_| OpStop::Status(NfsStat4::Inval))?;
    if digits.is_empty() {
        return Err(NfsStat4::Inval.into());
    }
    let plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    match digits.parse() {
        // The largest number means "none".
        Ok(number) if plain && number != u32::MAX => Ok(number),
        _ => Err(NfsStat4::BadOwner.into()),
    }
}

fn set_time(set: Option<SetTime4>) -> Result<SetTime, OpStop> {
    Ok(match set {
        None => SetTime::Keep,
        Some(SetTime4::SetToServerTime) => SetTime::Now,
        Some(SetTime4::SetToClientTime(NfsTime4 { seconds, nseconds })) if nseconds < NANOSECONDS => {
            SetTime::To(Time::from_parts(seconds, nseconds))
        }
        Some(_) => return Err(NfsStat4::Inval.into()),
    })
}

/// Returns the attributes of an object if only its inode number is requested.
pub(crate) fn of_number(ino: Ino) -> Attributes4<'static> {
    Attributes4 { fileid: Some(ino.0), rdattr_error: Some(NfsStat4::Ok), ..Attributes4::default() }
}

/// Returns what READDIR shows of an object whose attributes cannot be read (RFC 8881 section 5.8.1.12).
pub(crate) fn unreadable() -> Attributes4<'static> {
    Attributes4 { rdattr_error: Some(NfsStat4::Io), ..Attributes4::default() }
}
