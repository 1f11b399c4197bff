//! Round trips of all messages of NFSv3, and the encoders that build results in place.

use super::*;
use crate::limits::{DATA_BYTES_MAX, HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::sample::{Rng, Sample, check, encode};
use crate::xdr::decode_all;

mod golden;

impl<O: Sample, F: Sample> Sample for Res3<O, F> {
    fn sample(rng: &mut Rng) -> Self {
        match NfsStat3::sample(rng) {
            status if status != NfsStat3::Ok && rng.below(2) == 0 => {
                Err(Failed { status, body: F::sample(rng) })
            }
            _ => Ok(O::sample(rng)),
        }
    }
}

#[test]
fn all_types_round_trip() {
    check::<NfsStat3>();
    check::<FileType3>();
    check::<Procedure>();
    check::<FileHandle3<'static>>();
    check::<Filename3<'static>>();
    check::<NfsPath3<'static>>();
    check::<NfsTime3>();
    check::<SpecData3>();
    check::<Fattr3>();
    check::<WccAttr>();
    check::<WccData>();
    check::<SetTime>();
    check::<Sattr3>();
    check::<CreateHow3>();
    check::<MknodData3>();
    check::<StableHow>();
}

#[test]
fn all_arguments_round_trip() {
    check::<GetattrArgs<'static>>();
    check::<SetattrArgs<'static>>();
    check::<LookupArgs<'static>>();
    check::<AccessArgs<'static>>();
    check::<ReadlinkArgs<'static>>();
    check::<ReadArgs<'static>>();
    check::<WriteArgs<'static>>();
    check::<CreateArgs<'static>>();
    check::<MkdirArgs<'static>>();
    check::<SymlinkArgs<'static>>();
    check::<MknodArgs<'static>>();
    check::<RemoveArgs<'static>>();
    check::<RmdirArgs<'static>>();
    check::<RenameArgs<'static>>();
    check::<LinkArgs<'static>>();
    check::<ReaddirArgs<'static>>();
    check::<ReaddirplusArgs<'static>>();
    check::<FsstatArgs<'static>>();
    check::<FsinfoArgs<'static>>();
    check::<PathconfArgs<'static>>();
    check::<CommitArgs<'static>>();
}

#[test]
fn all_results_round_trip() {
    check::<GetattrRes>();
    check::<SetattrRes>();
    check::<LookupRes<'static>>();
    check::<AccessRes>();
    check::<ReadlinkRes<'static>>();
    check::<ReadRes<'static>>();
    check::<WriteRes>();
    check::<CreateRes<'static>>();
    check::<MkdirRes<'static>>();
    check::<SymlinkRes<'static>>();
    check::<MknodRes<'static>>();
    check::<RemoveRes>();
    check::<RmdirRes>();
    check::<RenameRes>();
    check::<LinkRes>();
    check::<ReaddirRes<'static>>();
    check::<ReaddirplusRes<'static>>();
    check::<FsstatRes>();
    check::<FsinfoRes>();
    check::<PathconfRes>();
    check::<CommitRes>();
}

#[test]
fn unknown_numbers_are_errors() {
    for value in [3u32, 4, 9, 62, 72, 10_000, 10_009, u32::MAX] {
        let error = DecodeError::BadEnum { name: "NfsStat3", value };
        assert_eq!(decode_all::<GetattrRes>(&value.to_be_bytes()), Err(error));
    }
    for value in [0u32, 8] {
        let error = DecodeError::BadEnum { name: "FileType3", value };
        assert_eq!(decode_all::<FileType3>(&value.to_be_bytes()), Err(error));
    }
    assert!(decode_all::<CreateHow3>(&[0, 0, 0, 3]).is_err());
    assert!(decode_all::<StableHow>(&[0, 0, 0, 3]).is_err());
    assert_eq!(Procedure::from_code(22), None);
}

#[test]
fn mknod_decodes_types_that_it_cannot_create() {
    for code in [0, 1, 2, 5, 8, 99] {
        assert_eq!(decode_all::<MknodData3>(&u32::to_be_bytes(code)), Ok(MknodData3::BadType(code)));
    }
}

#[test]
fn lengths_have_limits() {
    let opaque = |length: usize| {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).opaque(&vec![1; length]);
        bytes
    };
    assert!(decode_all::<FileHandle3<'_>>(&opaque(HANDLE_BYTES_MAX)).is_ok());
    assert!(decode_all::<FileHandle3<'_>>(&opaque(HANDLE_BYTES_MAX + 1)).is_err());
    assert_eq!(FileHandle3::new(&[0; HANDLE_BYTES_MAX + 1]), None);
    assert!(decode_all::<Filename3<'_>>(&opaque(NAME_BYTES_MAX)).is_ok());
    assert!(decode_all::<Filename3<'_>>(&opaque(NAME_BYTES_MAX + 1)).is_err());
    assert!(decode_all::<NfsPath3<'_>>(&opaque(PATH_BYTES_MAX)).is_ok());
    assert!(decode_all::<NfsPath3<'_>>(&opaque(PATH_BYTES_MAX + 1)).is_err());
    let data = vec![3; DATA_BYTES_MAX + 1];
    let mut write = WriteArgs {
        file: FileHandle3::new(b"h").unwrap(),
        offset: 0,
        count: 0,
        stable: StableHow::Unstable,
        data: data[1..].into(),
    };
    assert_eq!(decode_all::<WriteArgs<'_>>(&encode(&write)), Ok(write));
    write.data = (&data).into();
    assert!(decode_all::<WriteArgs<'_>>(&encode(&write)).is_err());
}

#[test]
fn payloads_are_borrowed() {
    let bytes = encode(&WriteArgs {
        file: FileHandle3::new(b"handle").unwrap(),
        offset: 1,
        count: 4,
        stable: StableHow::FileSync,
        data: b"data".into(),
    });
    let write: WriteArgs<'_> = decode_all(&bytes).unwrap();
    assert_eq!(write.data.here().as_ptr(), bytes[bytes.len() - 4..].as_ptr());
}

#[test]
#[should_panic(expected = "a failure has a status that says so")]
fn a_failure_with_status_ok_cannot_be_encoded() {
    encode(&GetattrRes::Err(Failed { status: NfsStat3::Ok, body: () }));
}

#[test]
fn read_encoder_builds_the_encoded_result() {
    for length in 0..10u8 {
        let mut rng = Rng::new(u64::from(length));
        let attributes = Fattr3::sample(&mut rng);
        let mut out = b"before".to_vec();
        let mut encoder = Encoder::new(&mut out);
        let mut read = ReadEncoder::begin(&mut encoder, 10);
        read.push(&[7; 10][..usize::from(length) / 2]);
        read.push_zeros(1);
        read.buffer().push(9);
        assert_eq!(read.count(), usize::from(length) / 2 + 2);
        read.finish(&attributes, true);
        let mut data = vec![7; usize::from(length) / 2];
        data.extend_from_slice(&[0, 9]);
        let count = u32::try_from(data.len()).unwrap();
        let expected: ReadRes<'_> =
            Ok(ReadOk { file_attributes: Some(attributes), count, eof: true, data: &data });
        assert_eq!(out, [b"before".to_vec(), encode(&expected)].concat());
    }
}

#[test]
fn abandoned_results_leave_no_bytes() {
    let mut out = vec![1, 2, 3];
    let mut encoder = Encoder::new(&mut out);
    let mut read = ReadEncoder::begin(&mut encoder, 10);
    read.push(b"data");
    read.abandon();
    ReaddirEncoder::begin(&mut encoder, 1000, 1000).abandon();
    assert_eq!(out, [1, 2, 3]);
}

fn entries() -> Vec<EntryPlus3<'static>> {
    let mut rng = Rng::new(77);
    (0..12).map(|_| EntryPlus3::sample(&mut rng)).collect()
}

#[test]
fn readdir_uses_count_and_not_a_byte_more() {
    let plain: Vec<Entry3<'_>> =
        entries().iter().map(|e| Entry3 { fileid: e.fileid, name: e.name, cookie: e.cookie }).collect();
    let attributes = Fattr3::sample(&mut Rng::new(1));
    for count in 0..900 {
        let mut out = vec![0xee];
        let mut encoder = Encoder::new(&mut out);
        let mut readdir = ReaddirEncoder::begin(&mut encoder, usize::MAX, count);
        let fitted = plain.iter().take_while(|entry| readdir.push(entry.name, *entry)).count();
        assert_eq!(readdir.entries(), fitted);
        readdir.finish(&attributes, [5; 8], fitted == plain.len());
        let result = |entries: usize| ReaddirOk {
            dir_attributes: Some(attributes),
            cookieverf: [5; 8],
            entries: crate::list::List::new(&plain[..entries]),
            eof: entries == plain.len(),
        };
        let expected: ReaddirRes<'_> = Ok(result(fitted));
        assert_eq!(out[1..], encode(&expected));
        assert!(fitted == 0 || encode(&result(fitted)).len() <= count);
        assert!(fitted == plain.len() || encode(&result(fitted + 1)).len() > count);
        assert!(decode_all::<ReaddirRes<'_>>(&out[1..]).is_ok_and(|read| read == expected));
    }
}

#[test]
fn readdirplus_fills_maxcount_and_not_a_byte_more() {
    let plus = entries();
    let attributes = Fattr3::sample(&mut Rng::new(2));
    for maxcount in (0..3000).step_by(7) {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut readdir = ReaddirEncoder::begin(&mut encoder, usize::MAX, maxcount);
        let fitted = plus.iter().take_while(|entry| readdir.push(entry.name, *entry)).count();
        assert_eq!(readdir.entries(), fitted);
        readdir.finish(&attributes, [6; 8], fitted == plus.len());
        let result = |entries: usize| ReaddirplusOk {
            dir_attributes: Some(attributes),
            cookieverf: [6; 8],
            entries: crate::list::List::new(&plus[..entries]),
            eof: entries == plus.len(),
        };
        assert_eq!(out, encode(&ReaddirplusRes::Ok(result(fitted))));
        assert!(fitted == 0 || encode(&result(fitted)).len() <= maxcount);
        assert!(fitted == plus.len() || encode(&result(fitted + 1)).len() > maxcount);
    }
}

#[test]
fn dircount_is_kept_but_never_keeps_everything_out() {
    let entry = EntryPlus3 {
        fileid: 1,
        name: Filename3(b"abcde"),
        cookie: 2,
        name_attributes: None,
        name_handle: None,
    };
    for (dircount, fitting) in [(0, 1), (27, 1), (28, 1), (55, 1), (56, 2), (84, 3)] {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut readdir = ReaddirEncoder::begin(&mut encoder, dircount, 10_000);
        let fitted = (0..10).take_while(|_| readdir.push(entry.name, &entry)).count();
        readdir.abandon();
        assert_eq!(fitted, fitting, "dircount {dircount}");
    }
}

#[test]
fn attributes_before_are_taken_from_attributes() {
    let attributes = Fattr3::sample(&mut Rng::new(3));
    let wcc = WccAttr::from(attributes);
    assert_eq!((wcc.size, wcc.mtime, wcc.ctime), (attributes.size, attributes.mtime, attributes.ctime));
}

#[test]
fn statuses_are_shown_by_the_names_of_the_rfcs() {
    use crate::mount3::MountStat3;
    use crate::rpc::{AcceptStat, AuthStat, RejectedReply};
    assert_eq!(NfsStat3::Ok.to_string(), "NFS3_OK");
    assert_eq!(NfsStat3::Acces.to_string(), "NFS3ERR_ACCES");
    assert_eq!(NfsStat3::NotSync.to_string(), "NFS3ERR_NOT_SYNC");
    assert_eq!(MountStat3::NoEnt.to_string(), "MNT3ERR_NOENT");
    assert_eq!(RejectedReply::AuthError(AuthStat::TooWeak).to_string(), "AUTH_ERROR, AUTH_TOOWEAK");
    assert_eq!(
        AcceptStat::ProgMismatch { low: 3, high: 4 }.to_string(),
        "PROG_MISMATCH (it has versions 3 to 4)"
    );
    for status in NfsStat3::ALL {
        let (name, letters) = (status.to_string(), format!("{status:?}").to_uppercase());
        let stripped = name.strip_prefix("NFS3ERR_").or(name.strip_prefix("NFS3_")).unwrap();
        assert_eq!(stripped.replace('_', ""), letters);
    }
}
