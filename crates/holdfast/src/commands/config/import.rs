//! Makes the settings of a running server what a file says. What the file does not name stays.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use server::admin;
use server::admin::api::types::{
    NewTree, NewVolume, QosChange, QosInfo, QuotaChange, QuotaInfo, QuotaKind, QuotaList, Root,
    SettingChange, TreeInfo, VolumeChange, VolumeInfo,
};
use server::error::{Error, ErrorKind};

use super::settings::{QuotaSettings, RateSettings, Settings, VolumeSettings, get, trees};

/// What an import did.
#[derive(Debug, Default, Serialize)]
pub(super) struct Imported {
    /// Sentences about what was changed.
    pub(super) changed: Vec<String>,
    /// Why other settings could not be changed.
    pub(super) failed: Vec<String>,
}

/// Reads a file of settings.
pub(super) fn read(file: &Path) -> Result<Settings, Error> {
    let text = std::fs::read(file)
        .map_err(|error| Error::usage(format!("cannot read {}: {error}", file.display())))?;
    serde_json::from_slice(&text).map_err(|error| {
        let file = file.display();
        Error::usage(format!("{file} does not have the settings of a server: {error}; `holdfast config export` writes such a file"))
    })
}

/// Changes what is not as `settings` say.
///
/// # Errors
/// The server does not answer. What it refuses is among what failed.
pub(super) fn apply(data: &Path, settings: &Settings) -> Result<Imported, Error> {
    let volumes: Vec<VolumeInfo> = admin::get(data, "/v1/volumes")?;
    let mut import = Import { data, imported: Imported::default() };
    for wanted in &settings.volumes {
        let known = volumes.iter().find(|volume| volume.name == wanted.name);
        let outcome = import.volume(wanted, known);
        import.note(outcome, || format!("the volume {:?}", wanted.name));
    }
    for wanted in &settings.qos {
        let outcome = import.rates(wanted);
        import.note(outcome, || format!("the rate limits of the {} {:?}", wanted.kind.name(), wanted.name));
    }
    Ok(import.imported)
}

struct Import<'d> {
    data: &'d Path,
    imported: Imported,
}

impl Import<'_> {
    /// Notes that something could not be changed.
    fn note(&mut self, outcome: Result<(), Error>, what: impl FnOnce() -> String) {
        if let Err(error) = outcome {
            self.imported.failed.push(format!("{}: {error}", what()));
        }
    }

    fn changed(&mut self, sentence: String) {
        self.imported.changed.push(sentence);
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        content: &impl Serialize,
    ) -> Result<T, Error> {
        admin::ask(self.data, method, target, Some(content))
    }

    fn volume(&mut self, wanted: &VolumeSettings, known: Option<&VolumeInfo>) -> Result<(), Error> {
        let VolumeSettings { name, pool, size_bytes, root, .. } = wanted;
        let target = format!("/v1/volumes/{}", admin::escaped(name));
        match known {
            None => {
                let new = NewVolume {
                    name: name.clone(),
                    pool: pool.clone(),
                    size_bytes: *size_bytes,
                    root: *root,
                };
                let _: VolumeInfo = self.send("POST", "/v1/volumes", &new)?;
                self.changed(format!("created the volume {name:?}"));
            }
            Some(known) if known.size_bytes != *size_bytes || !is_in(*root, known.root) => {
                let change = VolumeChange { name: None, size_bytes: Some(*size_bytes), root: *root };
                let _: VolumeInfo = self.send("PATCH", &target, &change)?;
                self.changed(format!("changed the volume {name:?}"));
            }
            Some(_) => {}
        }
        let made = trees(self.data, name)?;
        for path in wanted.trees.iter().filter(|path| made.iter().all(|(_, made)| made != *path)) {
            let made: Result<TreeInfo, Error> =
                self.send("POST", &format!("{target}/trees"), &NewTree { path: path.clone() });
            match made {
                Ok(_) => self.changed(format!("made {path:?} a quota tree of the volume {name:?}")),
                Err(error) => self.note(Err(error), || format!("the quota tree {path:?}")),
            }
        }
        let made = trees(self.data, name)?;
        for quota in &wanted.quotas {
            let outcome = self.quota(name, quota, &made);
            self.note(outcome, || format!("the quota of {}", named(name, quota)));
        }
        Ok(())
    }

    fn quota(&mut self, volume: &str, wanted: &QuotaSettings, made: &[(u64, String)]) -> Result<(), Error> {
        let QuotaSettings { kind, bytes, inodes, grace, .. } = *wanted;
        let id = match &wanted.path {
            None => wanted.id,
            Some(path) => {
                Some(made.iter().find(|(_, made)| made == path).map(|(id, _)| *id).ok_or_else(|| {
                    let sentence = format!("{path:?} is not a quota tree: name it among `trees`");
                    Error { kind: ErrorKind::NotFound, sentence }
                })?)
            }
        };
        let query = id.map_or_else(|| "limit=1".to_owned(), |id| format!("id={id}"));
        let found: QuotaList = get(self.data, volume, &format!("quotas?kind={}&{query}", kind.name()))?;
        let is_so = |known: &QuotaInfo| {
            let limits = (known.bytes, known.inodes) == (bytes, inodes);
            limits && !known.is_default && grace.is_none_or(|grace| grace == known.grace)
        };
        if found.quotas.first().is_some_and(is_so) {
            return Ok(());
        }
        let change = QuotaChange { kind, id, bytes: Some(bytes), inodes: Some(inodes), reset: false, grace };
        let target = format!("/v1/volumes/{}/quotas", admin::escaped(volume));
        let _: QuotaInfo = self.send("PATCH", &target, &change)?;
        self.changed(format!("changed the quota of {}", named(volume, wanted)));
        Ok(())
    }

    fn rates(&mut self, wanted: &RateSettings) -> Result<(), Error> {
        let RateSettings { kind, name, set } = wanted;
        let target = format!("/v1/qos?kind={}&name={}", kind.name(), admin::escaped(name));
        let found: Vec<QosInfo> = admin::get(self.data, &target)?;
        if found.first().is_some_and(|known| known.set == *set) {
            return Ok(());
        }
        let set = SettingChange {
            reset: true,
            tier: Some(set.tier.clone()),
            limits: set.limits.iter().map(|(rate, most)| (*rate, Some(*most))).collect(),
            burst_milliseconds: Some(set.burst_milliseconds),
        };
        let change = QosChange { kind: *kind, name: name.clone(), set };
        let _: QosInfo = self.send("PATCH", "/v1/qos", &change)?;
        self.changed(format!("changed the rate limits of the {} {name:?}", kind.name()));
        Ok(())
    }
}

/// Whether a root directory is as it should be.
fn is_in(wanted: Root, known: Root) -> bool {
    wanted.uid.is_none_or(|uid| known.uid == Some(uid))
        && wanted.gid.is_none_or(|gid| known.gid == Some(gid))
        && wanted.mode.is_none_or(|mode| known.mode == Some(mode))
}

/// Names whom a quota is of.
fn named(volume: &str, quota: &QuotaSettings) -> String {
    let kind = quota.kind.name();
    match (&quota.path, quota.id) {
        _ if quota.kind == QuotaKind::Volume => format!("the volume {volume:?}"),
        (Some(path), _) => format!("the tree {path:?} in the volume {volume:?}"),
        (None, Some(id)) => format!("the {kind} {id} in the volume {volume:?}"),
        (None, None) => format!("all other {kind}s in the volume {volume:?}"),
    }
}
