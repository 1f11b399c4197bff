//! Unconfirmed clients by origin and age: the oldest of an origin, and the origin with most, are found at once, however many
//! there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::state::clients::table::Name;

#[derive(Debug, Default)]
pub(super) struct Proposals {
    /// Those of each origin, the oldest first.
    by_origin: BTreeMap<IpAddr, BTreeMap<u64, Name>>,
    /// How many each origin has, and the age of its oldest. Of several with as many, the last one has the oldest.
    counts: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
    /// The origin of each, the oldest first.
    by_age: BTreeMap<u64, IpAddr>,
    /// The age of the next one.
    next: u64,
}

impl Proposals {
    /// Adds one that is younger than all others. Returns its age, which identifies it.
    pub(super) fn add(&mut self, origin: IpAddr, name: &Name) -> u64 {
        let age = self.next;
        self.next += 1;
        self.by_age.insert(age, origin);
        self.change(origin, |of_origin| drop(of_origin.insert(age, name.clone())));
        age
    }

    /// Removes one.
    pub(super) fn remove(&mut self, age: u64) {
        if let Some(origin) = self.by_age.remove(&age) {
            self.change(origin, |of_origin| drop(of_origin.remove(&age)));
        }
    }

    fn change(&mut self, origin: IpAddr, change: impl FnOnce(&mut BTreeMap<u64, Name>)) {
        let of_origin = self.by_origin.entry(origin).or_default();
        if let Some(count) = count_of(origin, of_origin) {
            self.counts.remove(&count);
        }
        change(of_origin);
        match count_of(origin, of_origin) {
            Some(count) => drop(self.counts.insert(count)),
            None => drop(self.by_origin.remove(&origin)),
        }
    }

    /// Returns the oldest one of an origin.
    pub(super) fn oldest_of(&self, origin: IpAddr) -> Option<&Name> {
        self.by_origin.get(&origin)?.values().next()
    }

    /// Returns the oldest one of the origin that has most; of several such origins, the one with the oldest gives way, so that a
    /// new client is kept as long as possible.
    pub(super) fn oldest_of_greediest(&self) -> Option<&Name> {
        self.oldest_of(self.counts.last()?.2)
    }

    /// Returns the oldest of all.
    pub(super) fn oldest(&self) -> Option<&Name> {
        let (age, origin) = self.by_age.first_key_value()?;
        self.by_origin.get(origin)?.get(age)
    }
}

fn count_of(origin: IpAddr, of_origin: &BTreeMap<u64, Name>) -> Option<(usize, Reverse<u64>, IpAddr)> {
    of_origin.first_key_value().map(|(oldest, _)| (of_origin.len(), Reverse(*oldest), origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::clients::client::ClientProtocol;

    fn name(number: u8) -> Name {
        (ClientProtocol::Sessions, Box::from([number]), IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn the_oldest_of_an_origin_and_of_the_greediest_are_known() {
        let [one, two] = [1, 2].map(|number| IpAddr::from([192, 0, 2, number]));
        let mut proposals = Proposals::default();
        let first = proposals.add(one, &name(1));
        let ages: Vec<u64> = (2..5).map(|number| proposals.add(two, &name(number))).collect();
        let younger = proposals.add(one, &name(5));
        assert_eq!((proposals.oldest_of(one), proposals.oldest()), (Some(&name(1)), Some(&name(1))));
        assert_eq!(proposals.oldest_of_greediest(), Some(&name(2)), "two has three");
        ages.iter().take(2).for_each(|age| proposals.remove(*age));
        assert_eq!(proposals.oldest_of_greediest(), Some(&name(1)), "one has two");
        proposals.remove(first);
        proposals.remove(first);
        assert_eq!((proposals.oldest_of(one), proposals.oldest()), (Some(&name(5)), Some(&name(4))));
        proposals.remove(younger);
        proposals.remove(ages[2]);
        assert_eq!((proposals.oldest_of_greediest(), proposals.oldest()), (None, None));
        assert!(proposals.by_origin.is_empty() && proposals.counts.is_empty());
    }

    /// An address that sorts last, as all of IPv6 does beside IPv4, is not the first to go.
    #[test]
    fn of_origins_with_as_many_the_oldest_gives_way() {
        let mut proposals = Proposals::default();
        for number in [3, 1, 2, 9] {
            proposals.add(IpAddr::from([192, 0, 2, number]), &name(number));
        }
        for number in [3, 1, 2, 9] {
            assert_eq!(proposals.oldest_of_greediest(), Some(&name(number)));
            let oldest = *proposals.by_age.keys().next().unwrap();
            proposals.remove(oldest);
        }
    }
}
