//! Warns when no client can create anything in a volume: its exports squash every user who may change the root
//! directory.

use std::path::Path;
use std::sync::Arc;

use nfs::exports::{Export, Squash};
use volume::Volume;
use volume::attributes::Attributes;
use volume::ids::{Cookie, Ino};
use volume::request::{Access, Credentials, Request};

use crate::clock::now;

/// Permission to add names to a directory: write and search.
const CHANGE_NAMES: u16 = 0o3;

/// Warns of each empty volume that its exports allow clients to change, but its root directory does not.
///
/// A volume that holds anything is not reported: its root directory is then most likely closed to users on purpose, and
/// directories beneath it are open to them.
pub(crate) fn warn_if_nobody_can_write(exports: &[Export], volumes: &[Arc<Volume>], data: &Path) {
    for volume in volumes {
        let Some(root) = empty_root(volume) else { continue };
        let mut changeable =
            exports.iter().filter(|export| export.volume == volume.id() && !export.read_only).peekable();
        if changeable.peek().is_some() && !changeable.any(|export| can_somebody_write(export, &root)) {
            tracing::warn!(
                volume = %volume.name(),
                uid = root.uid,
                gid = root.gid,
                mode = format_args!("{:04o}", root.mode),
                "no client can write: the exports squash every user who may change the root directory; run: \
                 holdfast volume set {} {} --mode 1777",
                quoted(&data.display().to_string()),
                volume.name()
            );
        }
    }
}

/// Returns the attributes of the root directory if it is empty and can be read.
fn empty_root(volume: &Volume) -> Option<Attributes> {
    let superuser = Credentials::root();
    let request = Request { credentials: &superuser, now: now(), access: Access::Blocking, key: None };
    // The names after `.` and `..`.
    let after = Cookie(Cookie::FIRST.0 - 1);
    let listing = volume.read_directory(&request, Ino::ROOT, after, 1, false).ok()?;
    let root = volume.attributes(&request, Ino::ROOT).ok()?;
    listing.value.entries.is_empty().then_some(root.value)
}

/// Whether some caller may add names to `directory` through `export`. Callers can claim any identity that the export
/// does not squash.
fn can_somebody_write(export: &Export, directory: &Attributes) -> bool {
    let allows = |shift: u16| directory.mode >> shift & CHANGE_NAMES == CHANGE_NAMES;
    let anonymous = export.anonymous_uid;
    match export.squash {
        Squash::None => true,
        _ if anonymous == 0 => true,
        Squash::Root => directory.uid != 0 && allows(6) || directory.gid != 0 && allows(3) || allows(0),
        Squash::All if anonymous == directory.uid => allows(6),
        Squash::All if export.anonymous_gid == directory.gid => allows(3),
        Squash::All => allows(0),
    }
}

/// Quotes a word for a shell if it needs to be.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use volume::attributes::{Device, FileType};
    use volume::ids::VolumeId;
    use volume::time::Time;

    use super::*;

    fn directory(uid: u32, gid: u32, mode: u16) -> Attributes {
        Attributes {
            ino: Ino::ROOT,
            file_type: FileType::Directory,
            mode,
            links: 2,
            uid,
            gid,
            size: 0,
            used: 0,
            device: Device::default(),
            atime: Time::EPOCH,
            mtime: Time::EPOCH,
            ctime: Time::EPOCH,
            change: 1,
        }
    }

    fn writable(squash: Squash, uid: u32, gid: u32, mode: u16) -> bool {
        let export = Export { squash, ..Export::new("/main", VolumeId(1)) };
        can_somebody_write(&export, &directory(uid, gid, mode))
    }

    #[test]
    fn a_directory_of_root_alone_is_not_writable_where_root_is_squashed() {
        assert!(!writable(Squash::Root, 0, 0, 0o755));
        assert!(!writable(Squash::Root, 0, 0, 0o775), "the superuser's group is squashed too");
        assert!(!writable(Squash::Root, 0, 0, 0o1772), "a name cannot be made without search permission");
        assert!(writable(Squash::None, 0, 0, 0o755));
        assert!(writable(Squash::Root, 1000, 0, 0o755));
        assert!(writable(Squash::Root, 0, 100, 0o775));
        assert!(writable(Squash::Root, 0, 0, 0o1777));
    }

    #[test]
    fn where_everybody_is_squashed_the_anonymous_user_must_be_able_to_write() {
        assert!(!writable(Squash::All, 1000, 1000, 0o755));
        assert!(!writable(Squash::All, 65534, 0, 0o577), "the owner's bits alone count for the owner");
        assert!(writable(Squash::All, 65534, 0, 0o755));
        assert!(writable(Squash::All, 0, 65534, 0o775));
        assert!(writable(Squash::All, 0, 0, 0o1777));
    }

    #[test]
    fn a_path_is_quoted_for_a_shell_if_it_must_be() {
        assert_eq!(quoted("/srv/holdfast"), "/srv/holdfast");
        assert_eq!(quoted("/srv/o'hare data"), r"'/srv/o'\''hare data'");
    }
}
