//! What GETATTR, READDIR and VERIFY show of an object.

use volume::attributes::{Attributes, FileType};
use volume::ids::Ino;
use volume::limits::{CLONE_BLOCK_BYTES, FILE_BYTES_MAX, LINKS_MAX, NAME_BYTES_MAX, TRANSFER_BYTES_MAX};
use volume::results::VolumeStatus;
use volume::time::Time;
use wire::array::Array;
use wire::nfs4::{
    Attr4, AttrMask, Attributes4, ChangeAttrType4, Fsid4, NfsFtype4, NfsStat4, NfsTime4, SpecData4, Utf8Str4,
    acl_support, fh_expire,
};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::exports::pseudo::Node;
use crate::v4::attributes::acl::Aces;
use crate::v4::attributes::decimal::Decimal;
use crate::v4::attributes::{readable, settable_at_creation, supported};
use crate::v4::context::{Compound, HandleBytes, OpStop, Target};

/// Attributes that need the state of the whole volume.
const OF_VOLUME: AttrMask = AttrMask::of(&[
    Attr4::FilesAvail,
    Attr4::FilesFree,
    Attr4::FilesTotal,
    Attr4::SpaceAvail,
    Attr4::SpaceFree,
    Attr4::SpaceTotal,
]);

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
    let attributes = attributes(compound, target)?;
    Shown::of(compound, target, &attributes, request).map(|shown| shown.encode(out))
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
            compound.answered(volume, volume.status(&beside.request()))?
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
            minor: compound.minor,
            lease_time: compound.service.shared.state.lease_time(),
        }
    }

    /// Encodes those of the requested attributes that can be read.
    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        let shown = self.request & readable(self.minor);
        shown.encode_values(out, |attribute, out| self.encode_value(attribute, out));
    }

    /// Encodes the value of an attribute; those that all objects of a file system share are below.
    fn encode_value(&self, attribute: Attr4, out: &mut Encoder<'_>) {
        let shown = self.attributes;
        match attribute {
            Attr4::Type => file_type(shown.file_type).encode(out),
            Attr4::Change => out.u64(shown.change),
            Attr4::Size => out.u64(shown.size),
            Attr4::RdattrError => NfsStat4::Ok.encode(out),
            Attr4::Acl => encode_acl(shown, out),
            Attr4::Filehandle => self.handle.iter().for_each(|handle| handle.as_handle().encode(out)),
            Attr4::Fileid => out.u64(shown.ino.0),
            Attr4::Mode => out.u32(u32::from(shown.mode)),
            Attr4::Numlinks => out.u32(shown.links),
            Attr4::Owner => Utf8Str4(Decimal::new(shown.uid).as_bytes()).encode(out),
            Attr4::OwnerGroup => Utf8Str4(Decimal::new(shown.gid).as_bytes()).encode(out),
            Attr4::Rawdev => {
                SpecData4 { major: shown.device.major, minor: shown.device.minor }.encode(out);
            }
            Attr4::SpaceUsed => out.u64(shown.used),
            Attr4::TimeAccess => time4(shown.atime).encode(out),
            Attr4::TimeMetadata => time4(shown.ctime).encode(out),
            Attr4::TimeModify => time4(shown.mtime).encode(out),
            Attr4::MountedOnFileid => out.u64(self.mounted_on),
            shared => self.encode_shared_value(shared, out),
        }
    }

    fn encode_shared_value(&self, attribute: Attr4, out: &mut Encoder<'_>) {
        match attribute {
            Attr4::SupportedAttrs => supported(self.minor).encode(out),
            Attr4::FhExpireType => out.u32(fh_expire::PERSISTENT),
            Attr4::LinkSupport | Attr4::SymlinkSupport | Attr4::UniqueHandles | Attr4::Cansettime => {
                out.bool(true);
            }
            Attr4::CasePreserving | Attr4::ChownRestricted | Attr4::Homogeneous | Attr4::NoTrunc => {
                out.bool(true);
            }
            Attr4::NamedAttr | Attr4::CaseInsensitive => out.bool(false),
            Attr4::Fsid => Fsid4 { major: self.fsid, minor: 0 }.encode(out),
            Attr4::LeaseTime => out.u32(self.lease_time),
            Attr4::Aclsupport => out.u32(acl_support::ALLOW | acl_support::DENY),
            Attr4::FilesAvail | Attr4::FilesFree => out.u64(self.status.inodes_free),
            Attr4::FilesTotal => out.u64(self.status.inodes_total),
            Attr4::Maxfilesize => out.u64(FILE_BYTES_MAX),
            Attr4::Maxlink => out.u32(LINKS_MAX),
            Attr4::Maxname => out.u32(u32::try_from(NAME_BYTES_MAX).expect("a name is short")),
            Attr4::Maxread | Attr4::Maxwrite => out.u64(u64::from(TRANSFER_BYTES_MAX)),
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

fn time4(time: Time) -> NfsTime4 {
    NfsTime4 { seconds: time.seconds(), nseconds: time.subsecond_nanos() }
}

/// Returns the attributes of an object if only its inode number is requested.
pub(crate) fn of_number(ino: Ino) -> Attributes4<'static> {
    Attributes4 { fileid: Some(ino.0), rdattr_error: Some(NfsStat4::Ok), ..Attributes4::default() }
}

/// Returns what READDIR shows of an object whose attributes cannot be read (RFC 8881 section 5.8.1.12).
pub(crate) fn unreadable() -> Attributes4<'static> {
    Attributes4 { rdattr_error: Some(NfsStat4::Io), ..Attributes4::default() }
}
