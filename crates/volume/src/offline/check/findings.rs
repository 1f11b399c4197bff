//! Faults, collected during a check. Their paths are looked up at the end, when all names are known.

use super::tree::Tree;
use super::view::View;
use super::{Fault, FaultKind, Obstacle, Report, Summary};
use std::collections::BTreeMap;

use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::encoding::key::FIRST;

/// What a fault affects.
#[derive(Clone, Debug)]
enum Subject {
    Nothing,
    Object(ObjectId),
    Name(ObjectId, Box<[u8]>),
}

/// The faults found so far.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The volume whose objects are named.
    pub(super) volume: VolumeNumber,
    found: Vec<(FaultKind, Subject, String)>,
    max: usize,
    more: u64,
    repairable: u64,
    /// Faults of the journal.
    journal: u64,
    notes: Vec<String>,
}

impl Findings {
    pub(crate) fn new(max: usize) -> Findings {
        Findings {
            volume: FIRST,
            found: Vec::new(),
            max,
            more: 0,
            repairable: 0,
            journal: 0,
            notes: Vec::new(),
        }
    }

    /// Adds a fault that affects an object, if any.
    pub(super) fn add(&mut self, kind: FaultKind, object: Option<Ino>, what: String) {
        self.add_to(kind, object.map(|ino| self.volume.object(ino)), what);
    }

    /// Adds a fault that affects an object of any volume, if any.
    pub(super) fn add_to(&mut self, kind: FaultKind, object: Option<ObjectId>, what: String) {
        self.push(kind, object.map_or(Subject::Nothing, Subject::Object), what);
    }

    /// Adds a fault that affects a name.
    pub(super) fn add_name(&mut self, kind: FaultKind, directory: Ino, name: &[u8], what: String) {
        self.push(kind, Subject::Name(self.volume.object(directory), name.into()), what);
    }

    /// Adds a remark that is no fault.
    pub(super) fn note(&mut self, what: String) {
        if self.notes.len() < self.max {
            self.notes.push(what);
        }
    }

    /// Returns the faults as sentences, without paths.
    pub(crate) fn sentences(self) -> Vec<String> {
        self.found.into_iter().map(|(_, _, what)| what).collect()
    }

    fn push(&mut self, kind: FaultKind, subject: Subject, what: String) {
        self.repairable += u64::from(kind.is_repairable());
        self.journal += u64::from(kind == FaultKind::Journal);
        if self.found.len() < self.max {
            self.found.push((kind, subject, what));
        } else {
            self.more += 1;
        }
    }

    /// Returns the report, with paths.
    pub(super) fn report(
        self,
        view: &mut View,
        trees: &BTreeMap<VolumeNumber, Tree>,
        summary: Summary,
    ) -> Report {
        let mut path_of = |id: ObjectId| {
            view.volume = id.volume;
            let path = trees.get(&id.volume)?.path(view, id.ino)?;
            Some(if view.has_several_volumes() {
                let name = view.volumes.get(&id.volume).map_or("", |volume| &volume.name);
                format!("{name}:{path}")
            } else {
                path
            })
        };
        let faults = self
            .found
            .into_iter()
            .map(|(kind, subject, what)| {
                let path = match subject {
                    Subject::Nothing => None,
                    Subject::Object(id) => path_of(id),
                    Subject::Name(directory, name) => {
                        let parent = path_of(directory);
                        let name = String::from_utf8_lossy(&name).into_owned();
                        parent.map(|parent| format!("{}/{name}", parent.trim_end_matches('/')))
                    }
                };
                Fault { kind, path, what }
            })
            .collect();
        let obstacle = match &view.meta {
            None => Some(Obstacle::Meta),
            Some(_) if view.volumes.is_empty() => Some(Obstacle::Meta),
            Some(_) if self.journal > 0 => Some(Obstacle::Journal),
            Some(_) => None,
        };
        Report {
            faults,
            more_faults: self.more,
            repairable_faults: if obstacle.is_some() { 0 } else { self.repairable },
            obstacle,
            notes: self.notes,
            summary,
        }
    }
}
