use super::*;
use crate::encoding::record::tests::record_of;

fn user(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
    Credentials { uid, gid, groups: groups.to_vec() }
}

/// A file of user 10 and group 20.
fn file(mode: u16) -> InodeRecord {
    InodeRecord { mode, uid: 10, gid: 20, ..record_of(FileType::Regular) }
}

#[test]
fn only_one_class_of_mode_bits_applies() {
    let (owner, member) = (user(10, 1, &[]), user(11, 1, &[5, 20]));
    let (primary, other, root) = (user(11, 20, &[]), user(12, 1, &[5]), Credentials::root());
    // Mode, caller, granted access.
    let table: &[(u16, &Credentials, u16)] = &[
        (0o700, &owner, 7),
        (0o077, &owner, 0),
        (0o077, &member, 7),
        (0o050, &primary, 5),
        (0o707, &member, 0),
        (0o707, &other, 7),
        (0o770, &other, 0),
        (0o004, &other, 4),
        (0o000, &root, READ | WRITE),
        (0o001, &root, READ | WRITE | EXECUTE),
        (0o6777, &other, 7),
    ];
    for (mode, who, granted) in table {
        for wanted in 1..8 {
            let expected = wanted & granted == wanted;
            assert_eq!(may(who, &file(*mode), wanted), expected, "mode {mode:o}, {who:?}, wanted {wanted}");
            assert_eq!(check(who, &file(*mode), wanted).is_ok(), expected);
        }
    }
    let directory = InodeRecord { file_type: FileType::Directory, ..file(0) };
    assert!(may(&root, &directory, EXECUTE), "the superuser searches every directory");
}

#[test]
fn the_owner_bypasses_the_mode_and_execution_permits_reading() {
    let (owner, other) = (user(10, 1, &[]), user(12, 1, &[]));
    assert_eq!(check_read(&owner, &file(0)), Ok(()));
    assert_eq!(check_write(&owner, &file(0o444)), Ok(()));
    assert_eq!(check_read(&other, &file(0o001)), Ok(()));
    assert_eq!(check_read(&other, &file(0o772)), Err(Error::AccessDenied));
    assert_eq!(check_write(&other, &file(0o775)), Err(Error::AccessDenied));
    assert_eq!(check_write(&other, &file(0o002)), Ok(()));
}

#[test]
fn in_a_sticky_directory_only_owners_remove() {
    let directory = |mode| InodeRecord { uid: 30, file_type: FileType::Directory, ..file(mode) };
    let object = file(0o600);
    let remove = |uid, mode| check_remove(&user(uid, 1, &[]), &directory(mode), &object);
    assert_eq!(remove(10, 0o1777), Ok(()), "the owner of the object");
    assert_eq!(remove(30, 0o1777), Ok(()), "the owner of the directory");
    assert_eq!(remove(0, 0o1777), Ok(()), "the superuser");
    assert_eq!(remove(12, 0o1777), Err(Error::NotPermitted));
    assert_eq!(remove(12, 0o777), Ok(()));
    assert_eq!(remove(10, 0o1775), Err(Error::AccessDenied), "write permission is still needed");
    assert_eq!(remove(12, 0o776), Err(Error::AccessDenied), "and permission to search");
}

#[test]
fn only_effective_privilege_bits_are_cleared() {
    assert_eq!(without_privilege_bits(&file(0o6755)), 0o755);
    assert_eq!(without_privilege_bits(&file(0o6745)), 0o2745, "no execution: setgid is harmless");
    let directory = InodeRecord { file_type: FileType::Directory, ..file(0o6755) };
    assert_eq!(without_privilege_bits(&directory), 0o6755);
}
