//! What GETATTR, READDIR and VERIFY show of an object.

use volume::attributes::{Attributes, FileType};
use volume::ids::Ino;
use volume::limits::{CLONE_BLOCK_BYTES, FILE_BYTES_MAX, NAME_BYTES_MAX, TRANSFER_BYTES_MAX};
use volume::quota::QuotaRoom;
use volume::results::VolumeStatus;
use volume::time::Time;
use wire::array::Array;
use wire::nfs4::{
    Attr4, AttrMask, Attributes4, Bitmap4, ChangeAttrType4, NfsFtype4, NfsStat4, NfsTime4, acl_support,
    fh_expire,
};
use wire::xdr::{Block, Encode as _, Encoder};

use crate::call::Object;
use crate::exports::pseudo::Node;
use crate::v4::attributes::acl::Aces;
use crate::v4::attributes::decimal::{self, Decimal};
use crate::v4::attributes::{readable, settable_at_creation, supported};
use crate::v4::context::{Compound, HandleBytes, OpStop, Target};

/// Attributes that need the state of the whole volume.
const OF_VOLUME: AttrMask = AttrMask::of(&[
    Attr4::FilesAvail,
    Attr4::FilesFree,
    Attr4::FilesTotal,
    Attr4::QuotaAvailHard,
    Attr4::QuotaAvailSoft,
    Attr4::QuotaUsed,
    Attr4::SpaceAvail,
    Attr4::SpaceFree,
    Attr4::SpaceTotal,
]);

/// Attributes about the limits of an object's owners.
const OF_QUOTA: AttrMask = AttrMask::of(&[Attr4::QuotaAvailHard, Attr4::QuotaAvailSoft, Attr4::QuotaUsed]);

/// Expands to [`USUAL`], and to the function that encodes them.
macro_rules! usual {
    ($($attribute:ident)*) => {
        /// What clients ask for with most calls, in the order of the attributes: a Linux client about the object of a
        /// COMPOUND, and about each name of a directory.
        const USUAL: AttrMask = AttrMask::of(&[$(Attr4::$attribute),*]);

        impl Shown<'_> {
            /// Writes the values of some of [`USUAL`]. The compiler knows which attribute each line is about, so only
            /// the test whether it is requested remains, and not even that if it knows the set.
            #[inline(always)]
            fn put_usual(&self, shown: AttrMask, fields: &mut Block<'_>) {
                $(if shown.contains(Attr4::$attribute) {
                    self.put(Attr4::$attribute, fields);
                })*
            }
        }
    };
}

usual! {
    Type Change Size Fsid RdattrError Filehandle Fileid Mode Numlinks Owner OwnerGroup Rawdev SpaceUsed TimeAccess
    TimeMetadata TimeModify MountedOnFileid
}

/// What a Linux client asks for about the object of a COMPOUND: all of [`USUAL`] but those that are for names in directories.
const OF_OBJECT: AttrMask = AttrMask::of(&[
    Attr4::Type,
    Attr4::Change,
    Attr4::Size,
    Attr4::Fsid,
    Attr4::Fileid,
    Attr4::Mode,
    Attr4::Numlinks,
    Attr4::Owner,
    Attr4::OwnerGroup,
    Attr4::Rawdev,
    Attr4::SpaceUsed,
    Attr4::TimeAccess,
    Attr4::TimeMetadata,
    Attr4::TimeModify,
    Attr4::MountedOnFileid,
]);

/// Most bytes of the values of [`USUAL`].
const USUAL_BYTES_MAX: usize =
    4 * 4 + 7 * 8 + 2 * 8 + 3 * 12 + 2 * decimal::ENCODED_BYTES_MAX + HandleBytes::ENCODED_MAX;

/// All that is needed to encode the requested attributes of an object.
pub(crate) struct Shown<'a> {
    request: AttrMask,
    attributes: &'a Attributes,
    /// Zero for the pseudo file system; no volume has this id.
    fsid: u64,
    mounted_on: u64,
    /// Present if requested.
    handle: Option<HandleBytes>,
    /// Present if any of [`OF_VOLUME`] is requested.
    status: VolumeStatus,
    /// Present if any of [`OF_QUOTA`] is requested.
    quota: QuotaRoom,
    minor: u32,
    lease_time: u32,
}

