//! Messages of MOUNT.

use super::*;
use crate::sample::{Rng, Sample, check, encode};
use crate::xdr::decode_all;

impl Sample for MntRes<'_> {
    fn sample(rng: &mut Rng) -> Self {
        match MountStat3::sample(rng) {
            MountStat3::Ok => Ok(Sample::sample(rng)),
            status => Err(status),
        }
    }
}

#[test]
fn a_mnt_result_matches_bytes_from_the_rfc() {
    let bytes = [
        0, 0, 0, 0, // MNT3_OK
        0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, // handle
        0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, // AUTH_SYS, AUTH_NONE
    ];
    let expected: MntRes<'_> = Ok(MntOk {
        fhandle: FileHandle3::new(&[1, 2, 3, 4, 5]).unwrap(),
        auth_flavors: AuthFlavors::new(&[1, 0]).unwrap(),
    });
    assert_eq!(decode_all::<MntRes<'_>>(&bytes), Ok(expected));
    assert_eq!(encode(&expected), bytes);
    assert_eq!(encode(&MntRes::Err(MountStat3::Acces)), [0, 0, 0, 13]);
}

#[test]
fn exports_match_bytes_from_the_rfc() {
    let groups = [Name(b"10.0.0.0/8")];
    let nodes = [ExportNode { dir: DirPath(b"/main"), groups: List::new(&groups) }];
    let bytes = [
        &[0, 0, 0, 1, 0, 0, 0, 5][..],
        b"/main\0\0\0",
        &[0, 0, 0, 1, 0, 0, 0, 10],
        b"10.0.0.0/8\0\0",
        &[0, 0, 0, 0],
        &[0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(encode(&Exports::new(&nodes)), bytes);
    assert_eq!(decode_all::<Exports<'_>>(&bytes), Ok(Exports::new(&nodes)));
}

#[test]
fn paths_and_names_have_limits() {
    let long = |length: usize| encode(&DirPath(&vec![b'x'; length]));
    assert!(decode_all::<DirPath<'_>>(&long(1024)).is_ok());
    assert_eq!(
        decode_all::<DirPath<'_>>(&long(1025)),
        Err(DecodeError::TooLong { length: 1025, limit: 1024 })
    );
    assert!(decode_all::<Name<'_>>(&long(255)).is_ok());
    assert!(decode_all::<Name<'_>>(&long(256)).is_err());
}

#[test]
fn all_messages_round_trip() {
    check::<Procedure>();
    check::<DirPath<'static>>();
    check::<MntRes<'static>>();
    check::<MountList<'static>>();
    check::<Exports<'static>>();
}
