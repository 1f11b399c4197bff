//! LOOKUP (RFC 8881 section 18.13): makes the object of a name in the current directory current.

use volume::attributes::FileType;
use wire::nfs4::{LookupArgs, LookupRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::context::refusals::{self, NO_EXPORT};
use crate::v4::context::{Compound, Done, OpStop, Target};
use crate::v4::names;

pub(crate) fn run(compound: &mut Compound<'_>, args: &LookupArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let target = compound.target()?;
    let (found, is_entered) = match &target {
        Target::Pseudo(node) => {
            let name = names::check(args.objname)?;
            match compound.beneath(node, name)? {
                Some(found) => (found, true),
                None => return Err(compound.refuse(node, name).into()),
            }
        }
        Target::Stored(directory) => {
            let found = names::check(args.objname).and_then(|name| compound.find(directory, name));
            if found.is_err() {
                // Whatever else is wrong, the type of the object comes first.
                compound.check_lookup(directory)?;
            }
            let (found, change) = found?;
            (found, change.is_none())
        }
    };
    compound.set_current(found)?;
    if is_entered {
        compound.note_mount();
    }
    LookupRes::Ok(()).encode(out);
    Ok(())
}

impl<'c> Compound<'c> {
    /// Looks up `name` in a directory of the pseudo file system.
    pub(crate) fn beneath(
        &self,
        node: &'c crate::exports::pseudo::Node,
        name: &[u8],
    ) -> Result<Option<Target<'c>>, OpStop> {
        let service = self.service;
        match service.pseudo.child(node, name, &service.exports, self.connection.peer) {
            Some(child) => self.entered(child).map(Some),
            None => Ok(None),
        }
    }

    /// Logs that there is no export for this client at `name` in a directory of the pseudo file system. Returns
    /// NFS4ERR_NOENT, which does not reveal whether other clients see something there.
    fn refuse(&self, node: &crate::exports::pseudo::Node, name: &[u8]) -> NfsStat4 {
        let (service, peer, status) = (self.service, self.connection.peer, NfsStat4::NoEnt);
        let (path, rule) = service.pseudo.hidden(node, name, &service.exports, peer);
        let reason: &dyn std::fmt::Display = match &rule {
            Some(rule) => rule,
            None => &NO_EXPORT,
        };
        refusals::log(peer, &path, &status, reason);
        status
    }

    /// Looks up `name` in a directory of a volume. At the root of a volume, exports whose paths lead through it come
    /// first. With an object of the volume, returns the change value of the directory.
    pub(crate) fn find(
        &mut self,
        directory: &Object<'c>,
        name: &[u8],
    ) -> Result<(Target<'c>, Option<u64>), OpStop> {
        if let Some(found) = self.export_at(directory, name)? {
            return Ok((found, None));
        }
        let found = directory.volume.lookup(&directory.request(), directory.ino, name);
        let found = self.answered(directory.volume, found)?;
        let object = Target::Stored(directory.beside(found.attributes.ino));
        Ok((object, Some(found.directory.change)))
    }

    /// Returns what the paths of exports have at `name`, if `directory` is the root of a volume through which they lead.
    pub(crate) fn export_at(
        &self,
        directory: &Object<'c>,
        name: &[u8],
    ) -> Result<Option<Target<'c>>, OpStop> {
        match self.covered(directory.volume.id(), directory.ino) {
            Some(node) => self.beneath(node, name),
            None => Ok(None),
        }
    }

    /// Checks that an object is a directory; symbolic links have a status of their own (RFC 8881 section 18.13.3).
    pub(crate) fn check_lookup(&mut self, object: &Object<'c>) -> Result<(), OpStop> {
        let found = self.answered(object.volume, object.volume.attributes(&object.request(), object.ino))?;
        match found.file_type {
            FileType::Directory => Ok(()),
            FileType::Symlink => Err(NfsStat4::Symlink.into()),
            _ => Err(NfsStat4::NotDir.into()),
        }
    }
}
