//! Decodes NFSv3 replies.

use volume::attributes::{Device, FileType};
use volume::request::Error;
use volume::results::Stability;
use wire::mount3;
use wire::nfs3::*;
use wire::xdr::{Decode, decode_all};

use crate::call::{Attrs, Call, CallResult, Listed, Success, Wcc};

/// The bytes of a listing without names: attributes, verifier, end of the list, eof.
pub(super) const EMPTY_BYTES: u32 = 4 + 84 + 8 + 4 + 4;

/// A decoded reply.
pub(super) struct Decoded {
    pub(super) outcome: CallResult,
    /// The attributes that a failure shows.
    pub(super) failure_attributes: Vec<Wcc>,
    /// The handles shown, with their inode numbers.
    pub(super) handles: Vec<(u64, Vec<u8>)>,
}

/// Returns the bytes of an entry of a listing.
pub(super) fn entry_bytes(entry: &Listed, plus: bool) -> u32 {
    let name = u32::try_from(entry.name.len()).unwrap_or(u32::MAX);
    let plain = 4 + 8 + 4 + name.next_multiple_of(4) + 8;
    let with = if entry.attributes.is_some() { 84 + 4 + 36 } else { 0 };
    if plus { plain + 4 + with + 4 } else { plain }
}

/// Whether a listing was refused with NFS3ERR_TOOSMALL.
pub(super) fn is_too_small(bytes: &[u8]) -> bool {
    bytes.get(..4) == Some(&NfsStat3::TooSmall.code().to_be_bytes())
}

/// Returns the handle in a MNT reply.
pub(super) fn mounted(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mounted: mount3::MntRes<'_> = whole(bytes)?;
    mounted.map(|mounted| mounted.fhandle.as_bytes().to_vec()).map_err(|status| format!("MNT: {status:?}"))
}

fn whole<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    decode_all(bytes).map_err(|error| format!("the results: {error}"))
}

fn error(status: NfsStat3) -> Result<Error, String> {
    Ok(match status {
        NfsStat3::Perm => Error::NotPermitted,
        NfsStat3::NoEnt => Error::NoEntry,
        NfsStat3::Io => Error::Io,
        NfsStat3::Acces => Error::AccessDenied,
        NfsStat3::Exist => Error::Exists,
        NfsStat3::NotDir => Error::NotDirectory,
        NfsStat3::IsDir => Error::IsDirectory,
        NfsStat3::Inval => Error::Invalid,
        NfsStat3::Fbig => Error::FileTooLarge,
        NfsStat3::NoSpc => Error::NoSpace,
        NfsStat3::Dquot => Error::QuotaExceeded,
        NfsStat3::Rofs => Error::ReadOnly,
        NfsStat3::NameTooLong => Error::NameTooLong,
        NfsStat3::NotEmpty => Error::NotEmpty,
        NfsStat3::Stale => Error::Stale,
        NfsStat3::NotSync => Error::NotSync,
        other => return Err(format!("nothing explains NFS3ERR_{other:?}")),
    })
}

