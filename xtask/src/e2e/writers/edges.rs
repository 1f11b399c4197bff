//! Each limit, reached to the byte and to the object.

use fastrand::Rng;

use super::super::client::rpc::Failure;
use super::super::lab::Lab;
use super::calls::{Calls, Handle};
use super::ledger::{Amount, Owner};
use super::writer::{DQUOT, GROUPS, USERS};
use super::{limit, owners, used};

/// What stays free at first.
const ROOM_MAX: u64 = 50_000;

/// Reaches the limits of all kinds, one after another, while nobody else writes.
pub(super) struct Edges<'l> {
    lab: &'l Lab,
    calls: Calls,
    /// A directory in the quota tree.
    folder: Handle,
    random: Rng,
    made: u32,
}

impl Edges<'_> {
    /// `folder` is in the quota tree.
    pub(super) fn new(lab: &Lab, calls: Calls, folder: Handle, seed: u64) -> Edges<'_> {
        Edges { lab, calls, folder, random: Rng::with_seed(seed), made: 0 }
    }

    pub(super) fn run(mut self) -> Result<String, String> {
        for owner in owners() {
            limit(self.lab, owner, Amount::UNLIMITED)?;
        }
        let mut edges = 0;
        for owner in [Owner::Volume, Owner::Tree, Owner::User(USERS[0]), Owner::Group(GROUPS[0])] {
            for is_v4 in [false, true] {
                for is_stable in [false, true] {
                    let edge = format!("the limit of {owner:?}, NFSv4 {is_v4}, stable {is_stable}");
                    self.calls.is_v4 = is_v4;
                    self.reach_bytes(owner, is_stable).map_err(|why| format!("{edge}: {why}"))?;
                    edges += 1;
                }
                self.calls.is_v4 = is_v4;
                let edge = format!("the limit of {owner:?} on objects, NFSv4 {is_v4}");
                self.reach_inodes(owner).map_err(|why| format!("{edge}: {why}"))?;
                edges += 1;
            }
        }
        Ok(format!("{edges} limits reached exactly"))
    }

    /// Limits an owner to what it uses and a little more.
    fn limit(&self, owner: Owner, more: Amount) -> Result<(), String> {
        let before = used(self.lab)?.get(&owner).copied().unwrap_or_default();
        let with = |used: u64, more: u64| if more == 0 { u64::MAX } else { used + more };
        let (bytes, inodes) = (with(before.bytes, more.bytes), with(before.inodes, more.inodes));
        limit(self.lab, owner, Amount { bytes, inodes })
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("edge-{}", self.made)
    }

    fn reach_bytes(&mut self, owner: Owner, is_stable: bool) -> Result<(), String> {
        let (folder, name) = (self.folder.clone(), self.new_name());
        let file = self.calls.create(&folder, &name)?;
        let room = self.random.u64(1..ROOM_MAX);
        self.limit(owner, Amount::of_bytes(room))?;
        let data = vec![7; usize::try_from(room).expect("a little")];
        let calls = &mut self.calls;
        let write =
            |calls: &mut Calls, offset, data: &[u8]| match calls.write(&file, offset, is_stable, data)? {
                written if written == data.len() as u64 => Ok(()),
                written => Err(Failure::Wrong(format!("{written} bytes were written"))),
            };
        refused("a byte too many", write(calls, 0, &[&data[..], &[7]].concat()))?;
        write(calls, 0, &data)?;
        refused("one more byte", write(calls, room, &[7]))?;
        refused("an extended attribute", calls.set_xattr(&file, "note", b""))?;
        write(calls, 0, &data)?;
        calls.commit(&file)?;
        write(calls, room - 1, &[9])?;
        refused("one more byte of a file that was saved", write(calls, room, &[7]))?;
        calls.truncate(&file, room - 1)?;
        write(calls, room - 1, &[7])?;
        calls.commit(&file)?;
        calls.remove(&folder, &name, false)?;
        limit(self.lab, owner, Amount::UNLIMITED)
    }

    fn reach_inodes(&mut self, owner: Owner) -> Result<(), String> {
        let folder = self.folder.clone();
        let [first, second, third] = [(); 3].map(|()| self.new_name());
        self.limit(owner, Amount { bytes: 0, inodes: 2 })?;
        self.calls.make_folder(&folder, &first)?;
        self.calls.create(&folder, &second)?;
        refused("a directory too many", self.calls.make_folder(&folder, &third))?;
        refused("a file too many", self.calls.create(&folder, &third))?;
        self.calls.remove(&folder, &second, false)?;
        self.calls.make_folder(&folder, &third)?;
        self.calls.remove(&folder, &first, true)?;
        self.calls.remove(&folder, &third, true)?;
        limit(self.lab, owner, Amount::UNLIMITED)
    }
}

/// Checks that a call was refused for want of room.
fn refused<T>(what: &str, result: Result<T, Failure>) -> Result<(), String> {
    match result {
        Err(Failure::Status(_, DQUOT)) => Ok(()),
        Err(failure) => Err(format!("{what}: {failure}")),
        Ok(_) => Err(format!("{what} was accepted")),
    }
}
