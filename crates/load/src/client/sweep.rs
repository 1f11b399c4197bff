//! Removes the files of a measurement, whatever state it left them in.

use std::time::Instant;

use super::cause::Cause;
use super::reply::Plain;
use super::request::{Place, Position, Request};
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
        self.remove_directory(parent, name.as_bytes())?;
        Ok(SweepOutcome::All)
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
            let removals = self.remove(directory, &names)?;
            for (name, removed) in names.iter().zip(removals) {
                match gone(removed) {
                    Ok(()) => {}
                    // Servers differ in the status of REMOVE of a directory.
                    Err(_) if depth > 0 => {
                        let below = self.lookup(directory, &String::from_utf8_lossy(name))?;
                        if self.sweep_below(&below, until, depth - 1)? == SweepOutcome::OutOfTime {
                            return Ok(SweepOutcome::OutOfTime);
                        }
                        self.remove_directory(directory, name)?;
                    }
                    Err(cause) => return Err(LoadError::new(cause.explained())),
                }
            }
        }
    }

    /// Removes an empty directory.
    fn remove_directory(&mut self, parent: &Handle, name: &[u8]) -> Result<(), LoadError> {
        let place = Place { directory: parent, name };
        let removed = self.ask(&Request::Rmdir(place), |reply| reply.plain(Plain::Rmdir))?;
        gone(removed).map_err(|cause| LoadError::new(cause.explained()))
    }

    /// Removes names. Returns the result of each, in order.
    fn remove(&mut self, directory: &Handle, names: &[Vec<u8>]) -> Result<Vec<Result<(), Cause>>, LoadError> {
        let replies =
            self.many(names.len(), &|index| Request::Remove(Place { directory, name: &names[index] }))?;
        replies.iter().map(|results| Ok(self.reply(results)?.plain(Plain::Remove))).collect()
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
        let mut position = Position::default();
        let mut names = Vec::new();
        loop {
            let request = Request::Readdir { directory, position, bytes: LISTING_BYTES, plus: false };
            let listed = self.ask(&request, |reply| {
                reply.listed(false, &mut |cookie, name| {
                    position.cookie = cookie;
                    if name != b"." && name != b".." {
                        names.push(name.to_vec());
                    }
                })
            })?;
            let listed = listed.map_err(|cause| LoadError::new(cause.explained()))?;
            position.verifier = listed.verifier;
            if is_enough(&names) || listed.eof {
                return Ok(names);
            }
        }
    }
}

/// Whether the name is gone after a removal.
fn gone(removed: Result<(), Cause>) -> Result<(), Cause> {
    match removed {
        Err(cause) if cause.status().is_some_and(|status| status.is_missing()) => Ok(()),
        removed => removed,
    }
}
