//! The groups of a machine: those of its configuration, or those that a cluster has at the moment.

use std::sync::{Arc, Mutex};

use crate::group::{Handle, lock};
use crate::status::GroupStatus;

/// The groups, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Vec<Arc<Handle>>>);

impl Groups {
    pub(crate) fn add(&self, group: Arc<Handle>) {
        lock(&self.0).push(group);
    }

    pub(crate) fn remove(&self, name: &str) {
        lock(&self.0).retain(|group| group.config().name != name);
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Handle>> {
        lock(&self.0).iter().find(|group| group.config().name == name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        lock(&self.0).clone()
    }

    /// Has all servers read their configuration files again.
    pub(crate) fn reload(&self) {
        self.all().iter().for_each(|group| group.reload());
    }

    pub(crate) fn statuses(&self) -> Vec<GroupStatus> {
        self.all().iter().map(|group| group.status()).collect()
    }
}
