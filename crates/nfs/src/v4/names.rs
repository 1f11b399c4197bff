//! Names of directory entries (RFC 8881 section 14, RFC 7530 section 12).

use volume::limits::NAME_BYTES_MAX;
use wire::nfs4::{Component4, NfsStat4};

use crate::v4::context::OpStop;

/// Checks a name and returns its bytes.
///
/// # Errors
/// NFS4ERR_INVAL for an empty name and for one that is not UTF-8, NFS4ERR_NAMETOOLONG, NFS4ERR_BADNAME for `.`, `..`
/// and names with a slash or a NUL, which NFSv4 does not have.
pub(super) fn check(name: Component4<'_>) -> Result<&[u8], OpStop> {
    Err(OpStop::Status(match name.0 {
        b"" => NfsStat4::Inval,
        b"." | b".." => NfsStat4::BadName,
        long if long.len() > NAME_BYTES_MAX => NfsStat4::NameTooLong,
        other if other.iter().any(|byte| matches!(byte, b'/' | 0)) => NfsStat4::BadName,
        // Of most names, the first test is enough and takes less.
        other if !other.is_ascii() && std::str::from_utf8(other).is_err() => NfsStat4::Inval,
        plain => return Ok(plain),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_get_their_status() {
        let long = [b'n'; NAME_BYTES_MAX + 1];
        let cases: [(&[u8], NfsStat4); 8] = [
            (b"", NfsStat4::Inval),
            (b".", NfsStat4::BadName),
            (b"..", NfsStat4::BadName),
            (b"a/b", NfsStat4::BadName),
            (b"a\0b", NfsStat4::BadName),
            (b"\xff\xfe", NfsStat4::Inval),
            (b"\xed\xa0\x80", NfsStat4::Inval),
            (&long, NfsStat4::NameTooLong),
        ];
        for (name, expected) in cases {
            assert!(
                matches!(check(Component4(name)), Err(OpStop::Status(status)) if status == expected),
                "{name:?}"
            );
        }
        for name in [&b"a"[..], "\u{e4}".as_bytes(), b"...", b" ", &[b'n'; NAME_BYTES_MAX]] {
            assert!(matches!(check(Component4(name)), Ok(same) if same == name), "{name:?}");
        }
    }
}
