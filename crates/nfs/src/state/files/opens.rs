//! The opens of a file. Any client may open one file as often as its share of memory allows, and others open and close it
//! meanwhile. So no operation takes time in proportion to the number of opens.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::state::clients::client::{Client, ClientProtocol, OpenOwner};
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{ClientId, Other};
use crate::state::stateids::entry::StateEntry;

/// Opens of a file that are looked through one by one, which takes less time and memory than tables.
const FEW_MAX: usize = 16;

/// What matters to others about an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenKind {
    /// None if it neither accesses nor denies anything: NLM's locks depend on such an open.
    pub(crate) mode: Option<Mode>,
    /// Whether it is an NLM client's.
    pub(crate) is_nlm: bool,
}

impl OpenKind {
    fn of(entry: &StateEntry) -> OpenKind {
        OpenKind { mode: entry.mode(), is_nlm: entry.client.version == ClientProtocol::Nlm }
    }
}

/// The opens of a file.
#[derive(Debug, Default)]
pub(crate) enum Opens {
    #[default]
    None,
    /// That of most files that are open.
    One(Arc<StateEntry>),
    /// At most [`FEW_MAX`].
    Few(Vec<Arc<StateEntry>>),
    /// There were more.
    Many(Box<Tables>),
}

/// A client, its owner by number, and the stateid: an owner that creates a file may open it by its name before that is
/// adopted.
type Key = (ClientId, u64, Other);

/// Many opens.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    by_owner: BTreeMap<Key, Arc<StateEntry>>,
    /// The clients that have the file open in each way, and how often.
    by_kind: BTreeMap<OpenKind, BTreeMap<ClientId, (Arc<Client>, u64)>>,
}

