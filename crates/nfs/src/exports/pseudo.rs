//! The pseudo file system (RFC 8881 section 7.3): one root, and under it all exports at their paths.
//!
//! Its directories are the components of the paths of exports. At the path of an export, the root directory of the volume
//! covers the directory; only the fileid of the covered directory remains visible, as `mounted_on_fileid`. A client sees
//! the directories that lead to an export that admits it, and no others.
//!
//! Fileids and handles are derived from paths alone, so they survive a restart, and a change of the configuration as long
//! as the path remains.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use siphasher::sip::SipHasher24;
use volume::attributes::{Attributes, Device, FileType};
use volume::ids::{Ino, VolumeId};
use volume::limits::DIRECTORY_LINKS_MAX;
use volume::time::Time;

use crate::exports::{Export, Exports, Rule};

/// Format number of the handles of pseudo directories; that of volumes' handles is 1.
const FORMAT: u32 = 2;

/// Length of such a handle: format and fileid.
pub(crate) const PSEUDO_HANDLE_BYTES: usize = 12;

/// A directory of the pseudo file system.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its fileid, from which its handle is made.
    pub(crate) fileid: u64,
    /// The fileid of its parent; the root is its own parent.
    pub(crate) parent: u64,
    /// The fileids of its entries, by name.
    pub(crate) children: BTreeMap<Box<[u8]>, u64>,
    /// Its path; that of the root is empty.
    path: String,
    /// The volume whose root covers it.
    pub(crate) volume: Option<VolumeId>,
    /// The exports at this path or beneath it, by their indexes in the list.
    beneath: Vec<usize>,
}

/// The pseudo file system.
#[derive(Debug)]
pub(crate) struct Pseudo {
    nodes: BTreeMap<u64, Node>,
    root: u64,
    /// The change attribute; differs whenever the tree does.
    pub(crate) change: u64,
}

/// Returns the fileid of a path; the path of the root is empty. Handles are made from it, so it never changes. It is never
/// the fileid of the root of a volume.
fn fileid(path: &str) -> u64 {
    SipHasher24::new_with_key(b"pseudo filesystm").hash(path.as_bytes()) | 1 << 63
}

impl Pseudo {
    /// Builds the tree of `exports`.
    pub(crate) fn new(exports: &Exports) -> Pseudo {
        let root = fileid("");
        let mut tree = Pseudo { nodes: BTreeMap::new(), root, change: 0 };
        tree.nodes.insert(root, Node::new(root, root, ""));
        let mut all = String::new();
        for (number, export) in exports.iter().enumerate() {
            tree.add(number, export);
            all.push_str(&format!("{}\0{}\0", export.path, export.volume));
        }
        tree.change = SipHasher24::new().hash(all.as_bytes());
        tree
    }

    fn add(&mut self, number: usize, export: &Export) {
        let mut at = self.root;
        let mut path = String::new();
        self.node_mut(at).beneath.push(number);
        for name in export.path.split('/').filter(|name| !name.is_empty()) {
            path.push('/');
            path.push_str(name);
            let (parent, child) = (at, fileid(&path));
            self.node_mut(parent).children.insert(name.as_bytes().into(), child);
            at = child;
            self.nodes.entry(child).or_insert_with(|| Node::new(child, parent, &path)).beneath.push(number);
        }
        self.node_mut(at).volume = Some(export.volume);
    }

    fn node_mut(&mut self, fileid: u64) -> &mut Node {
        self.nodes.get_mut(&fileid).expect("it was put there before its children")
    }

    /// Returns the root.
    pub(crate) fn root(&self) -> &Node {
        self.nodes.get(&self.root).expect("there always is one")
    }

    /// Returns the directory with this fileid.
    pub(crate) fn node(&self, fileid: u64) -> Option<&Node> {
        self.nodes.get(&fileid)
    }

    /// Resolves a handle. Returns none if the bytes are not a handle of this kind, and an inner none if the directory no
    /// longer exists.
    pub(crate) fn resolve(&self, handle: &[u8]) -> Option<Option<&Node>> {
        let (format, fileid) = handle.split_first_chunk::<4>()?;
        let fileid: &[u8; 8] = fileid.try_into().ok()?;
        (*format == FORMAT.to_be_bytes()).then(|| self.node(u64::from_be_bytes(*fileid)))
    }

    /// Looks up `name` in `node` for a client at `peer`.
    pub(crate) fn child(
        &self,
        node: &Node,
        name: &[u8],
        exports: &Exports,
        peer: SocketAddr,
    ) -> Option<&Node> {
        let child = self.node(*node.children.get(name)?)?;
        child.is_visible(exports, peer).then_some(child)
    }

    /// Returns the path of `name` in `node`, which is hidden from a client at `peer`, and the rule by which the first export
    /// at that path refuses the client. Returns `None` if there is no export at that path.
    pub(crate) fn hidden(
        &self,
        node: &Node,
        name: &[u8],
        exports: &Exports,
        peer: SocketAddr,
    ) -> (Vec<u8>, Option<Rule>) {
        let path = [node.path.as_bytes(), b"/", name].concat();
        let child = node.children.get(name).and_then(|fileid| self.node(*fileid));
        let export = child.and_then(|child| exports.iter().nth(*child.beneath.first()?));
        (path, export.and_then(|export| export.refuses(peer)))
    }

    /// Returns the first directory that the root of a volume covers, as a client at `peer` sees it.
    pub(crate) fn place_of(&self, volume: VolumeId, exports: &Exports, peer: SocketAddr) -> Option<&Node> {
        let export = exports.admitting(volume, peer)?;
        let mut path = String::new();
        for name in export.path.split('/').filter(|name| !name.is_empty()) {
            path.push('/');
            path.push_str(name);
        }
        self.node(fileid(&path))
    }
}

