//! Finds the paths of damaged objects for the log: in the background, once for each object, and for many objects together.

use std::collections::BTreeSet;

use crate::api::ids::VolumeNumber;
use crate::background::Progress;
use crate::pool::Pool;

/// Names that one step reads: about a second's work. What is not found among them stays without a path.
const NAMES_READ_MAX: u64 = 1_000_000;

impl Pool {
    /// Logs the paths of objects whose damage was reported since the last call. May read media.
    pub fn step_damaged_paths(&self) -> Progress {
        let wanted = self.damaged.take();
        if wanted.is_empty() {
            return Progress::Idle;
        }
        let volumes: BTreeSet<VolumeNumber> = wanted.iter().map(|id| id.volume).collect();
        for volume in volumes {
            let of_volume = wanted.iter().filter(|id| id.volume == volume).map(|id| id.ino).collect();
            for (ino, path) in self.paths_of(volume, &of_volume, NAMES_READ_MAX) {
                let path = String::from_utf8_lossy(&path);
                tracing::error!(parent: &self.span, volume = volume.0, inode = ino.0, %path, "the damaged data belongs to this path");
            }
        }
        Progress::Worked
    }
}