impl Opens {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Opens::None)
    }

    /// Returns the opens as a list or as tables.
    #[inline]
    fn parts(&self) -> Result<&[Arc<StateEntry>], &Tables> {
        match self {
            Opens::None => Ok(&[]),
            Opens::One(only) => Ok(std::slice::from_ref(only)),
            Opens::Few(few) => Ok(few),
            Opens::Many(tables) => Err(tables),
        }
    }

    /// Returns the open of an owner.
    pub(crate) fn of_owner(&self, client: &Client, owner: &Arc<OpenOwner>) -> Option<&Arc<StateEntry>> {
        match self.parts() {
            Ok(few) => few.iter().find(|entry| {
                entry.client.id == client.id
                    && entry.as_open().is_some_and(|open| Arc::ptr_eq(&open.owner, owner))
            }),
            Err(tables) => {
                let (client, owner) = (client.id, owner.number());
                let mut own =
                    tables.by_owner.range((client, owner, Other::ZEROS)..=(client, owner, Other::ONES));
                own.next().map(|(_, entry)| entry)
            }
        }
    }

    /// Returns an open of a client.
    pub(crate) fn of_client(&self, client: &Client) -> Option<&Arc<StateEntry>> {
        match self.parts() {
            Ok(few) => few.iter().find(|entry| entry.client.id == client.id),
            Err(tables) => {
                let id = client.id;
                let mut own = tables.by_owner.range((id, 0, Other::ZEROS)..=(id, u64::MAX, Other::ONES));
                own.next().map(|(_, entry)| entry)
            }
        }
    }

    /// Returns whether this open is among them.
    pub(crate) fn contains(&self, entry: &Arc<StateEntry>) -> bool {
        match self.parts() {
            Ok(few) => few.iter().any(|other| Arc::ptr_eq(other, entry)),
            Err(tables) => key(entry).is_some_and(|key| tables.by_owner.contains_key(&key)),
        }
    }

    /// Iterates over clients that have the file open in one of the ways that `fits` chooses, leaving out one open. A client
    /// may recur. That the first one is found takes no longer if there are many opens.
    pub(crate) fn clients<'a>(
        &'a self,
        left_out: Option<&'a Arc<StateEntry>>,
        fits: impl Fn(OpenKind) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = &'a Arc<Client>> {
        let (few, many) = match self.parts() {
            Ok(few) => (few, None),
            Err(tables) => (&[][..], Some(tables)),
        };
        let is_left_out = move |entry: &Arc<StateEntry>| left_out.is_some_and(|out| Arc::ptr_eq(out, entry));
        let few = few.iter().filter(move |entry| !is_left_out(entry) && fits(OpenKind::of(entry)));
        let kinds = many.into_iter().flat_map(|tables| &tables.by_kind);
        let many = kinds.filter(move |(kind, _)| fits(**kind)).flat_map(move |(kind, clients)| {
            let left_out = left_out.filter(|out| OpenKind::of(out) == *kind).map(|out| out.client.id);
            let has_others = move |client: &Client, opens| opens > u64::from(left_out == Some(client.id));
            clients
                .values()
                .filter(move |(client, opens)| has_others(client, *opens))
                .map(|(client, _)| client)
        });
        few.map(|entry| &entry.client).chain(many)
    }

    /// Adds an open; other entries are ignored.
    pub(crate) fn insert(&mut self, entry: &Arc<StateEntry>) {
        match self {
            Opens::None => *self = Opens::One(Arc::clone(entry)),
            Opens::One(only) => *self = Opens::Few(vec![Arc::clone(only), Arc::clone(entry)]),
            Opens::Few(few) if few.len() < FEW_MAX => few.push(Arc::clone(entry)),
            Opens::Few(few) => {
                let mut tables = Tables::default();
                few.iter().chain([entry]).for_each(|entry| tables.insert(entry));
                *self = Opens::Many(Box::new(tables));
            }
            Opens::Many(tables) => tables.insert(entry),
        }
    }

    /// Removes an open.
    pub(crate) fn remove(&mut self, entry: &Arc<StateEntry>) {
        match self {
            Opens::None => {}
            Opens::One(only) => {
                if Arc::ptr_eq(only, entry) {
                    *self = Opens::None;
                }
            }
            Opens::Few(few) => {
                few.retain(|other| !Arc::ptr_eq(other, entry));
                if few.is_empty() {
                    *self = Opens::None;
                }
            }
            Opens::Many(tables) => {
                let was_there = key(entry).and_then(|key| tables.by_owner.remove(&key)).is_some();
                if was_there {
                    tables.uncount(OpenKind::of(entry), entry);
                }
                if tables.by_owner.is_empty() {
                    *self = Opens::None;
                }
            }
        }
    }

    /// Replaces the modes of an open that is among them.
    pub(crate) fn set_modes(&mut self, entry: &Arc<StateEntry>, modes: Modes) {
        let Some(open) = entry.as_open() else { return };
        let before = OpenKind::of(entry);
        open.set_modes(modes);
        if let Opens::Many(tables) = self {
            tables.uncount(before, entry);
            tables.count(entry);
        }
    }
}

impl Tables {
    fn insert(&mut self, entry: &Arc<StateEntry>) {
        if let Some(key) = key(entry) {
            self.by_owner.insert(key, Arc::clone(entry));
            self.count(entry);
        }
    }

    fn count(&mut self, entry: &Arc<StateEntry>) {
        let of_kind = self.by_kind.entry(OpenKind::of(entry)).or_default();
        of_kind.entry(entry.client.id).or_insert_with(|| (Arc::clone(&entry.client), 0)).1 += 1;
    }

    fn uncount(&mut self, kind: OpenKind, entry: &StateEntry) {
        let Some(of_kind) = self.by_kind.get_mut(&kind) else { return };
        if let Some((_, opens)) = of_kind.get_mut(&entry.client.id) {
            *opens -= 1;
            if *opens == 0 {
                of_kind.remove(&entry.client.id);
            }
        }
        if of_kind.is_empty() {
            self.by_kind.remove(&kind);
        }
    }
}

/// Returns where an open is in the tables.
fn key(entry: &StateEntry) -> Option<Key> {
    entry.as_open().map(|open| (entry.client.id, open.owner.number(), entry.other))
}
