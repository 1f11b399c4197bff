//! MNT (RFC 1813 section 5.2.1): the handle of an export, or of a directory beneath it.

use std::fmt::Display;

use volume::attributes::FileType;
use volume::ids::Ino;
use volume::request::{Answer, Durability, Error, Failure, Promised, Request};
use volume::volume::Volume;

use wire::mount3::{DirPath, MntOk, MntRes};
use wire::nfs3::NfsStat3;
use wire::rpc::{AUTH_NONE, AUTH_SYS, AuthFlavors};
use wire::xdr::{Encode, Encoder};

use crate::call::{After, Call, Handled, Stop, file_handle};
use crate::context::refusals::{self, NO_EXPORT, PathText};
use crate::credentials;
use crate::link_local::Shown;
use crate::status;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let path: DirPath<'_> = call.arguments()?;
    let service = call.service;
    let Some((exports, rest)) = service.exports.at(path.0) else {
        return Err(refuse(call, path, NfsStat3::NoEnt, &NO_EXPORT));
    };
    let mut rule = None;
    let mut admitting = exports.filter(|export| {
        let refusal = export.refuses(call.connection.peer);
        rule = rule.or(refusal);
        refusal.is_none()
    });
    let Some(mounted) = admitting.next() else {
        drop(admitting);
        let rule =
            rule.expect("each path found has an export, and each that does not admit a client has a rule");
        return Err(refuse(call, path, NfsStat3::Acces, &rule));
    };
    let volume = service.volume(mounted.volume).ok_or(Stop::Status(NfsStat3::NoEnt))?;
    // The rules of a volume do not depend on the path that was mounted, see `exports`.
    let export = service.exports.admitting(mounted.volume, call.connection.peer).unwrap_or(mounted);
    // The superuser mounts. What the export makes of it must reach the directory, or MNT would go around the modes above it.
    let superuser = credentials::of_superuser(export);
    let request = Request { credentials: &superuser, now: call.now.wall, access: call.access, key: None };
    match walk(volume, &request, rest) {
        Ok(promised) => {
            let handle = volume.handle(promised.value).to_bytes();
            let flavors: &[u32] = if export.auth_sys_required { &[AUTH_SYS] } else { &[AUTH_SYS, AUTH_NONE] };
            let auth_flavors = AuthFlavors::new(flavors).expect("two flavors are within the limit");
            MntRes::Ok(MntOk { fhandle: file_handle(&handle), auth_flavors }).encode(out);
            service.shared.mounts.add(call.client(), path.0);
            tracing::info!(event = "mount", client = %Shown(call.client()), path = %PathText(path.0), "export mounted");
            Ok(After(Some((volume, promised.after))))
        }
        Err(failure) => {
            let status = status::nfs3(failure.error)?;
            let reason = format!("the directory is beneath the export {}: {}", export.path, failure.error);
            refuse(call, path, status, &reason);
            failed(status, out);
            Ok(After(Some((volume, failure.after))))
        }
    }
}

/// Logs that the client may not mount `path`. Returns the status as the reason to stop.
fn refuse(call: &Call<'_>, path: DirPath<'_>, status: NfsStat3, reason: &dyn Display) -> Stop {
    let (client, shown) = (call.connection.peer, status::mount3(status));
    refusals::log(client, path.0, &shown, reason);
    Stop::Status(status)
}

/// Resolves `path` from the root of a volume. Slashes may precede and follow components. Every component must be a
/// directory: clients follow symbolic links themselves.
fn walk(volume: &Volume, request: &Request<'_>, path: &[u8]) -> Answer<Ino> {
    let mut reached = Promised { value: Ino::ROOT, after: Durability::NOW };
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => continue,
            b".." => return Err(Error::Invalid.into()),
            _ => {}
        }
        let found = volume.lookup(request, reached.value, name)?;
        reached.after = reached.after.and(found.after);
        if found.value.attributes.file_type != FileType::Directory {
            return Err(Failure { error: Error::NotDirectory, after: reached.after });
        }
        reached.value = found.value.attributes.ino;
    }
    Ok(reached)
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    MntRes::Err(status::mount3(status)).encode(out);
}
