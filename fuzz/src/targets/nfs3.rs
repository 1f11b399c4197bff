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
        Procedure::Getattr => there_and_back!(GetattrArgs<'_>, body),
        Procedure::Setattr => there_and_back!(SetattrArgs<'_>, body),
        Procedure::Lookup => there_and_back!(LookupArgs<'_>, body),
        Procedure::Access => there_and_back!(AccessArgs<'_>, body),
        Procedure::Readlink => there_and_back!(ReadlinkArgs<'_>, body),
        Procedure::Read => there_and_back!(ReadArgs<'_>, body),
        Procedure::Write => there_and_back!(WriteArgs<'_>, body),
        Procedure::Create => there_and_back!(CreateArgs<'_>, body),
        Procedure::Mkdir => there_and_back!(MkdirArgs<'_>, body),
        Procedure::Symlink => there_and_back!(SymlinkArgs<'_>, body),
        Procedure::Mknod => there_and_back!(MknodArgs<'_>, body),
        Procedure::Remove => there_and_back!(RemoveArgs<'_>, body),
        Procedure::Rmdir => there_and_back!(RmdirArgs<'_>, body),
        Procedure::Rename => there_and_back!(RenameArgs<'_>, body),
        Procedure::Link => there_and_back!(LinkArgs<'_>, body),
        Procedure::Readdir => there_and_back!(ReaddirArgs<'_>, body),
        Procedure::Readdirplus => there_and_back!(ReaddirplusArgs<'_>, body),
        Procedure::Fsstat => there_and_back!(FsstatArgs<'_>, body),
        Procedure::Fsinfo => there_and_back!(FsinfoArgs<'_>, body),
        Procedure::Pathconf => there_and_back!(PathconfArgs<'_>, body),
        Procedure::Commit => there_and_back!(CommitArgs<'_>, body),
    }
}

fn results(procedure: Procedure, body: &[u8]) -> Kind {
    match procedure {
        Procedure::Null => Kind::of(0),
        Procedure::Getattr => there_and_back!(GetattrRes, body),
        Procedure::Setattr => there_and_back!(SetattrRes, body),
        Procedure::Lookup => there_and_back!(LookupRes<'_>, body),
        Procedure::Access => there_and_back!(AccessRes, body),
        Procedure::Readlink => there_and_back!(ReadlinkRes<'_>, body),
        Procedure::Read => there_and_back!(ReadRes<'_>, body),
        Procedure::Write => there_and_back!(WriteRes, body),
        Procedure::Create => there_and_back!(CreateRes<'_>, body),
        Procedure::Mkdir => there_and_back!(MkdirRes<'_>, body),
        Procedure::Symlink => there_and_back!(SymlinkRes<'_>, body),
        Procedure::Mknod => there_and_back!(MknodRes<'_>, body),
        Procedure::Remove => there_and_back!(RemoveRes, body),
        Procedure::Rmdir => there_and_back!(RmdirRes, body),
        Procedure::Rename => there_and_back!(RenameRes, body),
        Procedure::Link => there_and_back!(LinkRes, body),
        Procedure::Readdir => there_and_back!(ReaddirRes<'_>, body),
        Procedure::Readdirplus => there_and_back!(ReaddirplusRes<'_>, body),
        Procedure::Fsstat => there_and_back!(FsstatRes, body),
        Procedure::Fsinfo => there_and_back!(FsinfoRes, body),
        Procedure::Pathconf => there_and_back!(PathconfRes, body),
        Procedure::Commit => there_and_back!(CommitRes, body),
    }
}
