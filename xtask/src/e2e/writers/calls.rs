//! The calls of a writer: each over NFSv3, over NFSv4.2, or over the only one that has it.

use super::super::client::compound::{Compound, Stateid, op};
use super::super::client::nfs3;
use super::super::client::nfs4::{Session, patiently};
use super::super::client::rpc::{Failure, Link};
use crate::nfs::{Arguments, Procedure};

/// Whom a stateid of an open would name; writers open nothing.
const ANONYMOUS: Stateid = [0; 16];

/// A handle over NFSv3, and the same object's over NFSv4.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) v3: Vec<u8>,
    pub(super) v4: Vec<u8>,
}

/// A connection of NFSv3 and one of NFSv4.2.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) link: Link,
    pub(super) session: Session,
    /// Whether the next call goes over NFSv4.2 if both versions have it.
    pub(super) is_v4: bool,
}

impl Calls {
    fn v3(
        &mut self,
        call: (&'static str, Procedure),
        fill: impl Fn(&mut Arguments),
    ) -> Result<super::super::client::cursor::Cursor, Failure> {
        patiently(|| nfs3::call(&mut self.link, call, &fill))
    }

    /// Makes a request whose last operation has these name and number, and whose other ones must succeed.
    fn v4(&mut self, what: &'static str, fill: impl Fn(&mut Compound)) -> Result<(), Failure> {
        patiently(|| match self.session.status(&fill)? {
            0 => Ok(()),
            status => Err(Failure::Status(what, status)),
        })
    }

    /// Returns the handle of a name over NFSv4.
    pub(super) fn find(&mut self, folder: &Handle, name: &str) -> Result<Vec<u8>, Failure> {
        self.session.ask(
            |compound| {
                compound.put(&folder.v4).op(op::LOOKUP).opaque(name.as_bytes());
                compound.op(op::GETFH);
            },
            |answer| {
                answer.put()?.next("LOOKUP", op::LOOKUP)?;
                answer.next("GETFH", op::GETFH)?.opaque()
            },
        )
    }

    /// Makes a file that everybody may write.
    pub(super) fn create(&mut self, folder: &Handle, name: &str) -> Result<Handle, Failure> {
        let v3 = patiently(|| {
            let create = ("CREATE", Procedure::Create);
            nfs3::make(&mut self.link, create, &folder.v3, name.as_bytes(), 0o666)
        })?;
        Ok(Handle { v3, v4: self.find(folder, name)? })
    }

    pub(super) fn make_folder(&mut self, folder: &Handle, name: &str) -> Result<(), Failure> {
        if self.is_v4 {
            return self.v4("CREATE", |compound| {
                // A directory, with the attribute 33 (mode).
                let arguments = compound.put(&folder.v4).op(op::CREATE).word(2).opaque(name.as_bytes());
                arguments.word(2).word(0).word(2).word(4).word(0o777);
            });
        }
        let make = || {
            let mkdir = ("MKDIR", Procedure::Mkdir);
            nfs3::make(&mut self.link, mkdir, &folder.v3, name.as_bytes(), 0o777).map(drop)
        };
        patiently(make)
    }

    /// REMOVE, or RMDIR.
    pub(super) fn remove(&mut self, folder: &Handle, name: &str, is_folder: bool) -> Result<(), Failure> {
        if self.is_v4 {
            return self.v4("REMOVE", |compound| {
                compound.put(&folder.v4).op(op::REMOVE).opaque(name.as_bytes());
            });
        }
        let procedure = if is_folder { ("RMDIR", Procedure::Rmdir) } else { ("REMOVE", Procedure::Remove) };
        self.v3(procedure, |arguments| _ = arguments.opaque(&folder.v3).opaque(name.as_bytes())).map(drop)
    }

    pub(super) fn rename(&mut self, folder: &Handle, name: &str, as_name: &str) -> Result<(), Failure> {
        if self.is_v4 {
            return self.v4("RENAME", |compound| {
                compound.put(&folder.v4).op(op::SAVEFH);
                let arguments = compound.put(&folder.v4).op(op::RENAME);
                arguments.opaque(name.as_bytes()).opaque(as_name.as_bytes());
            });
        }
        self.v3(("RENAME", Procedure::Rename), |arguments| {
            arguments.opaque(&folder.v3).opaque(name.as_bytes());
            arguments.opaque(&folder.v3).opaque(as_name.as_bytes());
        })
        .map(drop)
    }

    /// WRITE. Returns how many bytes were written.
    pub(super) fn write(
        &mut self,
        file: &Handle,
        offset: u64,
        is_stable: bool,
        data: &[u8],
    ) -> Result<u64, Failure> {
        let stability = if is_stable { nfs3::FILE_SYNC } else { nfs3::UNSTABLE };
        if self.is_v4 {
            return self.session.ask(
                |compound| {
                    let arguments = compound.put(&file.v4).op(op::WRITE).fixed(&ANONYMOUS);
                    arguments.long(offset).word(stability).opaque(data);
                },
                |answer| Ok(answer.put()?.next("WRITE", op::WRITE)?.word()?.into()),
            );
        }
        patiently(|| nfs3::write_as(&mut self.link, &file.v3, (offset, stability), data)).map(u64::from)
    }

    pub(super) fn commit(&mut self, file: &Handle) -> Result<(), Failure> {
        if self.is_v4 {
            return self.v4("COMMIT", |compound| _ = compound.put(&file.v4).op(op::COMMIT).long(0).word(0));
        }
        self.v3(("COMMIT", Procedure::Commit), |arguments| _ = arguments.opaque(&file.v3).long(0).word(0))
            .map(drop)
    }

    pub(super) fn truncate(&mut self, file: &Handle, size: u64) -> Result<(), Failure> {
        if self.is_v4 {
            return self.v4("SETATTR", |compound| {
                // The attribute 4 (size).
                let arguments = compound.put(&file.v4).op(op::SETATTR).fixed(&ANONYMOUS);
                arguments.word(1).word(1 << 4).word(8).long(size);
            });
        }
        self.v3(("SETATTR", Procedure::Setattr), |arguments| {
            // Neither mode nor owners, the size, no times, no guard.
            arguments.opaque(&file.v3).word(0).word(0).word(0).word(1).long(size);
            arguments.word(0).word(0).word(0);
        })
        .map(drop)
    }

    /// Has the superuser give a file to another user or group.
    pub(super) fn give(
        &mut self,
        file: &Handle,
        (user, group): (Option<u32>, Option<u32>),
        mode: Option<u32>,
    ) -> Result<(), Failure> {
        let writer = std::mem::replace(&mut self.link.user, 0);
        let given = self.v3(("SETATTR", Procedure::Setattr), |arguments| {
            arguments.opaque(&file.v3);
            for value in [mode, user, group] {
                match value {
                    Some(value) => arguments.word(1).word(value),
                    None => arguments.word(0),
                };
            }
            arguments.word(0).word(0).word(0).word(0);
        });
        self.link.user = writer;
        given.map(drop)
    }

    pub(super) fn punch(&mut self, file: &Handle, offset: u64, length: u64) -> Result<(), Failure> {
        self.v4("DEALLOCATE", |compound| {
            let arguments = compound.put(&file.v4).op(op::DEALLOCATE).fixed(&ANONYMOUS);
            arguments.long(offset).long(length);
        })
    }

    /// CLONE of a range that begins at the same offset in both files.
    pub(super) fn clone_range(
        &mut self,
        from: &Handle,
        to: &Handle,
        offset: u64,
        length: u64,
    ) -> Result<(), Failure> {
        self.v4("CLONE", |compound| {
            compound.put(&from.v4).op(op::SAVEFH);
            let arguments = compound.put(&to.v4).op(op::CLONE).fixed(&ANONYMOUS).fixed(&ANONYMOUS);
            arguments.long(offset).long(offset).long(length);
        })
    }

    /// COPY of a range that begins at the same offset in both files. Returns how many bytes were copied.
    pub(super) fn copy_range(
        &mut self,
        from: &Handle,
        to: &Handle,
        offset: u64,
        length: u64,
    ) -> Result<u64, Failure> {
        self.session.ask(
            |compound| {
                compound.put(&from.v4).op(op::SAVEFH);
                let arguments = compound.put(&to.v4).op(op::COPY).fixed(&ANONYMOUS).fixed(&ANONYMOUS);
                // Consecutive, synchronous, within this server.
                arguments.long(offset).long(offset).long(length).word(1).word(1).word(0);
            },
            |answer| {
                answer.put()?.next("SAVEFH", op::SAVEFH)?;
                let body = answer.put()?.next("COPY", op::COPY)?;
                // No stateid.
                body.skip(1)?;
                body.long()
            },
        )
    }

    pub(super) fn set_xattr(&mut self, file: &Handle, name: &str, value: &[u8]) -> Result<(), Failure> {
        self.v4("SETXATTR", |compound| {
            let arguments = compound.put(&file.v4).op(op::SETXATTR).word(0);
            arguments.opaque(name.as_bytes()).opaque(value);
        })
    }

    pub(super) fn remove_xattr(&mut self, file: &Handle, name: &str) -> Result<(), Failure> {
        self.v4("REMOVEXATTR", |compound| {
            compound.put(&file.v4).op(op::REMOVEXATTR).opaque(name.as_bytes());
        })
    }
}
