//! Messages and their bytes, encoded by hand from the RFC, which shows errors that both directions share.

use crate::nfs3::*;
use crate::sample::encode;
use crate::xdr::decode_all;

/// Returns the big-endian bytes of words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const ATTRIBUTES: Fattr3 = Fattr3 {
    file_type: FileType3::Chr,
    mode: 0o644,
    nlink: 3,
    uid: 1000,
    gid: 100,
    size: 0x1_0000_0002,
    used: 0x3_0000_0004,
    rdev: SpecData3 { major: 5, minor: 6 },
    fsid: 0x7_0000_0008,
    fileid: 0x9_0000_000a,
    atime: NfsTime3 { seconds: 11, nanoseconds: 12 },
    mtime: NfsTime3 { seconds: 13, nanoseconds: 14 },
    ctime: NfsTime3 { seconds: 15, nanoseconds: 16 },
};

const ATTRIBUTE_WORDS: [u32; 21] =
    [4, 0o644, 3, 1000, 100, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn handle() -> FileHandle3<'static> {
    FileHandle3::new(b"abcdef").unwrap()
}

/// A length of 6, `abcd`, `ef` and two bytes of padding.
const HANDLE_WORDS: [u32; 3] = [6, 0x6162_6364, 0x6566_0000];

fn same<'a, T>(value: &T, bytes: &'a [u8])
where
    T: Encode + Decode<'a> + PartialEq + std::fmt::Debug,
{
    assert_eq!(encode(value), bytes);
    assert_eq!(decode_all::<T>(bytes).as_ref(), Ok(value));
}

#[test]
fn attributes() {
    same(&ATTRIBUTES, &words(&ATTRIBUTE_WORDS));
    same(
        &GetattrRes::Ok(GetattrOk { obj_attributes: ATTRIBUTES }),
        &words(&[&[0], &ATTRIBUTE_WORDS[..]].concat()),
    );
    same(&GetattrRes::Err(Failed { status: NfsStat3::Stale, body: () }), &words(&[70]));
}

#[test]
fn setattr() {
    let args = SetattrArgs {
        object: handle(),
        new_attributes: Sattr3 {
            mode: Some(0o600),
            uid: None,
            gid: Some(7),
            size: Some(0x1_0000_0002),
            atime: SetTime::SetToServerTime,
            mtime: SetTime::SetToClientTime(NfsTime3 { seconds: 8, nanoseconds: 9 }),
        },
        guard: Some(NfsTime3 { seconds: 10, nanoseconds: 11 }),
    };
    let tail = [1, 0o600, 0, 1, 7, 1, 1, 2, 1, 2, 8, 9, 1, 10, 11];
    same(&args, &words(&[&HANDLE_WORDS[..], &tail].concat()));
    let result = SetattrRes::Err(Failed {
        status: NfsStat3::NotSync,
        body: WccData {
            before: Some(WccAttr {
                size: 0x1_0000_0002,
                mtime: NfsTime3 { seconds: 3, nanoseconds: 4 },
                ctime: NfsTime3 { seconds: 5, nanoseconds: 6 },
            }),
            after: None,
        },
    });
    same(&result, &words(&[10_002, 1, 1, 2, 3, 4, 5, 6, 0]));
}

#[test]
fn lookup() {
    let args = LookupArgs { what: DirOpArgs3 { dir: handle(), name: Filename3(b"name") } };
    same(&args, &words(&[&HANDLE_WORDS[..], &[4, 0x6e61_6d65]].concat()));
    let found =
        LookupRes::Ok(LookupOk { object: handle(), obj_attributes: Some(ATTRIBUTES), dir_attributes: None });
    same(&found, &words(&[&[0][..], &HANDLE_WORDS, &[1], &ATTRIBUTE_WORDS, &[0]].concat()));
    let missing = LookupRes::Err(Failed { status: NfsStat3::NoEnt, body: Some(ATTRIBUTES) });
    same(&missing, &words(&[&[2, 1], &ATTRIBUTE_WORDS[..]].concat()));
}

