//! Access control lists, as far as modes can express them (RFC 8881 section 6).
//!
//! The engine stores only a mode. Reading a list returns the equivalent of the mode. Setting a list succeeds only if
//! a mode expresses it exactly; a list is never weakened or strengthened.

use volume::attributes::FileType;
use wire::nfs4::{Ace4, NfsStat4, Nfsace4, Utf8Str4, ace_flag, ace_mask};

use crate::v4::context::OpStop;

const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";

/// Entries of a mode's list: two that deny, three that allow.
const ENTRIES_MAX: usize = 5;

/// Permissions that all users have, whatever the mode.
const ALWAYS: u32 = ace_mask::READ_ATTRIBUTES | ace_mask::READ_ACL | ace_mask::SYNCHRONIZE;

/// Permissions that the owner always has.
const OWNERS: u32 = ace_mask::WRITE_ATTRIBUTES | ace_mask::WRITE_ACL | ace_mask::WRITE_OWNER;

/// A list of up to [`ENTRIES_MAX`] entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aces {
    entries: [Nfsace4<'static>; ENTRIES_MAX],
    count: usize,
}

/// Converts three bits of a mode to a mask.
fn mask(bits: u32, file_type: FileType) -> u32 {
    let mut mask = 0;
    if bits & 4 != 0 {
        mask |= ace_mask::READ_DATA;
    }
    if bits & 2 != 0 {
        mask |= writing(file_type);
    }
    if bits & 1 != 0 {
        mask |= ace_mask::EXECUTE;
    }
    mask
}

fn writing(file_type: FileType) -> u32 {
    let check_files = ace_mask::WRITE_DATA | ace_mask::APPEND_DATA;
    if file_type == FileType::Directory { check_files | ace_mask::DELETE_CHILD } else { check_files }
}

impl Aces {
    /// Returns the list that is equivalent to a mode.
    pub(crate) fn of_mode(mode: u32, file_type: FileType) -> Aces {
        let (owner, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
        let ace = |ace_type: Ace4, group: bool, access_mask, who| Nfsace4 {
            ace_type: ace_type.code(),
            flag: if group { ace_flag::IDENTIFIER_GROUP } else { 0 },
            access_mask,
            who: Utf8Str4(who),
        };
        let mut aces =
            Aces { entries: [ace(Ace4::AccessAllowed, false, 0, EVERYONE); ENTRIES_MAX], count: 0 };
        // The first matching class decides, so permissions that only later classes have are denied first.
        let denied = (group | other) & !owner;
        if denied != 0 {
            aces.push(ace(Ace4::AccessDenied, false, mask(denied, file_type), OWNER));
        }
        aces.push(ace(Ace4::AccessAllowed, false, mask(owner, file_type) | ALWAYS | OWNERS, OWNER));
        let denied = other & !group;
        if denied != 0 {
            aces.push(ace(Ace4::AccessDenied, true, mask(denied, file_type), GROUP));
        }
        aces.push(ace(Ace4::AccessAllowed, true, mask(group, file_type) | ALWAYS, GROUP));
        aces.push(ace(Ace4::AccessAllowed, false, mask(other, file_type) | ALWAYS, EVERYONE));
        aces
    }

    fn push(&mut self, ace: Nfsace4<'static>) {
        *self.entries.get_mut(self.count).expect("a mode has at most that many entries") = ace;
        self.count += 1;
    }

    /// Returns the entries.
    pub(crate) fn as_slice(&self) -> &[Nfsace4<'static>] {
        self.entries.get(..self.count).unwrap_or_default()
    }
}

/// A class of a mode, as a list sees it.
#[derive(Clone, Copy)]
struct Class {
    owner: bool,
    group: bool,
}

/// Returns the nine mode bits that are equivalent to a list.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP if there are none.
pub(crate) fn permissions<'a>(
    aces: impl Iterator<Item = Nfsace4<'a>> + Clone,
    file_type: FileType,
) -> Result<u32, OpStop> {
    let refused = OpStop::Status(NfsStat4::AttrNotSupp);
    for ace in aces.clone() {
        let known =
            ace.ace_type <= Ace4::AccessDenied.code() && [OWNER, GROUP, EVERYONE].contains(&ace.who.0);
        // Permissions that a mode cannot take away.
        let implied = if ace.who.0 == OWNER { ALWAYS | OWNERS } else { ALWAYS };
        let denies = ace.ace_type == Ace4::AccessDenied.code() && ace.access_mask & implied != 0;
        if !known || ace.flag & !ace_flag::IDENTIFIER_GROUP != 0 || denies {
            return Err(refused);
        }
    }
    let bits = |class| bits(allowed(aces.clone(), class), file_type);
    let owner = bits(Class { owner: true, group: false });
    let owner_in_group = bits(Class { owner: true, group: true });
    let (group, other) =
        (bits(Class { owner: false, group: true }), bits(Class { owner: false, group: false }));
    match (owner, group, other) {
        // For a mode, it does not matter whether the owner is in the group.
        (Some(owner), Some(group), Some(other)) if owner_in_group == Some(owner) => {
            Ok(owner << 6 | group << 3 | other)
        }
        _ => Err(refused),
    }
}

