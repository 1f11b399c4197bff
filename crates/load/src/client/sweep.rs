//! Removes the files of a measurement, whatever state it left them in.

use std::time::Instant;

use wire::nfs3::{
    DirOpArgs3, Filename3, NfsStat3, Procedure, ReaddirArgs, ReaddirRes, RemoveArgs, RemoveRes, RmdirArgs,
};
use wire::xdr::Encode as _;

use super::blocking::{decode, is_gone};
use super::{BlockingClient, Handle};
use crate::error::LoadError;

/// The size of a READDIR reply.
const LISTING_BYTES: u32 = 32 << 10;

/// The depth of directories below the measurement's own. Workloads use two levels.
const DEPTH_MAX: u32 = 8;

/// The outcome of a clean-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepOutcome {
    /// Everything was removed.
    All,
    /// The deadline passed first.
    OutOfTime,
}

impl BlockingClient {
    /// Removes a directory with everything in it, until the deadline.
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
            // Listed names are removed before the next listing, so every listing begins at the front.
            let names = self.some_names(directory)?;
            if names.is_empty() {
                return Ok(SweepOutcome::All);
            }
            let statuses = self.remove(Procedure::Remove, directory, &names)?;
            for (name, status) in names.iter().zip(statuses) {
                match status {
                    NfsStat3::Ok | NfsStat3::NoEnt => {}
                    // Servers differ in the status of REMOVE of a directory.
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

    /// Removes names. Returns the status of each, in order.
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

    /// Lists the first names of a directory.
    fn some_names(&mut self, directory: &Handle) -> Result<Vec<Vec<u8>>, LoadError> {
        self.list(directory, |names| !names.is_empty())
    }

    /// Lists a directory.
    pub(crate) fn names(&mut self, directory: &Handle) -> Result<Vec<Vec<u8>>, LoadError> {
        self.list(directory, |_| false)
    }

    /// Lists a directory from its front until these names are enough.
    fn list(
        &mut self,
        directory: &Handle,
        is_enough: impl Fn(&[Vec<u8>]) -> bool,
    ) -> Result<Vec<Vec<u8>>, LoadError> {
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        let mut names = Vec::new();
        loop {
            let args = ReaddirArgs { dir: directory.wire(), cookie, cookieverf, count: LISTING_BYTES };
            let results = self.nfs(Procedure::Readdir, &args)?;
            let listed = decode::<ReaddirRes<'_>>("READDIR", &results)?
                .map_err(|failed| LoadError::status("READDIR", failed.status))?;
            for entry in listed.entries {
                cookie = entry.cookie;
                if entry.name.0 != b"." && entry.name.0 != b".." {
                    names.push(entry.name.0.to_vec());
                }
            }
            cookieverf = listed.cookieverf;
            if is_enough(&names) || listed.eof {
                return Ok(names);
            }
        }
    }
}
