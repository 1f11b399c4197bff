//! Exports: which clients reach which volume, with what rights.
//!
//! The rules apply to every request, not only to MNT, so a client gains nothing by learning a handle. A handle names its
//! volume, not the path by which it was mounted; so several exports of one volume are alternatives: the first that admits
//! the client applies, whatever path it mounted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use foldhash::HashMap;
use ipnet::IpNet;
use volume::ids::VolumeId;
use wire::rpc::Credential;

use crate::connection::is_privileged;
use crate::link_local::without_link;

pub(crate) mod pseudo;

/// Whose credentials are replaced by those of the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Those of user 0 and group 0.
    #[default]
    Root,
    /// Those of all users.
    All,
    /// Those of no user.
    None,
}

/// One volume under one path, with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The path that clients mount, for example `/main`. Directories beneath it can be mounted too.
    pub path: String,
    /// The volume whose root directory is at the path.
    pub volume: VolumeId,
    /// Whether changes are answered with NFS3ERR_ROFS.
    pub read_only: bool,
    /// Whose credentials are replaced.
    pub squash: Squash,
    /// The user that replaces others; 65534 is `nobody` on most systems.
    pub anonymous_uid: u32,
    /// The group that replaces others.
    pub anonymous_gid: u32,
    /// The networks whose clients are admitted; if empty, all clients are.
    pub clients: Vec<IpNet>,
    /// Whether clients must call from a port below 1024, which only their superuser can use.
    pub privileged_port_required: bool,
    /// Whether AUTH_NONE is refused with AUTH_TOOWEAK, instead of meaning the anonymous user.
    pub auth_sys_required: bool,
    /// Whether clients of NFSv4 may be given delegations of its files (RFC 8881 section 10.2).
    pub delegations: bool,
}

impl Export {
    /// Makes an export with the default rules: changes allowed, root squashed, all clients admitted.
    #[must_use]
    pub fn new(path: impl Into<String>, volume: VolumeId) -> Export {
        Export {
            path: path.into(),
            volume,
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: 65534,
            anonymous_gid: 65534,
            clients: Vec::new(),
            privileged_port_required: false,
            auth_sys_required: false,
            delegations: true,
        }
    }

    /// Whether the flavor of a credential is accepted.
    pub(crate) fn accepts_credential(&self, credential: &Credential<'_>) -> bool {
        !self.auth_sys_required || matches!(credential, Credential::Sys(_))
    }

    /// Whether a client at `address` may use the export. IPv4 addresses mapped into IPv6 count as IPv4.
    #[must_use]
    pub fn admits(&self, address: SocketAddr) -> bool {
        self.refuses(address).is_none()
    }

    /// Returns the rule by which a client at `address` may not use the export, if there is one.
    #[must_use]
    #[inline]
    pub fn refuses(&self, address: SocketAddr) -> Option<Rule> {
        if !self.clients.is_empty() && !self.lists(address.ip()) {
            return Some(Rule::Clients);
        }
        let is_refused = self.privileged_port_required && !is_privileged(address);
        is_refused.then(|| Rule::PrivilegedPort(address.port()))
    }

    /// Whether one of its networks holds the address. A network of link-local addresses means those of every link.
    fn lists(&self, address: IpAddr) -> bool {
        let address = without_link(address.to_canonical());
        self.clients.iter().any(|network| contains(network, address))
    }
}

/// A rule by which an export refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Its address is in none of [`Export::clients`].
    Clients,
    /// It calls from this port, although [`Export::privileged_port_required`].
    PrivilegedPort(u16),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Clients => f.write_str("the address is in none of the networks of the export's `clients`"),
            Rule::PrivilegedPort(port) => {
                write!(f, "the export has `require_privileged_port`, and the client calls from port {port}")
            }
        }
    }
}

/// Whether `ip`, which is canonical, is in `network`, which may be written as an IPv4 network mapped into IPv6.
fn contains(network: &IpNet, ip: IpAddr) -> bool {
    match (network, ip) {
        (IpNet::V6(mapped), IpAddr::V4(v4)) => {
            mapped.contains(&v4.to_ipv6_mapped()) && mapped.prefix_len() >= 96
        }
        _ => network.contains(&ip),
    }
}

/// Why exports cannot be used, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportsError {
    /// The path does not begin with `/`, or has an empty, `.` or `..` component.
    Path(String),
    /// One path leads to two volumes.
    Ambiguous(String),
    /// The export's volume is not served.
    NoVolume(String),
}