#[test]
fn read_and_write() {
    let read = ReadArgs { file: handle(), offset: 0x1_0000_0002, count: 3 };
    same(&read, &words(&[&HANDLE_WORDS[..], &[1, 2, 3]].concat()));
    let data = ReadRes::Ok(ReadOk { file_attributes: None, count: 3, eof: true, data: b"abc" });
    same(&data, &words(&[0, 0, 3, 1, 3, 0x6162_6300]));
    let write = WriteArgs {
        file: handle(),
        offset: 0x1_0000_0002,
        count: 3,
        stable: StableHow::FileSync,
        data: b"abc".into(),
    };
    same(&write, &words(&[&HANDLE_WORDS[..], &[1, 2, 3, 2, 3, 0x6162_6300]].concat()));
    let written = WriteRes::Ok(WriteOk {
        file_wcc: WccData::NONE,
        count: 3,
        committed: StableHow::DataSync,
        verf: *b"verifier",
    });
    same(&written, &words(&[0, 0, 0, 3, 1, 0x7665_7269, 0x6669_6572]));
    let commit = CommitArgs { file: handle(), offset: 0x1_0000_0002, count: 3 };
    same(&commit, &words(&[&HANDLE_WORDS[..], &[1, 2, 3]].concat()));
}

#[test]
fn create() {
    let place = DirOpArgs3 { dir: handle(), name: Filename3(b"name") };
    let exclusive = CreateArgs { place, how: CreateHow3::Exclusive(*b"verifier") };
    let place_words = [&HANDLE_WORDS[..], &[4, 0x6e61_6d65]].concat();
    same(&exclusive, &words(&[&place_words[..], &[2, 0x7665_7269, 0x6669_6572]].concat()));
    let guarded = CreateArgs { place, how: CreateHow3::Guarded(Sattr3::default()) };
    same(&guarded, &words(&[&place_words[..], &[1, 0, 0, 0, 0, 0, 0]].concat()));
    let spec = SpecData3 { major: 8, minor: 1 };
    let device = DeviceData3 { dev_attributes: Sattr3::default(), spec };
    let mknod = MknodArgs { place, what: MknodData3::Blk(device) };
    same(&mknod, &words(&[&place_words[..], &[3, 0, 0, 0, 0, 0, 0, 8, 1]].concat()));
    let created =
        CreateRes::Ok(CreateOk { obj: Some(handle()), obj_attributes: None, dir_wcc: WccData::NONE });
    same(&created, &words(&[&[0, 1], &HANDLE_WORDS[..], &[0, 0, 0]].concat()));
}

#[test]
fn readdir() {
    let args = ReaddirArgs { dir: handle(), cookie: 0x1_0000_0002, cookieverf: *b"verifier", count: 4096 };
    same(&args, &words(&[&HANDLE_WORDS[..], &[1, 2, 0x7665_7269, 0x6669_6572, 4096]].concat()));
    let entries = [Entry3 { fileid: 3, name: Filename3(b"x"), cookie: 4 }];
    let list = ReaddirRes::Ok(ReaddirOk {
        dir_attributes: None,
        cookieverf: [0; 8],
        entries: crate::list::List::new(&entries),
        eof: true,
    });
    same(&list, &words(&[0, 0, 0, 0, 1, 0, 3, 1, 0x7800_0000, 0, 4, 0, 1]));
    let entries = [EntryPlus3 {
        fileid: 3,
        name: Filename3(b"x"),
        cookie: 4,
        name_attributes: None,
        name_handle: Some(handle()),
    }];
    let list = ReaddirplusRes::Ok(ReaddirplusOk {
        dir_attributes: None,
        cookieverf: [0; 8],
        entries: crate::list::List::new(&entries),
        eof: false,
    });
    let head = [0, 0, 0, 0, 1, 0, 3, 1, 0x7800_0000, 0, 4, 0, 1];
    same(&list, &words(&[&head[..], &HANDLE_WORDS, &[0, 0]].concat()));
}

