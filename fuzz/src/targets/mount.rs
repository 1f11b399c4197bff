//! Arguments and results of MOUNT.

use wire::mount3::{DirPath, Exports, MntRes, MountList};

use super::{Kind, bodies};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let bodies = bodies("-mount-");
    (0..4).flat_map(|kind| bodies.iter().map(move |body| [&[kind], body.as_slice()].concat())).collect()
}

/// The first byte selects how the rest is decoded.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((kind, body)) = bytes.split_first() else { return Kind::of(0) };
    match kind % 4 {
        0 => round_trip!(DirPath<'_>, body),
        1 => round_trip!(MntRes<'_>, body),
        2 => {
            walk(wire::xdr::decode_all::<MountList<'_>>(body).map(|list| list.iter().count()), body);
            round_trip!(MountList<'_>, body)
        }
        _ => {
            let nodes = wire::xdr::decode_all::<Exports<'_>>(body);
            walk(nodes.map(|nodes| nodes.iter().map(|node| 1 + node.groups.iter().count()).sum()), body);
            round_trip!(Exports<'_>, body)
        }
    }
}

/// Checks that a list has no more elements than its bytes allow.
fn walk<E>(elements: Result<usize, E>, body: &[u8]) {
    assert!(elements.unwrap_or(0) * 4 <= body.len(), "more elements than bytes");
}