impl Pseudo {
    /// Returns the attributes of a directory.
    pub(crate) fn attributes(&self, node: &Node) -> Attributes {
        Attributes {
            ino: Ino(node.fileid),
            file_type: FileType::Directory,
            mode: 0o555,
            links: u32::try_from(node.children.len()).unwrap_or(DIRECTORY_LINKS_MAX).saturating_add(2),
            uid: 0,
            gid: 0,
            size: u64::try_from(node.children.len()).unwrap_or(u64::MAX),
            used: 0,
            device: Device::default(),
            atime: Time::EPOCH,
            mtime: Time::EPOCH,
            ctime: Time::EPOCH,
            change: self.change,
        }
    }
}

impl Node {
    fn new(fileid: u64, parent: u64, path: &str) -> Node {
        let path = path.to_owned();
        Node { fileid, parent, children: BTreeMap::new(), path, volume: None, beneath: Vec::new() }
    }

    /// Returns the bytes of the handle.
    pub(crate) fn handle(&self) -> [u8; PSEUDO_HANDLE_BYTES] {
        let mut bytes = [0; PSEUDO_HANDLE_BYTES];
        let (format, fileid) = bytes.split_at_mut(4);
        format.copy_from_slice(&FORMAT.to_be_bytes());
        fileid.copy_from_slice(&self.fileid.to_be_bytes());
        bytes
    }

    /// Whether it leads to an export that admits a client at `peer`.
    pub(crate) fn is_visible(&self, exports: &Exports, peer: SocketAddr) -> bool {
        let mut beneath = self.beneath.iter().filter_map(|number| exports.iter().nth(*number));
        beneath.any(|export| export.admits(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports(paths: &[(&str, u64)]) -> Exports {
        let list = paths.iter().map(|(path, volume)| Export::new(*path, VolumeId(*volume))).collect();
        Exports::new(list).unwrap()
    }

    fn anybody() -> SocketAddr {
        "192.0.2.1:900".parse().unwrap()
    }

    #[test]
    fn paths_lead_to_volumes() {
        let exports = exports(&[("/data/main", 1), ("/data/other", 2)]);
        let tree = Pseudo::new(&exports);
        let data = tree.child(tree.root(), b"data", &exports, anybody()).unwrap();
        assert_eq!(data.volume, None);
        assert_eq!(data.parent, tree.root().fileid);
        let main = tree.child(data, b"main", &exports, anybody()).unwrap();
        assert_eq!(main.volume, Some(VolumeId(1)));
        assert_eq!(tree.place_of(VolumeId(2), &exports, anybody()).unwrap().parent, data.fileid);
        assert!(tree.child(data, b"none", &exports, anybody()).is_none());
    }

    #[test]
    fn what_is_hidden_from_a_client_has_a_path_and_a_rule() {
        let near =
            Export { clients: vec!["10.0.0.0/8".parse().unwrap()], ..Export::new("/data/near", VolumeId(1)) };
        let exports = Exports::new(vec![near, Export::new("/data/main", VolumeId(2))]).unwrap();
        let tree = Pseudo::new(&exports);
        let data = tree.child(tree.root(), b"data", &exports, anybody()).unwrap();
        assert!(tree.child(data, b"near", &exports, anybody()).is_none());
        let hidden = |node, name| tree.hidden(node, name, &exports, anybody());
        assert_eq!(hidden(data, b"near"), (b"/data/near".to_vec(), Some(Rule::Clients)));
        assert_eq!(hidden(data, b"far"), (b"/data/far".to_vec(), None));
        assert_eq!(hidden(tree.root(), b"far"), (b"/far".to_vec(), None));
    }

    #[test]
    fn an_export_of_the_root_is_the_root() {
        let tree = Pseudo::new(&exports(&[("/", 1), ("/other", 2)]));
        assert_eq!(tree.root().volume, Some(VolumeId(1)));
        assert_eq!(tree.root().children.len(), 1);
    }

    #[test]
    fn clients_that_are_not_admitted_see_nothing() {
        let closed =
            Export { clients: vec!["198.51.100.0/24".parse().unwrap()], ..Export::new("/a/b", VolumeId(1)) };
        let exports = Exports::new(vec![closed, Export::new("/c", VolumeId(2))]).unwrap();
        let tree = Pseudo::new(&exports);
        assert!(tree.child(tree.root(), b"a", &exports, anybody()).is_none());
        assert!(tree.child(tree.root(), b"a", &exports, "198.51.100.9:900".parse().unwrap()).is_some());
        assert!(tree.child(tree.root(), b"c", &exports, anybody()).is_some());
    }

    #[test]
    fn handles_come_from_paths_alone() {
        let (before, after) = (exports(&[("/data/main", 1)]), exports(&[("/x", 3), ("/data/main", 2)]));
        let (before, after) = (Pseudo::new(&before), Pseudo::new(&after));
        let handle = before.root().handle();
        assert_eq!(handle.get(..4), Some(&[0, 0, 0, 2][..]));
        assert_eq!(after.resolve(&handle).unwrap().unwrap().fileid, before.root().fileid);
        let data = before.node(fileid("/data")).unwrap().handle();
        assert!(after.resolve(&data).unwrap().is_some());
        let gone = after.node(fileid("/x")).unwrap().handle();
        assert!(before.resolve(&gone).unwrap().is_none());
        assert!(before.resolve(&[0; 36]).is_none());
        assert_ne!(before.change, after.change);
        assert_eq!(fileid(""), fileid(""), "numbers never change");
    }
}