/// Returns what a list allows a class: the first entry that names a permission decides.
fn allowed<'a>(aces: impl Iterator<Item = Nfsace4<'a>>, class: Class) -> u32 {
    let (mut allowed, mut decided) = (0, 0);
    for ace in aces {
        let concerns = match ace.who.0 {
            OWNER => class.owner,
            GROUP => class.group,
            _ => true,
        };
        if concerns {
            if ace.ace_type == Ace4::AccessAllowed.code() {
                allowed |= ace.access_mask & !decided;
            }
            decided |= ace.access_mask;
        }
    }
    allowed
}

/// Returns three bits of a mode; none if they would grant more or less.
fn bits(allowed: u32, file_type: FileType) -> Option<u32> {
    let writing = writing(file_type);
    let write = match allowed & writing {
        0 => 0,
        all if all == writing => 2,
        // Writing a directory allows deleting its children, which lists of files mention too.
        _ => return None,
    };
    let read = if allowed & ace_mask::READ_DATA == 0 { 0 } else { 4 };
    let execute = if allowed & ace_mask::EXECUTE == 0 { 0 } else { 1 };
    Some(read | write | execute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_survives_conversion_to_an_acl() {
        for file_type in [FileType::Regular, FileType::Directory] {
            for mode in 0..0o1000 {
                let aces = Aces::of_mode(mode, file_type);
                let found = permissions(aces.as_slice().iter().copied(), file_type);
                assert!(matches!(found, Ok(found) if found == mode), "{mode:o}: {found:?}");
            }
        }
    }

    #[test]
    fn acls_beyond_modes_are_refused() {
        let allow = |who, access_mask| Nfsace4 { ace_type: 0, flag: 0, access_mask, who: Utf8Str4(who) };
        let refused = |aces: &[Nfsace4<'_>]| permissions(aces.iter().copied(), FileType::Regular).is_err();
        assert!(refused(&[allow(b"1000", ace_mask::READ_DATA)]), "a named user");
        assert!(refused(&[allow(OWNER, ace_mask::APPEND_DATA)]), "appending without writing");
        assert!(refused(&[allow(GROUP, ace_mask::READ_DATA)]), "the owner only if in the group");
        let inherited = Nfsace4 { flag: ace_flag::FILE_INHERIT, ..allow(OWNER, ace_mask::READ_DATA) };
        assert!(refused(&[inherited]));
        let deny = Nfsace4 { ace_type: 1, ..allow(EVERYONE, ace_mask::READ_ACL) };
        assert!(refused(&[deny]));
        let alarm = Nfsace4 { ace_type: 3, ..allow(EVERYONE, ace_mask::READ_DATA) };
        assert!(refused(&[alarm]));
        assert!(!refused(&[allow(EVERYONE, ace_mask::READ_DATA)]));
        assert!(!refused(&[]));
    }
}
