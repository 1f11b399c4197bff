//! Names. Each is stored twice: by name for LOOKUP, by cookie for READDIR.

use super::findings::Findings;
use super::tree::Tree;
use super::view::View;
use super::{FaultKind, Summary};
use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino};
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{CookieRecord, NameRecord};
use crate::tables::index::IndexError;
use crate::volume::check_name;

/// Checks every name, and counts each inode's names and entries.
pub(super) fn check_names(
    view: &View,
    tree: &mut Tree,
    findings: &mut Findings,
    summary: &mut Summary,
) -> Result<(), IndexError> {
    let mut failed = None;
    view.each(view.volume, Table::Name, &mut |fields, value| {
        let Some((directory, name)) = fields.split_at_checked(8) else { return };
        let (Some(directory), Ok(record)) = (key::number(directory).map(Ino), NameRecord::decode(value))
        else {
            return;
        };
        summary.names += 1;
        let mut faults = Vec::new();
        if check_name(name).is_err() || name == b"." || name == b".." {
            faults.push((FaultKind::Name, "no client can use this name".to_owned()));
        }
        if record.cookie < Cookie::FIRST {
            let what = format!("its cookie {} is one of `.` and `..`, so READDIR skips it", record.cookie);
            faults.push((FaultKind::Directory, what));
        }
        match view.get(&key::cookie(view.volume.object(directory), record.cookie)) {
            Ok(None) if view.is_lost(&key::cookie(view.volume.object(directory), record.cookie)) => {
                let what = "READDIR does not list this name, as one of its two records is lost";
                faults.push((FaultKind::Name, what.to_owned()));
            }
            Ok(slot) => faults.extend(check_listed(&record, name, slot.as_deref())),
            Err(error) => failed = Some(error),
        }
        let place = (directory, record.cookie);
        faults.extend(enter(view, tree, place, record.ino, Some(record.file_type)));
        for (kind, what) in faults {
            findings.add_name(kind, directory, name, what);
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// Compares a name with what READDIR lists under its cookie.
fn check_listed(record: &NameRecord, name: &[u8], listed: Option<&[u8]>) -> Option<(FaultKind, String)> {
    let cookie = record.cookie;
    let what = match listed.map(CookieRecord::decode) {
        None => format!("READDIR does not list this name: its place in the listing, {cookie}, is empty"),
        Some(Ok(listed)) if *listed.name != *name => {
            let other = String::from_utf8_lossy(&listed.name).into_owned();
            format!(
                "READDIR does not list this name: its place in the listing, {cookie}, belongs to `{other}`"
            )
        }
        Some(Ok(listed)) if listed.ino != record.ino => {
            format!("LOOKUP finds inode {} under this name, READDIR lists inode {}", record.ino, listed.ino)
        }
        Some(_) => return None,
    };
    Some((FaultKind::Name, what))
}

/// Counts a name for its directory and its object. `file_type` is what the name says.
fn enter(
    view: &View,
    tree: &mut Tree,
    (directory, cookie): (Ino, Cookie),
    ino: Ino,
    file_type: Option<FileType>,
) -> Option<(FaultKind, String)> {
    if !tree.nodes.contains_key(&directory) && view.is_lost(&key::inode(view.volume.object(directory))) {
        tree.add_lost(directory, Some(FileType::Directory));
    }
    if !tree.nodes.contains_key(&ino) && view.is_lost(&key::inode(view.volume.object(ino))) {
        tree.add_lost(ino, file_type);
    }
    let is_directory =
        file_type.or(tree.nodes.get(&ino).and_then(|node| node.file_type)) == Some(FileType::Directory);
    if !tree.is_directory(directory) {
        let state = if tree.nodes.contains_key(&directory) { "is not a directory" } else { "does not exist" };
        return Some((
            FaultKind::Name,
            format!("a name for inode {ino} lies in inode {directory}, which {state}"),
        ));
    }
    if let Some(parent) = tree.nodes.get_mut(&directory) {
        parent.entries += 1;
        parent.subdirectories += u32::from(is_directory);
        parent.highest_cookie = parent.highest_cookie.max(cookie);
    }
    let Some(node) = tree.nodes.get_mut(&ino) else {
        return Some((FaultKind::Name, format!("it names inode {ino}, which does not exist")));
    };
    if ino == Ino::ROOT {
        return Some((FaultKind::Tree, "it names the root directory, which must have no name".to_owned()));
    }
    node.names += 1;
    node.first.get_or_insert((directory, cookie));
    match (node.file_type, file_type) {
        (Some(of_inode), Some(of_name)) if of_inode != of_name => {
            Some((FaultKind::Name, format!("the name says {of_name:?}, its inode says {of_inode:?}")))
        }
        _ => None,
    }
}

/// Checks that READDIR lists nothing that LOOKUP does not find.
pub(super) fn check_cookies(
    view: &View,
    tree: &mut Tree,
    findings: &mut Findings,
    summary: &mut Summary,
) -> Result<(), IndexError> {
    let mut failed = None;
    view.each(view.volume, Table::Cookie, &mut |fields, value| {
        let (directory, cookie) = (key::number(fields).map(Ino), key::second_number(fields).map(Cookie));
        let (Some(directory), Some(cookie), Ok(listed)) = (directory, cookie, CookieRecord::decode(value))
        else {
            return;
        };
        if let Some(parent) = tree.nodes.get_mut(&directory) {
            parent.highest_cookie = parent.highest_cookie.max(cookie);
        }
        let found = match view.get(&key::name(view.volume.object(directory), &listed.name)) {
            Ok(slot) => slot.map(|value| NameRecord::decode(&value)),
            Err(error) => {
                failed = Some(error);
                return;
            }
        };
        let what = match found {
            None if view.is_lost(&key::name(view.volume.object(directory), &listed.name)) => {
                summary.names += 1;
                if let Some((kind, what)) = enter(view, tree, (directory, cookie), listed.ino, None) {
                    findings.add_name(kind, directory, &listed.name, what);
                }
                "LOOKUP does not find this name, as one of its two records is lost".to_owned()
            }
            None => format!(
                "READDIR lists this name (at {cookie}, for inode {}), but LOOKUP does not find it",
                listed.ino
            ),
            Some(Ok(record)) if record.cookie != cookie => {
                format!(
                    "READDIR lists this name at {cookie} of the listing, but it belongs at {}",
                    record.cookie
                )
            }
            Some(_) => return,
        };
        findings.add_name(FaultKind::Name, directory, &listed.name, what);
    })?;
    failed.map_or(Ok(()), Err)
}
