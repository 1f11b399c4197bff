//! Names of files as they are copied and shown.

use volume::ids::Ino;

use crate::escape;

/// Longest name that file systems accept, bytes.
const NAME_BYTES_MAX: usize = 255;

/// Returns a name that stays in its directory: `name` itself, unless it is `.`, `..`, empty, too long, or holds `/` or
/// NUL; with `ino`, a variant that other objects are unlikely to have.
pub(super) fn safe(name: &[u8], ino: Option<Ino>) -> Vec<u8> {
    let mut safe: Vec<u8> =
        name.iter().map(|byte| if matches!(byte, b'/' | 0) { b'_' } else { *byte }).collect();
    if matches!(&safe[..], b"" | b"." | b"..") {
        safe.insert(0, b'_');
    }
    let suffix = ino.map(|ino| format!("~{ino}").into_bytes()).unwrap_or_default();
    safe.truncate(NAME_BYTES_MAX - suffix.len());
    [safe, suffix].concat()
}

/// Returns the name of an object without one.
pub(super) fn in_lost_and_found(ino: Ino) -> String {
    format!("#{ino}")
}

/// Formats a name for people, on one line.
pub(super) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    escape::line(&String::from_utf8_lossy(name), &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_leave_their_directory() {
        let names: [&[u8]; 7] = [b"", b".", b"..", b"/", b"../../etc/passwd", b"a\0b", b"/etc"];
        for name in names {
            for ino in [None, Some(Ino(u64::MAX))] {
                let safe = safe(name, ino);
                assert!(!safe.contains(&b'/') && !safe.contains(&0), "{safe:?}");
                assert!(!matches!(&safe[..], b"" | b"." | b".."), "{safe:?}");
            }
        }
        assert_eq!(safe(b"..", None), b"_..");
        assert_eq!(safe(b"ordinary", None), b"ordinary");
        assert_eq!(safe(b"ordinary", Some(Ino(7))), b"ordinary~7");
        assert_eq!(safe(&[b'x'; 300], None).len(), 255);
        assert_eq!(safe(&[b'x'; 255], Some(Ino(u64::MAX))).len(), 255);
    }
}
