//! Exports: which volume is reached by whom, and with what rights.
//!
//! Rules are applied to every request, not only to MNT, so that whoever learns a handle gains nothing from it. A handle
//! names its volume and not the path by which it was mounted; so several exports of one volume are alternatives, of
//! which the first that admits the client holds, whatever path it mounted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use foldhash::HashMap;
use ipnet::IpNet;
use volume::ids::VolumeId;
use wire::rpc::Credential;

use crate::limits::UNPRIVILEGED_PORT;

pub(crate) mod pseudo;

/// Whose claims about themselves are not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// User 0 and group 0 become the anonymous user and group.
    #[default]
    Root,
    /// Everybody becomes the anonymous user.
    All,
    /// Everybody is believed.
    None,
}

/// One volume under one path, with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What clients mount, for example `/main`; directories beneath it can be mounted as well.
    pub path: String,
    /// The volume whose root directory is there.
    pub volume: VolumeId,
    /// Whether changes are answered with NFS3ERR_ROFS.
    pub read_only: bool,
    /// Whose credentials are replaced.
    pub squash: Squash,
    /// The user that replaces others; 65534 is `nobody` on most systems.
    pub anonymous_uid: u32,
    /// The group that replaces others.
    pub anonymous_gid: u32,
    /// The networks of the clients that are admitted; none for all.
    pub clients: Vec<IpNet>,
    /// Whether a client must call from a port below 1024, which only its superuser can use.
    pub privileged_port_required: bool,
    /// Whether AUTH_NONE is answered with AUTH_TOOWEAK instead of being taken for the anonymous user.
    pub auth_sys_required: bool,
    /// Whether clients of NFSv4 may be given delegations of its files (RFC 8881 section 10.2).
    pub delegations: bool,
}

impl Export {
    /// An export with the usual rules: changes allowed, root squashed, everybody admitted.
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

    /// Whether the way in which a caller says who he is will do.
    pub(crate) fn is_content_with(&self, credential: &Credential<'_>) -> bool {
        !self.auth_sys_required || matches!(credential, Credential::Sys(_))
    }

    /// Whether a client at `address` may use it. IPv4 addresses that are mapped into IPv6 count as IPv4.
    #[must_use]
    pub fn admits(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let known = self.clients.is_empty() || self.clients.iter().any(|network| contains(network, ip));
        known && (!self.privileged_port_required || address.port() < UNPRIVILEGED_PORT)
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

/// All exports of a server.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// In the order of the configuration.
    list: Vec<Arc<Export>>,
    /// Those of each volume, in the same order.
    by_volume: HashMap<VolumeId, Vec<Arc<Export>>>,
}

impl Exports {
    /// Checks paths.
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
            let export = Arc::new(export);
            checked.by_volume.entry(export.volume).or_default().push(Arc::clone(&export));
            checked.list.push(export);
        }
        Ok(checked)
    }

    /// The exports in the order of the configuration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.list.iter().map(Arc::as_ref)
    }

    /// The export whose rules hold when a client at `address` uses a handle of `volume`; none if it is not admitted.
    pub(crate) fn admitting(&self, volume: VolumeId, address: SocketAddr) -> Option<&Export> {
        self.by_volume.get(&volume)?.iter().map(Arc::as_ref).find(|export| export.admits(address))
    }

    /// The exports that a path leads to, which is the longest export path that it begins with, and the rest of the path:
    /// nothing, or further components. None if it leads nowhere.
    pub(crate) fn at<'p>(&self, path: &'p [u8]) -> Option<(impl Iterator<Item = &Export>, &'p [u8])> {
        let (found, rest) = self
            .iter()
            .filter_map(|export| Some((export, beneath(&export.path, path)?)))
            .max_by_key(|(export, _)| export.path.len())?;
        Some((self.iter().filter(|export| export.path == found.path), rest))
    }
}

/// What follows `export` in `path`, if `path` is that directory or one beneath it.
fn beneath<'p>(export: &str, path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(export.trim_end_matches('/').as_bytes())?;
    (path.starts_with(b"/") && (rest.is_empty() || rest.starts_with(b"/"))).then_some(rest)
}

#[cfg(test)]
mod tests;
