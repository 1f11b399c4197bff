//! The log of refused mounts: which client, which path, which rule. The log is bounded where it is written: an event with a
//! field `client` counts against that client.

use std::fmt::{self, Display, Write as _};
use std::net::SocketAddr;

use crate::link_local::Shown;

/// Why a path that no export has is refused.
pub(crate) const NO_EXPORT: &str = "no export has this path";

/// Logs that a client may not mount or use `path`.
pub(crate) fn log(client: SocketAddr, path: &[u8], status: &dyn Display, reason: &dyn Display) {
    tracing::warn!(event = "mount_refused", client = %Shown(client.ip().to_canonical()), path = %PathText(path), %status, %reason, "mount refused");
}

/// A path as text; bytes that are not UTF-8 appear as `\xNN`.
pub(crate) struct PathText<'a>(pub(crate) &'a [u8]);

impl Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            for escaped in chunk.invalid().escape_ascii() {
                f.write_char(char::from(escaped))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_shown_as_numbers() {
        assert_eq!(PathText(b"/a\xffb\xc3\xa4\xc3").to_string(), "/a\\xffbä\\xc3");
    }
}
