//! Copies a pool to another data directory or namespace, while no server uses either.
//!
//! The copy has the id of the original, since it is the same pool elsewhere: its records and its journal name that id, and handles
//! stay valid. So the two cannot be in one place, where the files of one would be taken for those of the other. On other devices,
//! where a directory may have parts of both, the files of a copy are told from those of the original by a random number of its own
//! ([`NewPool::instance`]).

use std::path::Path;
use std::time::Instant;

use store::NewPool;
use volume::copy::{Observer, Source};

use crate::data::{self, Data};
use crate::error::{Error, ErrorKind};

use super::{milliseconds_since, random, volume_names};

/// Where a copy goes.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The data directory or the namespace, which is created if there is nothing.
    pub root: &'a Path,
    /// The name of the pool there.
    pub name: &'a str,
    /// The existing directory elsewhere that is to hold the pool's directory; `None` keeps it in the data directory.
    pub path: Option<&'a Path>,
    /// The directory that is to hold its journal's directory; `None` keeps the journal with the pool.
    pub journal: Option<&'a Path>,
}

/// A pool without faults that is ready to be copied, and locked.
pub struct Ready<'a> {
    source: Source,
    /// Holds the lock.
    _data: Data,
    root: &'a Path,
    new: NewPool<'a>,
}

/// Locks the pool `name` at `root`, and checks it with all its data, and whether `target` can have it. Changes nothing.
///
/// # Errors
/// The pool is in use or has faults, or `target` cannot have it.
pub fn ready<'a>(root: &Path, name: &str, target: Target<'a>) -> Result<Ready<'a>, Error> {
    if data::are_same(root, target.root)? {
        return Err(Error::usage(format!(
            "a copy is the same pool elsewhere, so {} cannot have both: name another data directory or namespace",
            root.display()
        )));
    }
    let found = data::describe(root, name)?;
    let journal_bytes = found.journal_bytes;
    let Target { name: new_name, path, journal, .. } = target;
    let instance = u64::from_le_bytes(random()?);
    let new = NewPool { name: new_name, id: found.id, instance, journal, path, journal_bytes };
    data::check_new(target.root, &new)?;
    let data = Data::open_to_read(root)?;
    let source = Source::open(data.open_pool(name, None)?.media).map_err(|error| {
        let root = root.display();
        Error::failed(format!(
            "cannot copy the pool {name:?}: {error}; run `holdfast check {root} --pool {name}`, and repair or delete what it names \
             (docs/damage.md)"
        ))
    })?;
    Ok(Ready { source, _data: data, root: target.root, new })
}

impl Ready<'_> {
    /// Returns what is copied.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Makes the copy, verifies it, and only then makes it a pool of the target: a crash before this returns leaves none, and what
    /// remains is removed when the target is used next.
    ///
    /// # Errors
    /// The target is in use, has the pool or one of its volumes already, or fails; or `observer` ended the copy.
    pub fn run(&self, observer: Observer<'_>) -> Result<(), Error> {
        let start = Instant::now();
        let target = Data::open_or_create(self.root)?;
        self.check_free(&target)?;
        // After what an interrupted copy left there was removed.
        data::check_new(self.root, &self.new)?;
        target.create(&self.new, |media| {
            self.source
                .copy_to(media, observer)
                .map_err(|error| format!("cannot copy the pool to {}: {error}", self.root.display()))
        })?;
        tracing::info!(
            pool = self.new.name,
            pool_id = format_args!("{:016x}", self.new.id),
            bytes = self.source.bytes().total(),
            milliseconds = milliseconds_since(start),
            "pool copied"
        );
        Ok(())
    }

    /// Refuses a target that has this pool under another name, or a volume of the same name as one of it.
    fn check_free(&self, target: &Data) -> Result<(), Error> {
        let conflict = |sentence| Err(Error { kind: ErrorKind::Conflict, sentence });
        let root = self.root.display();
        for pool in target.pools()? {
            if data::describe(self.root, &pool)?.id == self.new.id {
                return conflict(format!(
                    "{root} has a copy of this pool already, under the name {pool:?}; delete that first, or name another place"
                ));
            }
            let taken = volume_names(target, &pool)?;
            if let Some(volume) = self.source.volumes().iter().find(|volume| taken.contains(volume)) {
                return conflict(format!(
                    "{root} has a volume {volume:?} already, in the pool {pool:?}; rename one of the two first"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
