//! Removing what a measurement made, whatever state it was left in.

use std::time::Instant;

use wire::nfs3::{
    DirOpArgs3, Filename3, NfsStat3, Procedure, ReaddirArgs, ReaddirRes, RemoveArgs, RemoveRes, RmdirArgs,
};
use wire::xdr::Encode as _;

use super::blocking::{decode, is_gone};
use super::{BlockingClient, Handle};
use crate::error::LoadError;

/// Bytes of names that are asked for at a time.
const LISTING_BYTES: u32 = 32 << 10;

/// Directories within directories, at most. Ours are two deep.
const DEPTH_MAX: u32 = 8;

/// How a clean-up went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepOutcome {
    /// Nothing is left.
    All,
    /// Time was up first.
    OutOfTime,
}

impl BlockingClient {
    /// Removes a directory and all that is in it, until the deadline.
    pub(crate) fn sweep(
        &mut self,
        parent: &Handle,
        name: &str,
        until: Instant,
    ) -> Result<SweepOutcome, LoadError> {
        let Ok(directory) = self.lookup(parent, name) else { return Ok(SweepOutcome::All) };
        if self.sweep_below(&directory, until, DEPTH_MAX)? == SweepOutcome::OutOfTime {
            return Ok(SweepOutcome::OutOfTime);
        }
        let statuses = self.remove(Procedure::Rmdir, parent, &[name.as_bytes().to_vec()])?;
        match statuses.iter().find(|status| !is_gone(**status)) {
            None => Ok(SweepOutcome::All),
            Some(status) => Err(LoadError::status(&format!("RMDIR of {name}"), *status)),
        }
    }

    fn sweep_below(
        &mut self,
        directory: &Handle,
        until: Instant,
        depth: u32,
    ) -> Result<SweepOutcome, LoadError> {
        loop {
            if Instant::now() >= until {
                return Ok(SweepOutcome::OutOfTime);
            }
            // What was listed is removed before more is listed, so every listing begins at the front.
            let names = self.some_names(directory)?;
            if names.is_empty() {
                return Ok(SweepOutcome::All);
            }
            let statuses = self.remove(Procedure::Remove, directory, &names)?;
            for (name, status) in names.iter().zip(statuses) {
                match status {
                    NfsStat3::Ok | NfsStat3::NoEnt => {}
                    // What servers answer to REMOVE of a directory differs.
                    _ if depth > 0 => {
                        let below = self.lookup(directory, &String::from_utf8_lossy(name))?;
                        if self.sweep_below(&below, until, depth - 1)? == SweepOutcome::OutOfTime {
                            return Ok(SweepOutcome::OutOfTime);
                        }
                        let gone = self.remove(Procedure::Rmdir, directory, std::slice::from_ref(name))?;
                        if let Some(status) = gone.iter().find(|status| !is_gone(**status)) {
                            return Err(LoadError::status("RMDIR", *status));
                        }
                    }
                    _ => return Err(LoadError::status("REMOVE", status)),
                }
            }
        }
    }

    /// Removes names, and tells what failed in what way; in the order of the names if all of them are asked for.
    fn remove(
        &mut self,
        procedure: Procedure,
        directory: &Handle,
        names: &[Vec<u8>],
    ) -> Result<Vec<NfsStat3>, LoadError> {
        let replies = self.many(procedure, names.len(), &mut |index, out| {
            let object = DirOpArgs3 { dir: directory.wire(), name: Filename3(&names[index]) };
            match procedure {
                Procedure::Rmdir => RmdirArgs { object }.encode(out),
                _ => RemoveArgs { object }.encode(out),
            }
        })?;
        let status = |results: &Vec<u8>| {
            let removed = decode::<RemoveRes>(procedure.name(), results)?;
            Ok(removed.map_or_else(|failed| failed.status, |_| NfsStat3::Ok))
        };
        replies.iter().map(status).collect()
    }

    /// The first names of a directory.
    fn some_names(&mut self, directory: &Handle) -> Result<Vec<Vec<u8>>, LoadError> {
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        loop {
            let args = ReaddirArgs { dir: directory.wire(), cookie, cookieverf, count: LISTING_BYTES };
            let results = self.nfs(Procedure::Readdir, &args)?;
            let listed = decode::<ReaddirRes<'_>>("READDIR", &results)?
                .map_err(|failed| LoadError::status("READDIR", failed.status))?;
            let mut names = Vec::new();
            for entry in listed.entries {
                cookie = entry.cookie;
                if entry.name.0 != b"." && entry.name.0 != b".." {
                    names.push(entry.name.0.to_vec());
                }
            }
            cookieverf = listed.cookieverf;
            if !names.is_empty() || listed.eof {
                return Ok(names);
            }
        }
    }
}
