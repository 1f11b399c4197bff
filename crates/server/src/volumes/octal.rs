//! Permission bits in JSON: octal digits, as people write them.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

/// Permission bits, with setuid, setgid and sticky.
const MODE_MAX: u16 = 0o7777;

#[expect(clippy::ref_option, reason = "serde passes fields so")]
pub(super) fn serialize<S: Serializer>(mode: &Option<u16>, serializer: S) -> Result<S::Ok, S::Error> {
    mode.map(|mode| format!("{mode:04o}")).serialize(serializer)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let mode = u16::from_str_radix(&text, 8).ok().filter(|mode| *mode <= MODE_MAX);
    mode.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is not a mode such as \"0755\"")))
}
