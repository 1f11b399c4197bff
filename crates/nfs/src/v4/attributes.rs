//! Converts the engine's attributes to those of NFSv4 (RFC 8881 section 5, RFC 7862 section 12.2), and back.

use volume::attributes::{Attributes, FileType, SetAttributes, SetTime};
use volume::time::Time;
use wire::nfs4::{Attr4, AttrMask, Attributes4, Fattr4, ModeUmask4, NfsStat4, NfsTime4, SetTime4, Utf8Str4};

use crate::v4::context::OpStop;

pub(crate) mod acl;
mod decimal;
pub(crate) mod shown;

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
    Attr4::QuotaAvailHard,
    Attr4::QuotaAvailSoft,
    Attr4::QuotaUsed,
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

/// Attributes that GETATTR returns since NFSv4.1.
const SINCE_1: AttrMask = AttrMask::of(&[Attr4::SuppattrExclcreat]);

/// Attributes that GETATTR returns since NFSv4.2.
const SINCE_2: AttrMask = AttrMask::of(&[Attr4::CloneBlksize, Attr4::ChangeAttrType, Attr4::XattrSupport]);

/// Attributes that VERIFY cannot compare.
const NOT_COMPARED: AttrMask =
    AttrMask::of(&[Attr4::RdattrError, Attr4::TimeAccessSet, Attr4::TimeModifySet]);

/// Returns the attributes that a minor version supports.
fn supported(minor: u32) -> AttrMask {
    readable(minor) | WRITE_ONLY | if minor >= 2 { CREATION_ONLY } else { AttrMask::EMPTY }
}

/// Returns those of them that can be read.
fn readable(minor: u32) -> AttrMask {
    match minor {
        0 => SHOWN,
        1 => SHOWN | SINCE_1,
        _ => SHOWN | SINCE_1 | SINCE_2,
    }
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
