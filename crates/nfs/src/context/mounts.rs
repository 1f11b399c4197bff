//! The list of mounts: informs administrators, is bounded, and is forgotten with the process.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::connection::origin;
use crate::limits::MOUNTS_MAX;

/// A client and the path it mounted.
type Mount = (IpAddr, Box<[u8]>);

/// Remembered mounts, the oldest first, at most [`MOUNTS_MAX`]. For one more, the origin that has the most loses its oldest one.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Mutex<VecDeque<Mount>>);

impl Mounts {
    /// Adds a mount, or moves a known one to the end.
    pub(crate) fn add(&self, client: IpAddr, path: &[u8]) {
        let mut mounts = self.0.lock();
        mounts.retain(|(other, known)| *other != client || **known != *path);
        mounts.push_back((client, path.into()));
        if mounts.len() > MOUNTS_MAX {
            let greediest = greediest(&mounts);
            let oldest = mounts.iter().position(|(client, _)| Some(origin(*client)) == greediest);
            if let Some(place) = oldest {
                mounts.remove(place);
            }
        }
    }

    /// Removes one mount of a client.
    pub(crate) fn remove(&self, client: IpAddr, path: &[u8]) {
        self.0.lock().retain(|(other, known)| *other != client || **known != *path);
    }

    /// Removes all mounts of a client.
    pub(crate) fn remove_all(&self, client: IpAddr) {
        self.0.lock().retain(|(other, _)| *other != client);
    }

    /// Returns all mounts.
    pub(crate) fn list(&self) -> Vec<Mount> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Returns the origin that has the most mounts.
fn greediest(mounts: &VecDeque<Mount>) -> Option<IpAddr> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (client, _) in mounts {
        *counts.entry(origin(*client)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(origin, count)| (*count, *origin)).map(|(origin, _)| origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mounts_are_dropped_first() {
        let mounts = Mounts::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        for number in 0..=MOUNTS_MAX {
            mounts.add(client, format!("/main/{number}").as_bytes());
        }
        mounts.add(client, b"/main/1");
        let list = mounts.list();
        assert_eq!(list.len(), MOUNTS_MAX);
        assert_eq!(&*list.first().unwrap().1, b"/main/2");
        assert_eq!(&*list.last().unwrap().1, b"/main/1");
    }

    #[test]
    fn who_mounts_much_loses_his_own() {
        let mounts = Mounts::default();
        let (modest, greedy): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        mounts.add(modest, b"/main");
        for number in 0..2 * MOUNTS_MAX {
            mounts.add(greedy, format!("/main/{number}").as_bytes());
        }
        let list = mounts.list();
        assert_eq!((list.len(), &list[0]), (MOUNTS_MAX, &(modest, (*b"/main").into())));
        assert_eq!(&*list[1].1, format!("/main/{}", MOUNTS_MAX + 1).as_bytes());
    }

    #[test]
    fn removing_mounts_leaves_those_of_other_clients() {
        let mounts = Mounts::default();
        let (one, two): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for path in [&b"/a"[..], b"/b", b"/c"] {
            mounts.add(one, path);
            mounts.add(two, path);
        }
        mounts.remove(one, b"/a");
        assert_eq!(mounts.list().len(), 5);
        mounts.remove_all(two);
        assert_eq!(mounts.list(), vec![(one, (*b"/b").into()), (one, (*b"/c").into())]);
    }
}
