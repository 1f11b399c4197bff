//! What a server keeps beside its pools: pairs of the object `pools`, whose keys begin with a character that no name of a pool has.
//! They are changed in place as the catalogue of pools is, so that an earlier owner of the namespace cannot change them any more.

use std::io;

use crate::fence::Owned;
use crate::location::Location;
use crate::names::POOLS;
use crate::objects::Step;

/// The longest setting, bytes. All pairs are read together whenever pools are looked up.
const BYTES_MAX: usize = 2 << 20;

/// What the keys of settings begin with.
const MARK: char = '/';

/// Whether a pair of the object `pools` is a setting rather than a pool.
pub(crate) fn is_setting(key: &str) -> bool {
    key.starts_with(MARK)
}

/// The settings in a namespace that this process owns.
#[derive(Clone)]
pub struct Settings {
    owned: Owned,
    location: Location,
}

impl Settings {
    pub(crate) fn new(owned: Owned, location: Location) -> Settings {
        Settings { owned, location }
    }

    /// Returns where they are.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Reads a setting; none if it was never set.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let key = format!("{MARK}{name}");
        let pairs = self.owned.pairs(POOLS)?;
        Ok(pairs.into_iter().find(|(found, _)| *found == key).map(|(_, bytes)| bytes))
    }

    /// Replaces a setting.
    ///
    /// # Errors
    /// It is too long, or cannot be written.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > BYTES_MAX {
            let text = format!("{} bytes are more than the {BYTES_MAX} that it may have", bytes.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        self.owned.change(POOLS, Step::PutPair(&format!("{MARK}{name}"), bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fence::Fence;
    use crate::memory::{MemoryObjects, windows};
    use crate::objects::{Objects, change_now};

    /// Returns the settings as an owner of `epoch` has them; losses of the namespace are counted.
    fn settings(objects: &Arc<MemoryObjects>, epoch: u64, lost: &Arc<AtomicUsize>) -> Settings {
        let (objects, lost): (Arc<dyn Objects>, _) = (Arc::<MemoryObjects>::clone(objects), Arc::clone(lost));
        let on_lost = Arc::new(move |_: &str| {
            lost.fetch_add(1, Ordering::SeqCst);
        });
        let owned = Owned::new(objects, Fence::new(epoch, on_lost), windows(1 << 20));
        owned.seal(POOLS.to_owned()).unwrap();
        Settings::new(owned, Location::parse("rados:nfs/home".as_ref()).unwrap().unwrap())
    }

    #[test]
    fn the_next_owner_has_them_and_the_last_one_cannot_change_them_any_more() {
        let (objects, lost) = (MemoryObjects::new(), Arc::default());
        change_now(&*objects, POOLS, &[Step::Create, Step::SetEpoch(0)]).unwrap();
        let first = settings(&objects, 1, &lost);
        assert_eq!(first.read("tokens").unwrap(), None);
        first.replace("tokens", b"one").unwrap();
        first.replace("limits.json", b"{}").unwrap();
        let second = settings(&objects, 2, &lost);
        assert_eq!(second.read("tokens").unwrap().unwrap(), b"one");
        first.replace("tokens", b"late").unwrap_err();
        assert_eq!(lost.load(Ordering::SeqCst), 1, "it learns that it has lost the namespace");
        second.replace("tokens", b"two").unwrap();
        assert_eq!(second.read("tokens").unwrap().unwrap(), b"two");
        assert_eq!(second.read("limits.json").unwrap().unwrap(), b"{}");
        second.replace("tokens", &vec![0; BYTES_MAX + 1]).unwrap_err();
        assert_eq!(second.read("tokens").unwrap().unwrap(), b"two");
    }
}