/// Encodes the requested attributes of a filehandle's object as far as they can be read.
pub(crate) fn encode<'c>(
    compound: &mut Compound<'c>,
    target: &Target<'c>,
    request: AttrMask,
    out: &mut Encoder<'_>,
) -> Result<(), OpStop> {
    match target {
        Target::Pseudo(node) => {
            let attributes = compound.service.pseudo.attributes(node);
            Shown::pseudo(compound, node, &attributes, request).encode(out);
        }
        Target::Stored(object) => {
            let answer = object.volume.attributes(&object.request(), object.ino);
            let attributes = compound.shown(object.volume, &answer)?;
            Shown::stored(compound, object, attributes, request)?.encode(out);
        }
    }
    Ok(())
}

/// Reads the attributes of a filehandle's object.
pub(crate) fn attributes<'c>(compound: &mut Compound<'c>, target: &Target<'c>) -> Result<Attributes, OpStop> {
    match target {
        Target::Pseudo(node) => Ok(compound.service.pseudo.attributes(node)),
        Target::Stored(object) => {
            compound.answered(object.volume, object.volume.attributes(&object.request(), object.ino))
        }
    }
}

impl<'a> Shown<'a> {
    /// Returns what is shown of a filehandle's object with these attributes.
    pub(crate) fn of<'c>(
        compound: &mut Compound<'c>,
        target: &Target<'c>,
        attributes: &'a Attributes,
        request: AttrMask,
    ) -> Result<Shown<'a>, OpStop> {
        match target {
            Target::Pseudo(node) => Ok(Shown::pseudo(compound, node, attributes, request)),
            Target::Stored(object) => Shown::stored(compound, object, attributes, request),
        }
    }

    /// Returns what is shown of an object in the volume of `beside`.
    #[inline(always)]
    pub(crate) fn stored<'c>(
        compound: &mut Compound<'c>,
        beside: &Object<'c>,
        attributes: &'a Attributes,
        request: AttrMask,
    ) -> Result<Shown<'a>, OpStop> {
        let volume = beside.volume;
        let status = if (request & OF_VOLUME).is_empty() {
            VolumeStatus::default()
        } else {
            compound.answered(volume, volume.status_at(&beside.request(), attributes.ino))?
        };
        let quota = if (request & OF_QUOTA).is_empty() {
            QuotaRoom::default()
        } else {
            compound.answered(volume, volume.quota_room(&beside.request(), attributes.ino))?
        };
        let covered = compound.covered(volume.id(), attributes.ino);
        let handle = || HandleBytes::new(&beside.handle_bytes(attributes.ino));
        Ok(Shown {
            request,
            attributes,
            fsid: volume.id().0,
            mounted_on: covered.map_or(attributes.ino.0, |node| node.fileid),
            handle: request.contains(Attr4::Filehandle).then(handle),
            status,
            quota,
            minor: compound.minor,
            lease_time: compound.service.shared.state.lease_time(),
        })
    }

    /// Returns what is shown of a directory of the pseudo file system.
    fn pseudo(
        compound: &Compound<'_>,
        node: &Node,
        attributes: &'a Attributes,
        request: AttrMask,
    ) -> Shown<'a> {
        Shown {
            request,
            attributes,
            fsid: 0,
            mounted_on: node.fileid,
            handle: Some(Target::Pseudo(node).handle()),
            status: VolumeStatus::default(),
            quota: QuotaRoom::default(),
            minor: compound.minor,
            lease_time: compound.service.shared.state.lease_time(),
        }
    }

    /// Encodes those of the requested attributes that can be read.
    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        match self.request & readable(self.minor) {
            // Two sets that have code of their own, in which each attribute has its place.
            OF_OBJECT => self.encode_known::<{ OF_OBJECT.bitmap().bits() }>(out),
            USUAL => self.encode_known::<{ USUAL.bitmap().bits() }>(out),
            usual if (usual - USUAL).is_empty() => self.encode_usual(usual, out),
            shown => shown.encode_values(out, |attribute, out| {
                if USUAL.contains(attribute) {
                    out.fields::<USUAL_BYTES_MAX>(|fields| self.put(attribute, fields));
                } else {
                    self.encode_unusual(attribute, out);
                }
            }),
        }
    }

    /// Encodes those of [`USUAL`] that are in a set which the compiler knows.
    fn encode_known<const SHOWN: u128>(&self, out: &mut Encoder<'_>) {
        out.fields::<{ AttrMask::FATTR_BYTES_MAX + USUAL_BYTES_MAX }>(|fields| {
            let shown = const { AttrMask::from_bitmap(Bitmap4::from_bits(SHOWN)) };
            shown.put_around(fields, |fields| self.put_usual(shown, fields));
        });
    }

    /// Encodes some of [`USUAL`].
    fn encode_usual(&self, shown: AttrMask, out: &mut Encoder<'_>) {
        out.fields::<{ AttrMask::FATTR_BYTES_MAX + USUAL_BYTES_MAX }>(|fields| {
            shown.put_around(fields, |fields| self.put_usual(shown, fields));
        });
    }

    /// Writes the value of one of [`USUAL`].
    #[inline(always)]
    fn put(&self, attribute: Attr4, fields: &mut Block<'_>) {
        let shown = self.attributes;
        match attribute {
            Attr4::Type => fields.u32(file_type(shown.file_type).code()),
            Attr4::Change => fields.u64(shown.change),
            Attr4::Size => fields.u64(shown.size),
            Attr4::Fsid => [self.fsid, 0].iter().for_each(|part| fields.u64(*part)),
            Attr4::RdattrError => fields.u32(NfsStat4::Ok.code()),
            Attr4::Filehandle => self.handle.iter().for_each(|handle| handle.put(fields)),
            Attr4::Fileid => fields.u64(shown.ino.0),
            Attr4::Mode => fields.u32(u32::from(shown.mode)),
            Attr4::Numlinks => fields.u32(shown.links),
            Attr4::Owner => Decimal(shown.uid).put(fields),
            Attr4::OwnerGroup => Decimal(shown.gid).put(fields),
            Attr4::Rawdev => {
                [shown.device.major, shown.device.minor].iter().for_each(|part| fields.u32(*part))
            }
            Attr4::SpaceUsed => fields.u64(shown.used),
            Attr4::TimeAccess => put_time(shown.atime, fields),
            Attr4::TimeMetadata => put_time(shown.ctime, fields),
            Attr4::TimeModify => put_time(shown.mtime, fields),
            Attr4::MountedOnFileid => fields.u64(self.mounted_on),
            other => unreachable!("{other:?} is not among the usual ones"),
        }
    }

    /// Returns what a limit leaves, which is no more than is free.
    fn within_free(&self, left: Option<u64>) -> u64 {
        left.unwrap_or(u64::MAX).min(self.status.bytes_free)
    }

    /// Encodes the value of another attribute, which most objects of a file system share.
    fn encode_unusual(&self, attribute: Attr4, out: &mut Encoder<'_>) {
        match attribute {
            Attr4::Acl => encode_acl(self.attributes, out),
            Attr4::SupportedAttrs => supported(self.minor).encode(out),
            Attr4::FhExpireType => out.u32(fh_expire::PERSISTENT),
            Attr4::LinkSupport | Attr4::SymlinkSupport | Attr4::UniqueHandles | Attr4::Cansettime => {
                out.bool(true);
            }
            Attr4::CasePreserving | Attr4::ChownRestricted | Attr4::Homogeneous | Attr4::NoTrunc => {
                out.bool(true);
            }
            Attr4::NamedAttr | Attr4::CaseInsensitive => out.bool(false),
            Attr4::LeaseTime => out.u32(self.lease_time),
            Attr4::Aclsupport => out.u32(acl_support::ALLOW | acl_support::DENY),
            Attr4::FilesAvail | Attr4::FilesFree => out.u64(self.status.inodes_free),
            Attr4::FilesTotal => out.u64(self.status.inodes_total),
            Attr4::Maxfilesize => out.u64(FILE_BYTES_MAX),
            Attr4::Maxlink => out.u32(self.attributes.file_type.links_max()),
            Attr4::Maxname => out.u32(u32::try_from(NAME_BYTES_MAX).expect("a name is short")),
            Attr4::Maxread | Attr4::Maxwrite => out.u64(u64::from(TRANSFER_BYTES_MAX)),
            Attr4::QuotaAvailHard => out.u64(self.within_free(self.quota.hard)),
            Attr4::QuotaAvailSoft => out.u64(self.within_free(self.quota.soft.or(self.quota.hard))),
            Attr4::QuotaUsed => out.u64(self.quota.hard.map_or(self.status.bytes_used, |_| self.quota.used)),
            Attr4::SpaceAvail | Attr4::SpaceFree => out.u64(self.status.bytes_free),
            Attr4::SpaceTotal => out.u64(self.status.bytes_total),
            Attr4::TimeDelta => NfsTime4 { seconds: 0, nseconds: 1 }.encode(out),
            Attr4::SuppattrExclcreat => {
                (settable_at_creation(self.minor) - AttrMask::of(&[Attr4::Acl])).encode(out);
            }
            Attr4::ChangeAttrType if self.fsid == 0 => ChangeAttrType4::Undefined.encode(out),
            Attr4::ChangeAttrType => ChangeAttrType4::MonotonicIncr.encode(out),
            Attr4::CloneBlksize => out.u32(u32::try_from(CLONE_BLOCK_BYTES).expect("a block is small")),
            Attr4::XattrSupport => out.bool(self.fsid != 0),
            other => unreachable!("{other:?} cannot be read"),
        }
    }
}

