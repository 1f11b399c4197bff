//! The file `limits.json`, which keeps what is set. Targets and clients belong to no pool, so no journal keeps it; the file is replaced
//! atomically, and in a directory the versions before it are kept beside it. Settings of volumes are by their ids, so that they
//! follow renaming.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use nfs::link_local::{self, Shown};
use nfs::service::origin;
use qos::tiers::Tiers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use volume::ids::VolumeId;

use crate::data::Files;
use crate::error::Error;

use super::setting::Setting;

/// Name of the file.
const NAME: &str = "limits.json";

/// The name that stands for all clients without limits of their own.
pub(crate) const OTHER_CLIENTS: &str = "*";

/// Most clients with limits of their own.
const CLIENTS_MAX: usize = 4096;

/// Versions that are kept: `limits.json.1` is the one before the newest.
const VERSIONS_MAX: u32 = 16;

/// What has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A listen address.
    Target,
    /// A pool: all its volumes together.
    Pool,
    /// A volume.
    Volume,
    /// A client: an IPv4 address, a /64 network of IPv6, or `*`, which is each client without limits of its own.
    Client,
}

impl Kind {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Target => "target",
            Kind::Pool => "pool",
            Kind::Volume => "volume",
            Kind::Client => "client",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Kind> {
        [Kind::Target, Kind::Pool, Kind::Volume, Kind::Client].into_iter().find(|kind| kind.name() == name)
    }
}

/// One that has limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Target(String),
    Pool(String),
    Volume(VolumeId),
    /// The clients of an origin.
    Client(IpAddr),
    /// Each client without limits of its own.
    OtherClients,
}

impl Subject {
    /// Returns the clients that a name names.
    ///
    /// # Errors
    /// A sentence, if it is no address.
    pub(super) fn client(name: &str) -> Result<Subject, String> {
        if name == OTHER_CLIENTS {
            return Ok(Subject::OtherClients);
        }
        let address = link_local::parse(name).ok_or_else(|| {
            format!("{name:?} is not a client: give its IP address, or `{OTHER_CLIENTS}` for each client without limits of its own")
        })?;
        if link_local::link(address) == Some(0) {
            return Err(format!(
                "{name:?} names a different host on each link: add the number of the server's interface, as in {name}%2"
            ));
        }
        Ok(Subject::Client(origin(address)))
    }

    pub(super) fn client_name(&self) -> String {
        match self {
            Subject::Client(origin) => Shown(*origin).to_string(),
            _ => OTHER_CLIENTS.to_owned(),
        }
    }
}

/// What is set, by name. Empty settings are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Catalogue {
    targets: BTreeMap<String, Setting>,
    pools: BTreeMap<String, Setting>,
    /// By the id, 16 hexadecimal digits.
    volumes: BTreeMap<String, Setting>,
    clients: BTreeMap<IpAddr, Setting>,
    #[serde(skip_serializing_if = "Setting::is_empty")]
    other_clients: Setting,
}

