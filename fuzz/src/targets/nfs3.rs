//! Arguments and results of NFSv3.

use wire::nfs3::*;

use super::{Kind, bodies};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for procedure in Procedure::ALL {
        let code = u8::try_from(procedure.code()).expect("22 procedures");
        for (bit, suffix) in [(0, "call"), (128, "reply")] {
            let part = format!("-{}-{suffix}.bin", procedure.name().to_lowercase());
            seeds.extend(bodies(&part).iter().map(|body| [&[code | bit], body.as_slice()].concat()));
        }
    }
    seeds
}

/// The low bits of the first byte select the procedure, its high bit selects results.
pub(super) fn run(bytes: &[u8]) -> Kind {
    let Some((first, body)) = bytes.split_first() else { return Kind::of(0) };
    let Some(procedure) = Procedure::from_code(u32::from(first & 31)) else { return Kind::of(1) };
    let kind = if first & 128 == 0 { arguments(procedure, body) } else { results(procedure, body) };
    Kind::of((first, kind))
}

fn arguments(procedure: Procedure, body: &[u8]) -> Kind {
    match procedure {
        Procedure::Null => Kind::of(0),
        Procedure::Getattr => round_trip!(GetattrArgs<'_>, body),
        Procedure::Setattr => round_trip!(SetattrArgs<'_>, body),
        Procedure::Lookup => round_trip!(LookupArgs<'_>, body),
        Procedure::Access => round_trip!(AccessArgs<'_>, body),
        Procedure::Readlink => round_trip!(ReadlinkArgs<'_>, body),
        Procedure::Read => round_trip!(ReadArgs<'_>, body),
        Procedure::Write => round_trip!(WriteArgs<'_>, body),
        Procedure::Create => round_trip!(CreateArgs<'_>, body),
        Procedure::Mkdir => round_trip!(MkdirArgs<'_>, body),
        Procedure::Symlink => round_trip!(SymlinkArgs<'_>, body),
        Procedure::Mknod => round_trip!(MknodArgs<'_>, body),
        Procedure::Remove => round_trip!(RemoveArgs<'_>, body),
        Procedure::Rmdir => round_trip!(RmdirArgs<'_>, body),
        Procedure::Rename => round_trip!(RenameArgs<'_>, body),
        Procedure::Link => round_trip!(LinkArgs<'_>, body),
        Procedure::Readdir => round_trip!(ReaddirArgs<'_>, body),
        Procedure::Readdirplus => round_trip!(ReaddirplusArgs<'_>, body),
        Procedure::Fsstat => round_trip!(FsstatArgs<'_>, body),
        Procedure::Fsinfo => round_trip!(FsinfoArgs<'_>, body),
        Procedure::Pathconf => round_trip!(PathconfArgs<'_>, body),
        Procedure::Commit => round_trip!(CommitArgs<'_>, body),
    }
}

fn results(procedure: Procedure, body: &[u8]) -> Kind {
    match procedure {
        Procedure::Null => Kind::of(0),
        Procedure::Getattr => round_trip!(GetattrRes, body),
        Procedure::Setattr => round_trip!(SetattrRes, body),
        Procedure::Lookup => round_trip!(LookupRes<'_>, body),
        Procedure::Access => round_trip!(AccessRes, body),
        Procedure::Readlink => round_trip!(ReadlinkRes<'_>, body),
        Procedure::Read => round_trip!(ReadRes<'_>, body),
        Procedure::Write => round_trip!(WriteRes, body),
        Procedure::Create => round_trip!(CreateRes<'_>, body),
        Procedure::Mkdir => round_trip!(MkdirRes<'_>, body),
        Procedure::Symlink => round_trip!(SymlinkRes<'_>, body),
        Procedure::Mknod => round_trip!(MknodRes<'_>, body),
        Procedure::Remove => round_trip!(RemoveRes, body),
        Procedure::Rmdir => round_trip!(RmdirRes, body),
        Procedure::Rename => round_trip!(RenameRes, body),
        Procedure::Link => round_trip!(LinkRes, body),
        Procedure::Readdir => round_trip!(ReaddirRes<'_>, body),
        Procedure::Readdirplus => round_trip!(ReaddirplusRes<'_>, body),
        Procedure::Fsstat => round_trip!(FsstatRes, body),
        Procedure::Fsinfo => round_trip!(FsinfoRes, body),
        Procedure::Pathconf => round_trip!(PathconfRes, body),
        Procedure::Commit => round_trip!(CommitRes, body),
    }
}