fn encode_acl(shown: &Attributes, out: &mut Encoder<'_>) {
    let aces = Aces::of_mode(u32::from(shown.mode), shown.file_type);
    Array::<_, { wire::limits::ACES_MAX }>::new(aces.as_slice()).expect("a mode has few entries").encode(out);
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

fn put_time(time: Time, fields: &mut Block<'_>) {
    fields.put(time.seconds().to_be_bytes());
    fields.u32(time.subsecond_nanos());
}

/// The attributes that a directory has of its entries.
pub(crate) const OF_ENTRY: AttrMask =
    AttrMask::of(&[Attr4::Fileid, Attr4::MountedOnFileid, Attr4::RdattrError]);

/// Returns what READDIR shows of an entry on which nothing is mounted without the attributes of its object: because no others are
/// requested, or for this reason (RFC 8881 section 5.8.1.12).
pub(crate) fn of_entry(ino: Ino, why: NfsStat4) -> Attributes4<'static> {
    Attributes4 {
        fileid: Some(ino.0),
        mounted_on_fileid: Some(ino.0),
        rdattr_error: Some(why),
        ..Attributes4::default()
    }
}

#[cfg(test)]
mod tests {
    use volume::attributes::Device;
    use wire::nfs4::{Fsid4, SpecData4, Utf8Str4};