impl Catalogue {
    /// Reads the file; without one, nothing is set.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(files: &Files) -> Result<Catalogue, Error> {
        let cannot = |error: &dyn std::fmt::Display| {
            let place = files.place(NAME);
            Error::failed(format!("cannot read the limits in {place}: {error}; correct or remove it"))
        };
        match files.read(NAME) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|error| cannot(&error)),
            Ok(None) => Ok(Catalogue::default()),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// There are too many clients, or it cannot be written.
    pub(super) fn write(&self, files: &Files) -> Result<(), Error> {
        if self.clients.len() > CLIENTS_MAX {
            return Err(Error::usage(format!(
                "{CLIENTS_MAX} clients have limits: remove those of some first"
            )));
        }
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| files.replace(NAME, &text, VERSIONS_MAX)).map_err(|error| {
            Error::failed(format!(
                "cannot write the limits to {}: {error}; check the device",
                files.place(NAME)
            ))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Catalogue::default()
    }

    /// Returns what is set for a subject.
    pub(super) fn setting(&self, subject: &Subject) -> Setting {
        let found = match subject {
            Subject::Target(name) => self.targets.get(name),
            Subject::Pool(name) => self.pools.get(name),
            Subject::Volume(id) => self.volumes.get(&id.to_string()),
            Subject::Client(origin) => self.clients.get(origin),
            Subject::OtherClients => Some(&self.other_clients),
        };
        found.cloned().unwrap_or_default()
    }

    /// Sets what holds for a subject.
    pub(super) fn set(&mut self, subject: &Subject, setting: Setting) {
        match subject {
            Subject::Target(name) => put(&mut self.targets, name.clone(), setting),
            Subject::Pool(name) => put(&mut self.pools, name.clone(), setting),
            Subject::Volume(id) => put(&mut self.volumes, id.to_string(), setting),
            Subject::Client(origin) => put(&mut self.clients, *origin, setting),
            Subject::OtherClients => self.other_clients = setting,
        }
    }

    /// Forgets the volumes that are not `kept`.
    pub(super) fn forget_volumes(&mut self, kept: impl Fn(VolumeId) -> bool) {
        self.volumes.retain(|id, _| volume_id(id).is_some_and(&kept));
    }

    /// Returns the clients with limits of their own.
    pub(super) fn clients(&self) -> Vec<IpAddr> {
        self.clients.keys().copied().collect()
    }

    /// Returns all subjects for which something is set.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let targets = self.targets.keys().cloned().map(Subject::Target);
        let pools = self.pools.keys().cloned().map(Subject::Pool);
        let volumes = self.volumes.keys().filter_map(|id| volume_id(id)).map(Subject::Volume);
        let clients = self.clients.keys().copied().map(Subject::Client);
        let others = (!self.other_clients.is_empty()).then_some(Subject::OtherClients);
        targets.chain(pools).chain(volumes).chain(clients).chain(others).collect()
    }

    /// Refuses tiers without one that something which exists uses.
    pub(super) fn check_tiers(&self, tiers: &Tiers, exists: impl Fn(&Subject) -> bool) -> Result<(), Error> {
        let mut used = self.subjects().into_iter().filter(exists).filter_map(|one| self.setting(&one).tier);
        match used.find(|name| tiers.iter().all(|(known, _)| known != name)) {
            None => Ok(()),
            Some(name) => Err(Error::usage(format!(
                "the tier {name:?} is in use, but not in the configuration: add it below [tiers], or change what uses it first"
            ))),
        }
    }

    /// Returns sentences about what is set for targets and pools other than these.
    pub(super) fn unused(&self, targets: &[String], pools: &[String]) -> Vec<String> {
        let unknown = |set: &BTreeMap<String, Setting>, kind: Kind, known: &[String]| -> Vec<String> {
            let names = set.keys().filter(|name| !known.contains(name));
            let kind = kind.name();
            let sentence = |name: &String| {
                format!(
                    "the rate limits of {kind} {name:?} are not in force, as there is no such {kind}: set them for another, and \
                     remove these with `holdfast qos set DATA --{kind} {name} --reset`"
                )
            };
            names.map(sentence).collect()
        };
        let of_pools = unknown(&self.pools, Kind::Pool, pools);
        unknown(&self.targets, Kind::Target, targets).into_iter().chain(of_pools).collect()
    }
}

/// Returns sentences about limits in `files` that are of no target and no pool with these names.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn unused(files: &Files, targets: &[String], pools: &[String]) -> Result<Vec<String>, Error> {
    Ok(Catalogue::read(files)?.unused(targets, pools))
}

fn put<K: Ord>(map: &mut BTreeMap<K, Setting>, key: K, setting: Setting) {
    if setting.is_empty() {
        map.remove(&key);
    } else {
        map.insert(key, setting);
    }
}

fn volume_id(digits: &str) -> Option<VolumeId> {
    u64::from_str_radix(digits, 16).ok().map(VolumeId)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_versions_before_the_newest_are_kept() {
        let folder = std::env::temp_dir().join(format!("holdfast-limits-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Files::Directory(folder.clone());
        let with = |burst: u64| {
            let mut catalogue = Catalogue::default();
            let setting = Setting { burst_milliseconds: Some(burst), ..Setting::default() };
            catalogue.set(&Subject::Pool("default".to_owned()), setting);
            catalogue
        };
        for burst in 1..=20 {
            with(burst).write(&files).unwrap();
        }
        assert_eq!(Catalogue::read(&files).unwrap(), with(20));
        for number in 1..=16 {
            let earlier = files.read(&format!("{NAME}.{number}")).unwrap().unwrap();
            let earlier: Catalogue = serde_json::from_slice(&earlier).unwrap();
            assert_eq!(earlier, with(20 - number), "version {number}");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 17, "no more are kept");
        fs::remove_dir_all(&folder).unwrap();
    }
}
