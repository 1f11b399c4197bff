//! Permission bits: octal digits, as people write them.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

/// Most digits: those of setuid, setgid and sticky, of the owner, the group and others.
const DIGITS_MAX: usize = 4;

/// Reads permission bits, with setuid, setgid and sticky.
///
/// # Errors
/// It is something else than up to four octal digits.
pub fn parse_mode(text: &str) -> Result<u16, String> {
    // A number that is parsed may have a sign.
    let is_mode = text.len() <= DIGITS_MAX && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u16::from_str_radix(text, 8).ok().filter(|_| is_mode);
    mode.ok_or_else(|| format!("{text:?} is not a mode: write up to four octal digits, such as 0755 or 1777"))
}

#[expect(clippy::ref_option, reason = "serde passes fields so")]
pub(super) fn serialize<S: Serializer>(mode: &Option<u16>, serializer: S) -> Result<S::Ok, S::Error> {
    mode.map(|mode| format!("{mode:04o}")).serialize(serializer)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_mode(&text)).transpose().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_digits() {
        assert_eq!(parse_mode("1777"), Ok(0o1777));
        assert_eq!(parse_mode("0755"), Ok(0o755));
        assert_eq!(parse_mode("0"), Ok(0));
        for wrong in ["", "0789", "10000", "00755", "rwx", "-1", "+755", " 755"] {
            assert!(parse_mode(wrong).is_err(), "{wrong:?} is accepted");
        }
    }
}