    use super::*;

    /// Attributes that all differ.
    fn attributes() -> Attributes {
        Attributes {
            ino: Ino(1 << 40),
            file_type: FileType::Regular,
            mode: 0o640,
            links: 3,
            uid: u32::MAX - 1,
            gid: u32::MAX,
            size: 5,
            used: 6 << 33,
            device: Device { major: 7, minor: 8 },
            atime: Time::from_parts(9, 10),
            mtime: Time::from_parts(-11, 12),
            ctime: Time::from_parts(13, 14),
            change: 15,
        }
    }

    /// The same as the types of NFSv4 have it.
    fn attributes4(handle: &HandleBytes) -> Attributes4<'_> {
        let time = |seconds, nseconds| Some(NfsTime4 { seconds, nseconds });
        Attributes4 {
            file_type: Some(NfsFtype4::Reg),
            change: Some(15),
            size: Some(5),
            fsid: Some(Fsid4 { major: 16, minor: 0 }),
            rdattr_error: Some(NfsStat4::Ok),
            filehandle: Some(handle.as_handle()),
            fileid: Some(1 << 40),
            mode: Some(0o640),
            numlinks: Some(3),
            owner: Some(Utf8Str4(b"4294967294")),
            owner_group: Some(Utf8Str4(b"4294967295")),
            rawdev: Some(SpecData4 { major: 7, minor: 8 }),
            space_used: Some(6 << 33),
            time_access: time(9, 10),
            time_metadata: time(13, 14),
            time_modify: time(-11, 12),
            mounted_on_fileid: Some(17),
            xattr_support: Some(true),
            ..Attributes4::default()
        }
    }

    #[test]
    fn usual_attributes_are_encoded_with_and_without_others() {
        let (usual, attributes) = (USUAL.iter().collect::<Vec<_>>(), attributes());
        let all = (1_u32 << usual.len()) - 1;
        // A prime step, so that each attribute comes with and without each other.
        for subset in (0..all).step_by(97).chain([all]) {
            let requested = usual.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1);
            let request = requested.fold(AttrMask::EMPTY, |mask, (_, attribute)| mask.with(*attribute));
            for request in [request, request.with(Attr4::XattrSupport)] {
                let handle = HandleBytes::new(&[0x5a; volume::handle::HANDLE_BYTES]);
                let shown = Shown {
                    request,
                    attributes: &attributes,
                    fsid: 16,
                    mounted_on: 17,
                    handle: Some(handle),
                    status: VolumeStatus::default(),
                    quota: QuotaRoom::default(),
                    minor: 2,
                    lease_time: 90,
                };
                let (mut expected, mut encoded) = (Vec::new(), Vec::new());
                attributes4(&handle).encode_requested(request, &mut Encoder::new(&mut expected));
                shown.encode(&mut Encoder::new(&mut encoded));
                assert_eq!(encoded, expected, "{request:?}");
            }
        }
    }
}
