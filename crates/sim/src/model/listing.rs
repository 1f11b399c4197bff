//! READDIR and READDIRPLUS in the model: no name is skipped or repeated, whatever happens between two pages.

use std::rc::Rc;

use volume::request::Error;

use super::{End, Expected, Judged, Judgement, Model, Observed};
use crate::call::{Listed, ListingStart, Obj, Success};

impl Model {
    pub(super) fn read_directory(
        &mut self,
        call: &Judged<'_>,
        (directory, from, plus): (Obj, ListingStart, bool),
    ) -> Result<Observed, End> {
        let Judged { who, now, .. } = *call;
        let dir = self.existing(call, directory)?;
        let inode = &self.inodes[&dir];
        let mut expected = Expected::default();
        expected.must(!inode.is_directory(), Error::NotDirectory);
        expected.must(inode.is_directory() && !inode.grants(who, 4), Error::AccessDenied);
        let start = if from == ListingStart::Start { 0 } else { self.cursor(dir) };
        let Success::Listing { entries, end, directory } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        if entries.is_empty() && !*end {
            return Err(format!("READDIR of {dir} returned nothing before the end").into());
        }
        self.judge_page(dir, start, entries, *end)
            .map_err(|wrong| format!("READDIR of {dir} from {start}: {wrong}"))?;
        let mut observed = self.inodes[&dir].changed_in;
        for entry in entries {
            if plus && entry.attributes.is_none() && self.inodes.contains_key(&entry.ino) {
                // READDIRPLUS may omit attributes; this engine does so only under load.
                continue;
            }
            observed =
                observed.max(self.compare_and_adopt(entry.ino, entry.attributes.as_ref(), "READDIRPLUS")?);
        }
        let clock = self.clock;
        let read = self.edit(dir);
        read.atime.or(now);
        read.atime.or(clock);
        let last = if *end { 0 } else { entries.last().map_or(start, |entry| entry.cookie) };
        Rc::make_mut(&mut self.cursors).insert(dir, last);
        observed = observed.max(self.compare_and_adopt(dir, directory.as_ref(), "READDIR directory")?);
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Compares the listed names after `start` with the directory's.
    pub(super) fn judge_page(
        &mut self,
        dir: u64,
        start: u64,
        entries: &[Listed],
        end: bool,
    ) -> Judgement<()> {
        let mut previous = start;
        for entry in entries {
            if entry.cookie <= previous {
                return Err(format!("cookie {} follows {previous}", entry.cookie));
            }
            previous = entry.cookie;
            self.judge_entry(dir, entry)?;
        }
        let missing: Vec<Vec<u8>> = self.inodes[&dir]
            .entries
            .iter()
            .filter(|(name, entry)| {
                let listed = entries.iter().any(|listed| listed.name == **name);
                let within = entry.cookie.is_some_and(|cookie| cookie > start && (end || cookie <= previous));
                !listed && (within || end && start == 0)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if let Some(name) = missing.first() {
            return Err(format!("{:?} is missing", name.escape_ascii().to_string()));
        }
        if end {
            let listed = |name: &[u8]| entries.iter().any(|listed| listed.name == name);
            for (name, entry) in &mut self.edit(dir).entries {
                if !listed(name) {
                    entry.cookie_at_most = entry.cookie_at_most.min(start);
                }
            }
        }
        Ok(())
    }

    fn judge_entry(&mut self, dir: u64, listed: &Listed) -> Judgement<()> {
        let shown = listed.name.escape_ascii().to_string();
        let inode = self.edit(dir);
        let expected = match listed.name.as_slice() {
            b"." => dir,
            b".." => inode.parent,
            name => {
                let entry = inode.entries.get_mut(name).ok_or(format!("{shown:?} does not exist"))?;
                if entry.cookie.is_some_and(|cookie| cookie != listed.cookie) {
                    return Err(format!("{shown:?} has cookie {}, had {:?}", listed.cookie, entry.cookie));
                }
                if listed.cookie > entry.cookie_at_most {
                    return Err(format!(
                        "{shown:?} was missing from a listing that passed {}",
                        entry.cookie_at_most
                    ));
                }
                entry.cookie = Some(listed.cookie);
                entry.ino
            }
        };
        if listed.ino != expected {
            return Err(format!("{shown:?} is inode {}, expected {expected}", listed.ino));
        }
        Ok(())
    }
}