#[test]
fn file_system() {
    let fsinfo = FsinfoRes::Ok(FsinfoOk {
        obj_attributes: None,
        rtmax: 1,
        rtpref: 2,
        rtmult: 3,
        wtmax: 4,
        wtpref: 5,
        wtmult: 6,
        dtpref: 7,
        maxfilesize: 0x8_0000_0009,
        time_delta: NfsTime3 { seconds: 10, nanoseconds: 11 },
        properties: properties::LINK | properties::SYMLINK | properties::HOMOGENEOUS | properties::CANSETTIME,
    });
    same(&fsinfo, &words(&[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x1b]));
    let fsstat = FsstatRes::Ok(FsstatOk {
        obj_attributes: None,
        tbytes: 1,
        fbytes: 2,
        abytes: 3,
        tfiles: 4,
        ffiles: 5,
        afiles: 6,
        invarsec: 7,
    });
    same(&fsstat, &words(&[0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 7]));
    let pathconf = PathconfRes::Ok(PathconfOk {
        obj_attributes: None,
        linkmax: 1,
        name_max: 255,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    same(&pathconf, &words(&[0, 0, 1, 255, 1, 1, 0, 1]));
}

#[test]
fn links_and_names() {
    let (from, to) = (Filename3(b"from"), Filename3(b"to"));
    let from_words = [&HANDLE_WORDS[..], &[4, 0x6672_6f6d]].concat();
    let to_words = [&HANDLE_WORDS[..], &[2, 0x746f_0000]].concat();
    let (from, to) = (DirOpArgs3 { dir: handle(), name: from }, DirOpArgs3 { dir: handle(), name: to });
    same(&RemoveArgs { object: from }, &words(&from_words));
    same(&RenameArgs { from, to }, &words(&[&from_words[..], &to_words].concat()));
    same(&LinkArgs { file: handle(), link: to }, &words(&[&HANDLE_WORDS[..], &to_words].concat()));
    let wcc = |after| WccData { before: None, after };
    let renamed = RenameRes::Ok(RenameOk { fromdir_wcc: wcc(None), todir_wcc: wcc(Some(ATTRIBUTES)) });
    same(&renamed, &words(&[&[0, 0, 0, 0, 1], &ATTRIBUTE_WORDS[..]].concat()));
    let linked = LinkRes::Ok(LinkOk { file_attributes: Some(ATTRIBUTES), linkdir_wcc: WccData::NONE });
    same(&linked, &words(&[&[0, 1], &ATTRIBUTE_WORDS[..], &[0, 0]].concat()));
    let symlink = SymlinkData3 { symlink_attributes: Sattr3::default(), symlink_data: NfsPath3(b"text") };
    let symlink_words = [&from_words[..], &[0, 0, 0, 0, 0, 0, 4, 0x7465_7874]].concat();
    same(&SymlinkArgs { place: from, symlink }, &words(&symlink_words));
    let text = ReadlinkRes::Ok(ReadlinkOk { symlink_attributes: None, data: NfsPath3(b"text") });
    same(&text, &words(&[0, 0, 4, 0x7465_7874]));
}

#[test]
fn access_and_readdirplus_arguments() {
    let asked = AccessArgs { object: handle(), access: access::READ | access::EXECUTE };
    same(&asked, &words(&[&HANDLE_WORDS[..], &[0x21]].concat()));
    same(&AccessRes::Ok(AccessOk { obj_attributes: None, access: access::DELETE }), &words(&[0, 0, 0x10]));
    let args = ReaddirplusArgs {
        dir: handle(),
        cookie: 0x1_0000_0002,
        cookieverf: *b"verifier",
        dircount: 512,
        maxcount: 4096,
    };
    same(&args, &words(&[&HANDLE_WORDS[..], &[1, 2, 0x7665_7269, 0x6669_6572, 512, 4096]].concat()));
}
