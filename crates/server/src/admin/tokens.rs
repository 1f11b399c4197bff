//! Bearer tokens (RFC 6750), by which callers over the network identify themselves.
//!
//! A token is 256 random bits, shown once. The file `tokens` keeps its name, its role and its SHA-256, which need not be
//! slow, as nobody can guess 256 bits.

use std::io;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::admin::api::types::{CreatedToken, Role, Token};
use crate::data::Files;
use crate::error::{Error, ErrorKind};

/// Name of the file.
const NAME: &str = "tokens";

/// Most tokens.
const TOKENS_MAX: usize = 256;

/// Longest name of a token, bytes.
const NAME_BYTES_MAX: usize = 64;

/// The prefix of every token, by which a leaked one is recognized.
const PREFIX: &str = "hf_";

/// The tokens of a server.
pub(crate) struct Tokens {
    files: Files,
    known: Mutex<Vec<Known>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    #[serde(flatten)]
    token: Token,
    sha256: String,
}

impl Tokens {
    /// Reads the tokens in `files`.
    pub(crate) fn read(files: Files) -> Result<Tokens, Error> {
        let cannot = |error: &dyn std::fmt::Display| {
            Error::failed(format!(
                "cannot read the tokens in {}: {error}; correct or remove it",
                files.place(NAME)
            ))
        };
        let known = match files.read(NAME) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|error| cannot(&error))?,
            Ok(None) => Vec::new(),
            Err(error) => return Err(cannot(&error)),
        };
        Ok(Tokens { files, known: Mutex::new(known) })
    }

    /// Returns the token whose secret is `secret`.
    pub(crate) fn find(&self, secret: &str) -> Option<Token> {
        let hash = hash(secret);
        // The time of a comparison reveals at most digits of a hash, and nothing about the secret.
        self.known.lock().iter().find(|known| known.sha256 == hash).map(|known| known.token.clone())
    }

    /// Returns the tokens, without their secrets.
    pub(crate) fn list(&self) -> Vec<Token> {
        self.known.lock().iter().map(|known| known.token.clone()).collect()
    }

    /// Makes a token.
    ///
    /// # Errors
    /// The name is taken or not a name, there are too many, or the file cannot be written.
    pub(crate) fn create(&self, name: &str, role: Role) -> Result<CreatedToken, Error> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        // Many clients remove `.` and `..` from paths.
        let is_step = matches!(name, "." | "..");
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) || is_step {
            return Err(Error::usage(format!(
                "{name:?} cannot be the name of a token: use 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`, but \
                 not `.` or `..` alone"
            )));
        }
        let mut known = self.known.lock();
        if known.iter().any(|other| other.token.name == name) {
            let sentence = format!("there is a token {name:?}: delete it first, or choose another name");
            return Err(Error { kind: ErrorKind::Conflict, sentence });
        }
        if known.len() >= TOKENS_MAX {
            return Err(Error::usage(format!("there are {TOKENS_MAX} tokens: delete some first")));
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random)
            .map_err(|error| Error::failed(format!("cannot get random numbers from the system: {error}")))?;
        let secret = format!("{PREFIX}{}", hexadecimal(&random));
        let token = Token { name: name.to_owned(), role, created: seconds_since_1970() };
        let mut with_it = known.clone();
        with_it.push(Known { token: token.clone(), sha256: hash(&secret) });
        self.write(&with_it)?;
        *known = with_it;
        Ok(CreatedToken { token, secret })
    }

    /// Deletes a token: it is refused from now on. Returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be written; the token is still accepted.
    pub(crate) fn delete(&self, name: &str) -> Result<bool, Error> {
        let mut known = self.known.lock();
        let mut without = known.clone();
        without.retain(|other| other.token.name != name);
        if without.len() == known.len() {
            return Ok(false);
        }
        self.write(&without)?;
        *known = without;
        Ok(true)
    }

    fn write(&self, known: &[Known]) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(known).map_err(io::Error::other);
        text.and_then(|text| self.files.replace(NAME, &text, 0)).map_err(|error| {
            Error::failed(format!(
                "cannot write the tokens to {}: {error}; check the device",
                self.files.place(NAME)
            ))
        })
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn hash(secret: &str) -> String {
    hexadecimal(&Sha256::digest(secret))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_a_restart_and_are_deleted_at_once() {
        let root = std::env::temp_dir().join(format!("holdfast-tokens-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let read = || Tokens::read(Files::Directory(root.clone())).unwrap();
        let tokens = read();
        let created = tokens.create("prometheus", Role::Viewer).unwrap();
        assert_eq!(tokens.create("prometheus", Role::Admin).unwrap_err().kind, ErrorKind::Conflict);
        for name in ["a b", ".", "..", ""] {
            assert_eq!(tokens.create(name, Role::Admin).unwrap_err().kind, ErrorKind::Usage);
        }
        let file = std::fs::read_to_string(root.join(NAME)).unwrap();
        assert!(!file.contains(&created.secret), "only its hash is kept");
        let tokens = read();
        assert_eq!(tokens.find(&created.secret), Some(created.token));
        assert_eq!(tokens.find("hf_00"), None);
        assert!(tokens.delete("prometheus").unwrap() && !tokens.delete("prometheus").unwrap());
        assert_eq!(tokens.find(&created.secret), None);
        assert!(read().list().is_empty());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
