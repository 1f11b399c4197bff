//! The secret that a coordinator and its agents share.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;

use crate::error::LoadError;

/// Shorter tokens could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// Longer ones are probably another file.
const TOKEN_BYTES_MAX: usize = 1024;

/// A secret of 16 to 1,024 bytes of text, which is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Reads a token from a file, without surrounding white space.
    ///
    /// # Errors
    /// If the file cannot be read, other users may read it, or the token is too short or too long.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let failed = |why: &str| LoadError::new(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
        let status = rustix::fs::fstat(&file).map_err(|error| failed(&error.to_string()))?;
        if status.st_mode & 0o077 != 0 {
            return Err(failed("others may read this token; chmod 600 it"));
        }
        let mut text = String::new();
        let bytes_max = TOKEN_BYTES_MAX as u64 + 2;
        file.take(bytes_max).read_to_string(&mut text).map_err(|error| failed(&error.to_string()))?;
        Self::new(&text).map_err(|error| failed(&error.to_string()))
    }

    /// Makes a token from a text, without surrounding white space.
    ///
    /// # Errors
    /// If the token is too short or too long.
    pub fn new(text: &str) -> Result<Self, LoadError> {
        match text.trim() {
            text if text.len() < TOKEN_BYTES_MIN => {
                Err(LoadError::new(format!("a token has at least {TOKEN_BYTES_MIN} bytes")))
            }
            text if text.len() > TOKEN_BYTES_MAX => {
                Err(LoadError::new(format!("a token has at bytes_max {TOKEN_BYTES_MAX} bytes")))
            }
            text => Ok(Self(text.to_owned())),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so timing does not reveal where two tokens differ.
    pub(super) fn matches(&self, other: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.as_bytes());
        let mut difference = u8::from(ours.len() != theirs.len());
        for (index, byte) in theirs.iter().take(TOKEN_BYTES_MAX).enumerate() {
            let expected = ours.get(index % ours.len().max(1)).copied().unwrap_or_default();
            difference |= black_box(byte ^ expected);
        }
        black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn only_equal_tokens_match() {
        let token = Token::new("  0123456789abcdef\n").unwrap();
        assert!(token.matches("0123456789abcdef"));
        for other in ["", "0123456789abcdeF", "0123456789abcdef0123456789abcdef", "0123456789abcde", "x"] {
            assert!(!token.matches(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn short_and_long_tokens_are_refused() {
        assert!(Token::new("short").is_err());
        assert!(Token::new(&"x".repeat(1025)).is_err());
        assert!(Token::read(std::path::Path::new("/no/such/token")).is_err());
    }
}
