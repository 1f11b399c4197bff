//! Names of places in a Ceph cluster, as administrators write them: `rados:POOL`,
//! `rados:USER@POOL+DATA_POOL/NAMESPACE`.

use std::fmt;
use std::path::Path;

use crate::error::{Error, ErrorKind};

/// What distinguishes such a name from a path.
const SCHEME: &str = "rados:";

/// The user of Ceph if none is named.
const DEFAULT_USER: &str = "admin";

/// A namespace of a pool of a Ceph cluster. It holds what a data directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The user of Ceph, without `client.`.
    pub user: String,
    /// The pool of the cluster.
    pub pool: String,
    /// The pool of the cluster in which segments of new pools of Holdfast are; none if it is the same.
    pub data_pool: Option<String>,
    /// The namespace in both; empty for the default one.
    pub namespace: String,
}

impl Location {
    /// Returns whether `path` names a place in a cluster rather than a directory. A directory of such a name is written
    /// `./rados:NAME`.
    pub fn is_one(path: &Path) -> bool {
        path.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
    }

    /// Reads a name; none if it is a path.
    ///
    /// # Errors
    /// It begins with `rados:`, and the rest is wrong.
    pub fn parse(path: &Path) -> Result<Option<Location>, Error> {
        if !Location::is_one(path) {
            return Ok(None);
        }
        let wrong = || {
            let text = format!(
                "{path:?} does not name a pool of a Ceph cluster: write rados:POOL, or in full \
                 rados:USER@POOL+DATA_POOL/NAMESPACE, with letters, digits, '.', '_' and '-'"
            );
            Error::new(ErrorKind::Invalid, text)
        };
        let rest = path.to_str().and_then(|text| text.strip_prefix(SCHEME)).ok_or_else(wrong)?;
        let (user, rest) = rest.split_once('@').unwrap_or((DEFAULT_USER, rest));
        let (pool, namespace) =
            rest.split_once('/').map_or((rest, None), |(pool, space)| (pool, Some(space)));
        let (pool, data_pool) = pool.split_once('+').map_or((pool, None), |(pool, data)| (pool, Some(data)));
        let is_plain = |part: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            !part.is_empty() && part.len() <= 64 && part.chars().all(plain) && !part.starts_with(['.', '-'])
        };
        if ![user, pool].into_iter().chain(data_pool).chain(namespace).all(is_plain) {
            return Err(wrong());
        }
        let namespace = namespace.unwrap_or_default().to_owned();
        let data_pool = data_pool.map(str::to_owned);
        Ok(Some(Location { user: user.to_owned(), pool: pool.to_owned(), data_pool, namespace }))
    }

    /// Returns a name that a file can have and no other location has, whoever the user is.
    pub fn file_name(&self) -> String {
        if self.namespace.is_empty() {
            self.pool.clone()
        } else {
            format!("{}@{}", self.namespace, self.pool)
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if self.user != DEFAULT_USER {
            write!(f, "{}@", self.user)?;
        }
        f.write_str(&self.pool)?;
        if let Some(data_pool) = &self.data_pool {
            write!(f, "+{data_pool}")?;
        }
        if self.namespace.is_empty() { Ok(()) } else { write!(f, "/{}", self.namespace) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Location>, Error> {
        Location::parse(Path::new(text))
    }

    #[test]
    fn places_in_a_cluster_are_told_from_paths() {
        for path in ["/srv/data", "data", "./rados:nfs", ""] {
            assert_eq!(parse(path).unwrap(), None);
        }
        for (text, user, pool, namespace) in [
            ("rados:nfs", "admin", "nfs", ""),
            ("rados:hf@nfs", "hf", "nfs", ""),
            ("rados:nfs/home", "admin", "nfs", "home"),
            ("rados:hf@nfs.1+ec/home-2", "hf", "nfs.1", "home-2"),
        ] {
            let location = parse(text).unwrap().unwrap();
            assert_eq!((&*location.user, &*location.pool, &*location.namespace), (user, pool, namespace));
            assert_eq!(location.to_string(), text);
        }
        for wrong in [
            "rados:",
            "rados:@nfs",
            "rados:nfs/",
            "rados:a/b/c",
            "rados:a b",
            "rados:a+",
            "rados:a+b+c",
            "rados:-x",
            "rados:..",
        ] {
            assert!(parse(wrong).unwrap_err().to_string().contains("rados:POOL"), "{wrong}");
        }
    }

    #[test]
    fn file_names_differ_and_stay_in_their_directory() {
        let name = |text: &str| parse(text).unwrap().unwrap().file_name();
        assert_eq!([name("rados:nfs"), name("rados:hf@nfs/home")], ["nfs", "home@nfs"]);
    }
}