fn stability(stable: StableHow) -> Stability {
    match stable {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

fn nanos(time: NfsTime3) -> Result<i64, String> {
    if time.nanoseconds >= 1_000_000_000 {
        return Err(format!("{time:?} is not a valid time"));
    }
    Ok(i64::from(time.seconds) * 1_000_000_000 + i64::from(time.nanoseconds))
}

/// Decodes the results of one call.
struct Reader {
    volume: u64,
    failure_attributes: Vec<Wcc>,
    handles: Vec<(u64, Vec<u8>)>,
}

impl Reader {
    fn seen(&self, attributes: &Fattr3) -> Result<Attrs, String> {
        if attributes.fsid != self.volume || attributes.mode > 0o7777 {
            return Err(format!("invalid attributes {attributes:?}"));
        }
        let kind = match attributes.file_type {
            FileType3::Reg => FileType::Regular,
            FileType3::Dir => FileType::Directory,
            FileType3::Blk => FileType::Block,
            FileType3::Chr => FileType::Character,
            FileType3::Lnk => FileType::Symlink,
            FileType3::Sock => FileType::Socket,
            FileType3::Fifo => FileType::Fifo,
        };
        Ok(Attrs {
            ino: attributes.fileid,
            kind,
            mode: attributes.mode,
            links: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            used: attributes.used,
            device: Device { major: attributes.rdev.major, minor: attributes.rdev.minor },
            atime: nanos(attributes.atime)?,
            mtime: nanos(attributes.mtime)?,
            ctime: nanos(attributes.ctime)?,
            change: None,
        })
    }

    /// Returns attributes that this server never omits from a success.
    fn shown(&self, attributes: PostOpAttr) -> Result<Attrs, String> {
        self.seen(&attributes.ok_or("attributes are missing")?)
    }

    fn wcc(&self, wcc: WccData) -> Result<Wcc, String> {
        let before = wcc.before.ok_or("attributes before the change are missing")?;
        Ok(Wcc {
            before: Some((before.size, nanos(before.mtime)?, nanos(before.ctime)?)),
            after: Some(self.shown(wcc.after)?),
        })
    }

    /// Returns a failure, and keeps the attributes it shows.
    fn failed<F>(&mut self, failed: &Failed<F>, wccs: &[WccData]) -> Result<CallResult, String> {
        for wcc in wccs.iter().filter(|wcc| wcc.after.is_some()) {
            let shown = self.wcc(*wcc)?;
            self.failure_attributes.push(shown);
        }
        Ok(Err(error(failed.status)?))
    }

    /// Returns a failure that shows one object's attributes without those before the call.
    fn failed_showing<F>(
        &mut self,
        failed: &Failed<F>,
        attributes: PostOpAttr,
    ) -> Result<CallResult, String> {
        let wcc = WccData { before: attributes.map(WccAttr::from), after: attributes };
        self.failed(failed, &[wcc])
    }

    fn created(&mut self, bytes: &[u8]) -> Result<CallResult, String> {
        match whole::<CreateRes<'_>>(bytes)? {
            Ok(created) => {
                let object = self.shown(created.obj_attributes)?;
                let handle = created.obj.ok_or("the handle is missing")?;
                self.handles.push((object.ino, handle.as_bytes().to_vec()));
                Ok(Ok(Success::Created { object, directory: self.wcc(created.dir_wcc)? }))
            }
            Err(failed) => self.failed(&failed, &[failed.body]),
        }
    }

    fn listing(&mut self, bytes: &[u8]) -> Result<CallResult, String> {
        match whole::<ReaddirRes<'_>>(bytes)? {
            Ok(listing) => {
                let entry = |entry: Entry3<'_>| Listed {
                    ino: entry.fileid,
                    cookie: entry.cookie,
                    name: entry.name.0.to_vec(),
                    attributes: None,
                };
                let entries = listing.entries.iter().map(entry).collect();
                let directory = Some(self.shown(listing.dir_attributes)?);
                Ok(Ok(Success::Listing { entries, end: listing.eof, directory }))
            }
            Err(failed) => self.failed_showing(&failed, failed.body),
        }
    }

    fn listing_plus(&mut self, bytes: &[u8]) -> Result<CallResult, String> {
        match whole::<ReaddirplusRes<'_>>(bytes)? {
            Ok(listing) => {
                let mut entries = Vec::new();
                for entry in listing.entries {
                    let attributes = entry.name_attributes.map(|seen| self.seen(&seen)).transpose()?;
                    if let Some(handle) = entry.name_handle {
                        self.handles.push((entry.fileid, handle.as_bytes().to_vec()));
                    }
                    let (ino, cookie, name) = (entry.fileid, entry.cookie, entry.name.0.to_vec());
                    entries.push(Listed { ino, cookie, name, attributes });
                }
                let directory = Some(self.shown(listing.dir_attributes)?);
                Ok(Ok(Success::Listing { entries, end: listing.eof, directory }))
            }
            Err(failed) => self.failed_showing(&failed, failed.body),
        }
    }

    /// Decodes READ, WRITE and COMMIT.
    fn data(&mut self, call: &Call, bytes: &[u8]) -> Result<CallResult, String> {
        match call {
            Call::Read { .. } => match whole::<ReadRes<'_>>(bytes)? {
                Ok(read) if read.count as usize != read.data.len() => {
                    Err(format!("count is {}, but {} bytes follow", read.count, read.data.len()))
                }
                Ok(read) => Ok(Ok(Success::Data {
                    bytes: read.data.to_vec(),
                    eof: read.eof,
                    object: Some(self.shown(read.file_attributes)?),
                })),
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            Call::Write { .. } => match whole::<WriteRes>(bytes)? {
                Ok(written) => Ok(Ok(Success::Written {
                    count: written.count,
                    committed: stability(written.committed),
                    verifier: written.verf,
                    object: self.wcc(written.file_wcc)?,
                })),
                Err(failed) => self.failed(&failed, &[failed.body]),
            },
            _ => match whole::<CommitRes>(bytes)? {
                Ok(committed) => Ok(Ok(Success::Committed {
                    verifier: committed.verf,
                    object: self.wcc(committed.file_wcc)?,
                })),
                Err(failed) => self.failed(&failed, &[failed.body]),
            },
        }
    }

    /// Decodes LOOKUP, REMOVE, RMDIR, RENAME and LINK.
    fn names(&mut self, call: &Call, bytes: &[u8]) -> Result<CallResult, String> {
        match call {
            Call::Remove { .. } | Call::RemoveDirectory { .. } => match whole::<RemoveRes>(bytes)? {
                Ok(removed) => Ok(Ok(Success::Removed { directory: self.wcc(removed.dir_wcc)? })),
                Err(failed) => self.failed(&failed, &[failed.body]),
            },
            Call::Rename { .. } => match whole::<RenameRes>(bytes)? {
                Ok(renamed) => {
                    let (from, to) = (self.wcc(renamed.fromdir_wcc)?, self.wcc(renamed.todir_wcc)?);
                    Ok(Ok(Success::Renamed { from, to }))
                }
                Err(failed) => self.failed(&failed, &[failed.body.fromdir_wcc, failed.body.todir_wcc]),
            },
            Call::Lookup { .. } => match whole::<LookupRes<'_>>(bytes)? {
                Ok(found) => {
                    let object = self.shown(found.obj_attributes)?;
                    self.handles.push((object.ino, found.object.as_bytes().to_vec()));
                    Ok(Ok(Success::Found { object, directory: Some(self.shown(found.dir_attributes)?) }))
                }
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            _ => match whole::<LinkRes>(bytes)? {
                Ok(linked) => Ok(Ok(Success::Linked {
                    object: Some(self.shown(linked.file_attributes)?),
                    directory: self.wcc(linked.linkdir_wcc)?,
                })),
                Err(failed) => {
                    let attributes = failed.body.file_attributes;
                    let file = WccData { before: attributes.map(WccAttr::from), after: attributes };
                    self.failed(&failed, &[file, failed.body.linkdir_wcc])
                }
            },
        }
    }

    /// Decodes FSSTAT, FSINFO and PATHCONF.
    fn file_system(&mut self, call: &Call, bytes: &[u8]) -> Result<CallResult, String> {
        match call {
            Call::Status => match whole::<FsstatRes>(bytes)? {
                Ok(status) if status.fbytes > status.tbytes || status.ffiles > status.tfiles => {
                    Err(format!("more is free than the total: {status:?}"))
                }
                Ok(status) => Ok(Ok(Success::Status {
                    bytes_used: Some(status.tbytes - status.fbytes),
                    inodes_used: status.tfiles - status.ffiles,
                })),
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            Call::Limits { .. } => match whole::<FsinfoRes>(bytes)? {
                Ok(info) => Ok(Ok(Success::Limits {
                    object: self.shown(info.obj_attributes)?,
                    transfer: [info.rtmax, info.wtmax],
                    file_bytes: info.maxfilesize,
                    properties: info.properties,
                })),
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            _ => match whole::<PathconfRes>(bytes)? {
                Ok(told) => Ok(Ok(Success::Configuration {
                    object: self.shown(told.obj_attributes)?,
                    name_bytes: told.name_max,
                    posix: [
                        told.no_trunc,
                        told.chown_restricted,
                        !told.case_insensitive,
                        told.case_preserving,
                    ],
                })),
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
        }
    }

    fn read(&mut self, call: &Call, bytes: &[u8]) -> Result<CallResult, String> {
        match call {
            Call::EngineOnly(_) => Err("not a procedure of NFSv3".to_owned()),
            Call::Nothing if bytes.is_empty() => Ok(Ok(Success::Nothing)),
            Call::Nothing => Err(format!("{} bytes of results", bytes.len())),
            Call::GetAttributes { .. } => match whole::<GetattrRes>(bytes)? {
                Ok(told) => Ok(Ok(Success::Attributes(self.seen(&told.obj_attributes)?))),
                Err(failed) => self.failed(&failed, &[]),
            },
            Call::SetAttributes { .. } => match whole::<SetattrRes>(bytes)? {
                Ok(set) => Ok(Ok(Success::Set { object: self.wcc(set.obj_wcc)? })),
                Err(failed) => self.failed(&failed, &[failed.body]),
            },
            Call::Access { .. } => match whole::<AccessRes>(bytes)? {
                Ok(told) => {
                    let object = Some(self.shown(told.obj_attributes)?);
                    Ok(Ok(Success::Accessible { granted: told.access, object }))
                }
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            Call::ReadLink { .. } => match whole::<ReadlinkRes<'_>>(bytes)? {
                Ok(link) => {
                    let object = Some(self.shown(link.symlink_attributes)?);
                    Ok(Ok(Success::Target { target: link.data.0.to_vec(), object }))
                }
                Err(failed) => self.failed_showing(&failed, failed.body),
            },
            Call::Read { .. } | Call::Write { .. } | Call::Commit { .. } => self.data(call, bytes),
            Call::Create { .. }
            | Call::MakeDirectory { .. }
            | Call::MakeSymlink { .. }
            | Call::MakeNode { .. } => self.created(bytes),
            Call::ReadDirectory { plus: false, .. } => self.listing(bytes),
            Call::ReadDirectory { plus: true, .. } => self.listing_plus(bytes),
            Call::Status | Call::Limits { .. } | Call::Configuration { .. } => self.file_system(call, bytes),
            Call::Lookup { .. }
            | Call::Remove { .. }
            | Call::RemoveDirectory { .. }
            | Call::Rename { .. }
            | Call::Link { .. } => self.names(call, bytes),
        }
    }
}

/// Decodes the results of `call` on the volume with this id.
///
/// # Errors
/// An answer that is invalid under any circumstances.
pub(super) fn read(call: &Call, volume: u64, bytes: &[u8]) -> Result<Decoded, String> {
    let mut reader = Reader { volume, failure_attributes: Vec::new(), handles: Vec::new() };
    let outcome = reader.read(call, bytes)?;
    Ok(Decoded { outcome, failure_attributes: reader.failure_attributes, handles: reader.handles })
}