impl fmt::Display for ExportsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportsError::Path(path) => {
                write!(
                    f,
                    "the export path \"{path}\" must begin with / and have plain components, as in /main"
                )
            }
            ExportsError::Ambiguous(path) => {
                write!(
                    f,
                    "the export path \"{path}\" is given for two volumes; choose another for one of them"
                )
            }
            ExportsError::NoVolume(path) => {
                write!(f, "the volume of export \"{path}\" is not open; create it, or remove the export")
            }
        }
    }
}

impl std::error::Error for ExportsError {}

/// The access that exports give a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostAccess {
    /// None.
    None,
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

/// All exports of a server.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// In the order of the configuration.
    list: Vec<Arc<Export>>,
    /// The exports of each volume, in the same order.
    by_volume: HashMap<VolumeId, Vec<Arc<Export>>>,
    /// Whether one of them admits every client.
    admit_all: bool,
}

impl Exports {
    /// Checks the paths of exports.
    pub(crate) fn new(exports: Vec<Export>) -> Result<Exports, ExportsError> {
        let mut checked = Exports::default();
        for export in exports {
            let plain = |part: &str| !matches!(part, "" | "." | "..");
            match export.path.strip_prefix('/') {
                Some(rest) if rest.is_empty() || rest.split('/').all(plain) => {}
                _ => return Err(ExportsError::Path(export.path)),
            }
            if checked.list.iter().any(|other| other.path == export.path && other.volume != export.volume) {
                return Err(ExportsError::Ambiguous(export.path));
            }
            checked.admit_all |= export.clients.is_empty() && !export.privileged_port_required;
            let export = Arc::new(export);
            checked.by_volume.entry(export.volume).or_default().push(Arc::clone(&export));
            checked.list.push(export);
        }
        Ok(checked)
    }

    /// Returns the exports in the order of the configuration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.list.iter().map(Arc::as_ref)
    }

    /// Returns the export whose rules apply to a client at `address` that uses a handle of `volume`; none if no export
    /// admits it.
    pub(crate) fn admitting(&self, volume: VolumeId, address: SocketAddr) -> Option<&Export> {
        self.by_volume.get(&volume)?.iter().map(Arc::as_ref).find(|export| export.admits(address))
    }

    /// Returns the widest access that the exports of a volume give a client at `address`.
    pub(crate) fn access(&self, address: SocketAddr, volume: VolumeId) -> HostAccess {
        let of_volume = self.by_volume.get(&volume).into_iter().flatten();
        let admitting = of_volume.filter(|export| export.admits(address));
        let of_each =
            admitting.map(|export| if export.read_only { HostAccess::Read } else { HostAccess::Write });
        of_each.max().unwrap_or(HostAccess::None)
    }

    /// Returns whether any export admits a client at `address`.
    #[inline]
    pub(crate) fn admit(&self, address: SocketAddr) -> bool {
        self.admit_all || self.list.iter().any(|export| export.admits(address))
    }

    /// Returns whether any export admits clients at this address, by one port or another.
    pub(crate) fn admit_address(&self, address: IpAddr) -> bool {
        self.list.iter().any(|export| export.clients.is_empty() || export.lists(address))
    }

    /// Returns the exports at the longest export path that `path` begins with, and the rest of `path`. None if there is no
    /// such export.
    pub(crate) fn at<'p>(&self, path: &'p [u8]) -> Option<(impl Iterator<Item = &Export>, &'p [u8])> {
        let (found, rest) = self
            .iter()
            .filter_map(|export| Some((export, beneath(&export.path, path)?)))
            .max_by_key(|(export, _)| export.path.len())?;
        Some((self.iter().filter(|export| export.path == found.path), rest))
    }
}

/// Returns each path of `exports` once, in their order, with the networks that may mount it; none stand for all clients.
#[must_use]
pub fn networks_by_path<'e>(exports: impl IntoIterator<Item = &'e Export>) -> Vec<(&'e str, Vec<IpNet>)> {
    let mut paths: Vec<(&str, Vec<IpNet>)> = Vec::new();
    for export in exports {
        match paths.iter_mut().find(|(path, _)| *path == export.path) {
            Some((_, known)) if known.is_empty() || export.clients.is_empty() => known.clear(),
            Some((_, known)) => known.extend(&export.clients),
            None => paths.push((&export.path, export.clients.clone())),
        }
    }
    paths
}

/// Returns what follows `export` in `path`, if `path` is that directory or one beneath it.
fn beneath<'p>(export: &str, path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(export.trim_end_matches('/').as_bytes())?;
    (path.starts_with(b"/") && (rest.is_empty() || rest.starts_with(b"/"))).then_some(rest)
}

#[cfg(test)]
mod tests;
