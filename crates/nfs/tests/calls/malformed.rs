//! Damaged calls: the server replies or closes the connection, and keeps serving.

use nfs::service::Outcome;
use volume::request::Access;
use wire::nfs3::*;
use wire::record::{Peek, peek};

use crate::support::{Call, Server, encoded, place, root};

/// A small seeded generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % bound
    }
}

fn calls(dir: FileHandle3<'_>, file: FileHandle3<'_>) -> Vec<Vec<u8>> {
    let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
    let cut = Sattr3 { size: Some(10), ..set };
    let symlink = SymlinkData3 { symlink_attributes: set, symlink_data: NfsPath3(b"target") };
    let data = b"some data";
    let args: [(Procedure, Vec<u8>); 21] = [
        (Procedure::Getattr, encoded(&GetattrArgs { object: file })),
        (Procedure::Setattr, encoded(&SetattrArgs { object: file, new_attributes: cut, guard: None })),
        (Procedure::Lookup, encoded(&LookupArgs { what: place(dir, "file") })),
        (Procedure::Access, encoded(&AccessArgs { object: file, access: 0x3f })),
        (Procedure::Readlink, encoded(&ReadlinkArgs { symlink: file })),
        (Procedure::Read, encoded(&ReadArgs { file, offset: 3, count: 100 })),
        (
            Procedure::Write,
            encoded(&WriteArgs { file, offset: 5, count: 9, stable: StableHow::Unstable, data: data.into() }),
        ),
        (Procedure::Create, encoded(&CreateArgs { place: place(dir, "a"), how: CreateHow3::Unchecked(set) })),
        (Procedure::Mkdir, encoded(&MkdirArgs { place: place(dir, "b"), attributes: set })),
        (Procedure::Symlink, encoded(&SymlinkArgs { place: place(dir, "c"), symlink })),
        (Procedure::Mknod, encoded(&MknodArgs { place: place(dir, "d"), what: MknodData3::Fifo(set) })),
        (Procedure::Remove, encoded(&RemoveArgs { object: place(dir, "a") })),
        (Procedure::Rmdir, encoded(&RmdirArgs { object: place(dir, "b") })),
        (Procedure::Rename, encoded(&RenameArgs { from: place(dir, "c"), to: place(dir, "e") })),
        (Procedure::Link, encoded(&LinkArgs { file, link: place(dir, "f") })),
        (Procedure::Readdir, encoded(&ReaddirArgs { dir, cookie: 0, cookieverf: [0; 8], count: 300 })),
        (
            Procedure::Readdirplus,
            encoded(&ReaddirplusArgs { dir, cookie: 0, cookieverf: [0; 8], dircount: 300, maxcount: 900 }),
        ),
        (Procedure::Fsstat, encoded(&FsstatArgs { fsroot: dir })),
        (Procedure::Fsinfo, encoded(&FsinfoArgs { fsroot: dir })),
        (Procedure::Pathconf, encoded(&PathconfArgs { object: dir })),
        (Procedure::Commit, encoded(&CommitArgs { file, offset: 0, count: 0 })),
    ];
    args.iter()
        .zip(1..)
        .map(|((procedure, args), xid)| {
            Call { xid, program: PROGRAM, version: 3, procedure: procedure.code(), args }.record(root())
        })
        .collect()
}

#[test]
fn damaged_calls_do_no_harm() {
    let server = Server::new();
    let dir = server.mkdir(root(), server.root(), "dir", 0o755);
    let file = server.create(root(), dir, "file", 0o644);
    let calls = calls(dir, file);
    let mut random = Random(0x5eed);
    for _ in 0..20_000 {
        let mut record = calls.get(random.below(calls.len())).unwrap().clone();
        for _ in 0..=random.below(3) {
            let at = random.below(record.len());
            match random.below(4) {
                0 => record.truncate(at.max(1)),
                1 => *record.get_mut(at).unwrap() ^= 1 << random.below(8),
                2 => *record.get_mut(at).unwrap() = u8::try_from(random.below(256)).unwrap(),
                _ => record.insert(at, 0xff),
            }
        }
        let (outcome, out) = server.offer(root(), &record, Access::Blocking);
        match outcome {
            Outcome::Reply { .. } => {
                assert!(matches!(peek(&out, 1 << 21), Ok(Peek::Complete { used, .. }) if used == out.len()));
            }
            Outcome::Busy(_) | Outcome::Later => {
                server.getattr(dir);
            }
            Outcome::Close | Outcome::Nothing => assert!(out.is_empty()),
            Outcome::WouldBlock => panic!("it may block"),
        }
        if random.below(50) == 0 {
            server.getattr(server.root());
        }
    }
    assert_eq!(server.getattr(server.root()).file_type, FileType3::Dir);
}
