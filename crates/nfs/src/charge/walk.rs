//! Finds the volumes in which the operations of a COMPOUND may take place. Uses only its arguments, and asks no volume.
//!
//! Handles name their volumes, and names in the pseudo file system lead to those of exports. What cannot be known is whether a
//! `LOOKUPP` comes to the root of a volume, from where others lead back into the pseudo file system. After one, the COMPOUND
//! may be in several places, and all of them are followed.

use std::net::SocketAddr;

use volume::handle::Handle;
use volume::ids::{Ino, VolumeId};
use wire::nfs4::ArgOp4;

use crate::exports::Exports;
use crate::exports::pseudo::{Node, Pseudo};

/// What a client can reach.
pub(crate) struct Map<'m> {
    pub(crate) exports: &'m Exports,
    pub(crate) pseudo: &'m Pseudo,
    pub(crate) peer: SocketAddr,
}

impl<'m> Map<'m> {
    /// Whether an export of the volume admits the client.
    pub(super) fn admits(&self, volume: VolumeId) -> bool {
        self.exports.admitting(volume, self.peer).is_some()
    }

    /// Returns what a handle names.
    fn of_handle(&self, handle: &[u8]) -> Option<Spot<'m>> {
        if let Some(node) = self.pseudo.resolve(handle) {
            return self.entered(node?);
        }
        let handle = Handle::parse(handle).filter(|handle| self.admits(handle.volume))?;
        let root = if handle.ino == Ino::ROOT { Root::Yes } else { Root::No };
        Some(Spot::Volume(handle.volume, root))
    }

    /// Returns what a directory of the pseudo file system shows: the root of a volume, or itself.
    fn entered(&self, node: &'m Node) -> Option<Spot<'m>> {
        match node.volume.filter(|volume| self.admits(*volume)) {
            Some(volume) => Some(Spot::Volume(volume, Root::Yes)),
            None => Some(Spot::Node(node)),
        }
    }

    /// Returns the directory that the root of a volume covers.
    fn covered(&self, volume: VolumeId) -> Option<&'m Node> {
        self.pseudo.place_of(volume, self.exports, self.peer)
    }

    /// Returns what a name in a directory of the pseudo file system leads to.
    fn child(&self, node: &Node, name: &[u8]) -> Option<Spot<'m>> {
        self.pseudo.child(node, name, self.exports, self.peer).and_then(|child| self.entered(child))
    }

    fn parent(&self, node: &Node) -> Option<Spot<'m>> {
        self.pseudo.node(node.parent).and_then(|parent| self.entered(parent))
    }
}

/// Where a COMPOUND may be.
#[derive(Clone, Copy)]
enum Spot<'m> {
    /// In a volume; whether at its root.
    Volume(VolumeId, Root),
    /// In a directory of the pseudo file system.
    Node(&'m Node),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Yes,
    No,
    Maybe,
}

impl Spot<'_> {
    fn is(&self, other: &Spot<'_>) -> bool {
        match (self, other) {
            (Spot::Volume(one, root), Spot::Volume(other, other_root)) => one == other && root == other_root,
            (Spot::Node(one), Spot::Node(other)) => one.fileid == other.fileid,
            _ => false,
        }
    }

    fn volume(&self) -> Option<VolumeId> {
        match self {
            Spot::Volume(volume, _) => Some(*volume),
            Spot::Node(_) => None,
        }
    }
}

/// A COMPOUND on its way.
pub(super) struct Walk<'m> {
    map: &'m Map<'m>,
    /// Where the current filehandle may be. No two are the same, so there are no more than twice as many as exports and the directories
    /// above them.
    current: Vec<Spot<'m>>,
    saved: Vec<Spot<'m>>,
}

impl<'m> Walk<'m> {
    pub(super) fn new(map: &'m Map<'m>) -> Walk<'m> {
        Walk { map, current: Vec::new(), saved: Vec::new() }
    }

    /// Returns the volumes in which the next operation may be done.
    pub(super) fn volumes(&self) -> impl Iterator<Item = VolumeId> {
        let volume = |number: usize| self.current.get(number).and_then(Spot::volume);
        let is_first = move |number: &usize| (0..*number).all(|before| volume(before) != volume(*number));
        (0..self.current.len()).filter(is_first).filter_map(volume)
    }

    /// Follows an operation.
    pub(super) fn step(&mut self, operation: &ArgOp4<'_>) {
        match operation {
            ArgOp4::Putfh(args) => self.go_to(self.map.of_handle(args.object.as_bytes())),
            ArgOp4::Putrootfh | ArgOp4::Putpubfh => self.go_to(self.map.entered(self.map.pseudo.root())),
            ArgOp4::Lookup(args) => self.go_on(|map, spot| below(map, spot, args.objname.0)),
            ArgOp4::Open(_) | ArgOp4::Create(_) => self.go_on(|_, spot| [inside(spot), None]),
            ArgOp4::Lookupp => self.go_on(above),
            ArgOp4::Savefh => self.saved.clone_from(&self.current),
            ArgOp4::Restorefh => self.current.clone_from(&self.saved),
            _ => {}
        }
    }

    fn go_to(&mut self, spot: Option<Spot<'m>>) {
        self.current.clear();
        self.current.extend(spot);
    }

    fn go_on(&mut self, next: impl Fn(&Map<'m>, Spot<'m>) -> [Option<Spot<'m>>; 2]) {
        for from in std::mem::take(&mut self.current) {
            for spot in next(self.map, from).into_iter().flatten() {
                if !self.current.iter().any(|known| known.is(&spot)) {
                    self.current.push(spot);
                }
            }
        }
    }
}

/// Where a name may lead. At the root of a volume, exports whose paths lead through it come first.
fn below<'m>(map: &Map<'m>, spot: Spot<'m>, name: &[u8]) -> [Option<Spot<'m>>; 2] {
    match spot {
        Spot::Node(node) => [map.child(node, name), None],
        Spot::Volume(_, Root::No) => [Some(spot), None],
        Spot::Volume(volume, root) => {
            let covering = map.covered(volume).and_then(|node| map.child(node, name));
            let stays = covering.is_none() || root == Root::Maybe;
            [if stays { inside(spot) } else { None }, covering]
        }
    }
}

/// Where an object is that is in this place, and not the root of anything.
fn inside(spot: Spot<'_>) -> Option<Spot<'_>> {
    spot.volume().map(|volume| Spot::Volume(volume, Root::No))
}

/// Where the parent may be.
fn above<'m>(map: &Map<'m>, spot: Spot<'m>) -> [Option<Spot<'m>>; 2] {
    let outside = |volume| map.covered(volume).and_then(|node| map.parent(node));
    match spot {
        Spot::Node(node) => [map.parent(node), None],
        Spot::Volume(volume, Root::Yes) => [None, outside(volume)],
        Spot::Volume(volume, Root::No) => [Some(Spot::Volume(volume, Root::Maybe)), None],
        Spot::Volume(volume, Root::Maybe) => [Some(Spot::Volume(volume, Root::Maybe)), outside(volume)],
    }
}
