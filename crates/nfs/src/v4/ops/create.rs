//! CREATE (RFC 8881 section 18.4): creates anything but regular files, which OPEN creates, and makes it current.

use volume::attributes::{Device, FileType, SetAttributes};
use volume::request::{Answer, Request};
use volume::results::{Created, NodeKind};
use volume::volume::Volume;
use wire::nfs4::{CreateArgs, CreateOk, CreateRes, CreateType4, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::rpc_cache::ToJournal;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::once::{Once4, change_info, once};
use crate::v4::{attributes, names};

pub(crate) fn run(compound: &mut Compound<'_>, args: &CreateArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let directory = compound.changeable()?;
    let file_type = match args.objtype {
        CreateType4::Lnk(_) => FileType::Symlink,
        CreateType4::Blk(_) => FileType::Block,
        CreateType4::Chr(_) => FileType::Character,
        CreateType4::Sock => FileType::Socket,
        CreateType4::Fifo => FileType::Fifo,
        CreateType4::Dir => FileType::Directory,
        CreateType4::BadType(_) => return Err(NfsStat4::BadType.into()),
    };
    compound.check_directory(&directory)?;
    let name = names::check(args.objname)?;
    let set = attributes::to_create(&args.createattrs, compound.minor, file_type)?;
    let attrset = args.createattrs.attrmask;
    let once_only = Once4 {
        run: |request: &Request<'_>, encode: ToJournal<'_, _>| {
            create(directory.volume, request, &directory, name, &args.objtype, &set, encode)
        },
        succeed: |created: &Created, out: &mut Encoder<'_>| {
            CreateRes::Ok(CreateOk { cinfo: change_info(&created.directory), attrset }).encode(out);
        },
        current: |created: &Created| Some(created.attributes.ino),
    };
    once(compound, &directory, out, once_only)
}

fn create(
    volume: &Volume,
    request: &Request<'_>,
    directory: &Object<'_>,
    name: &[u8],
    what: &CreateType4<'_>,
    set: &SetAttributes,
    encode: ToJournal<'_, Created>,
) -> Answer<Created> {
    let directory = directory.ino;
    let device = |numbers: &wire::nfs4::SpecData4| Device { major: numbers.major, minor: numbers.minor };
    let kind = match what {
        CreateType4::Lnk(text) => {
            return volume.make_symlink(request, directory, name, text.0, set, encode);
        }
        CreateType4::Dir | CreateType4::BadType(_) => {
            return volume.make_directory(request, directory, name, set, encode);
        }
        CreateType4::Blk(numbers) => NodeKind::Block(device(numbers)),
        CreateType4::Chr(numbers) => NodeKind::Character(device(numbers)),
        CreateType4::Sock => NodeKind::Socket,
        CreateType4::Fifo => NodeKind::Fifo,
    };
    volume.make_node(request, directory, name, kind, set, encode)
}

impl<'c> Compound<'c> {
    /// Checks that an object is a directory, before anything about the name.
    ///
    /// # Errors
    /// NFS4ERR_NOTDIR, or the status of NFSv4.1 for symbolic links.
    pub(crate) fn check_directory(&mut self, object: &Object<'c>) -> Result<(), OpStop> {
        let found = self.answered(object.volume, object.volume.attributes(&object.request(), object.ino))?;
        match found.file_type {
            FileType::Directory => Ok(()),
            _ => Err(NfsStat4::NotDir.into()),
        }
    }
}
