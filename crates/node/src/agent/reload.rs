//! What a changed configuration file changes while the agent runs.

use std::sync::Arc;

use super::Agent;
use crate::config::{Config, Group};
use crate::group::{Handle, lock};
use crate::shared::Shared;
use crate::status::State;

impl Agent {
    /// Takes over a configuration that was read again: its commands, and groups that this machine does not serve. Has all servers
    /// read their configuration files again, which each logs.
    ///
    /// # Errors
    /// A sentence that says what the agent did not take over, and what to do.
    pub fn reload(&self, config: Result<Config, String>) -> Result<(), String> {
        let configured = config.and_then(|config| self.configure(config));
        self.groups.reload();
        configured
    }

    fn configure(&self, fresh: Config) -> Result<(), String> {
        // One reload at a time, which commands wait for.
        let mut held = lock(&self.config);
        check_fixed(&held, &fresh)?;
        let gone: Vec<Group> =
            held.group.iter().filter(|group| !fresh.group.contains(group)).cloned().collect();
        self.check_stopped(&gone)?;
        let added: Vec<Group> =
            fresh.group.iter().filter(|group| !held.group.contains(group)).cloned().collect();
        // If one of the new groups has no sockets, all else is as the file says.
        let mut config = fresh;
        config.group.retain(|group| !added.contains(group));
        for group in &gone {
            self.remove_group(group);
        }
        let groups = config.group.len() + added.len();
        let bound = added.into_iter().try_for_each(|group| {
            self.add_group(&group, groups)?;
            config.group.push(group);
            Ok(())
        });
        *held = Arc::new(config);
        bound
    }

    /// Checks that no group is served that is to be removed or changed.
    fn check_stopped(&self, gone: &[Group]) -> Result<(), String> {
        let state = |group: &Group| self.groups.find(&group.name).map(|handle| handle.status().state);
        let is_served = |group: &&Group| state(group).is_some_and(|state| state != State::Stopped);
        match gone.iter().find(is_served) {
            Some(Group { name, .. }) => Err(format!(
                "the group {name:?} is served: stop it on this machine, reload, and start it, to remove or change it"
            )),
            None => Ok(()),
        }
    }

    /// Binds the sockets of a group. `groups` is how many there are.
    pub(super) fn add_group(&self, group: &Group, groups: usize) -> Result<(), String> {
        let shared = Shared::Directory(group.data.clone());
        let launch = crate::group::Launch { groups, ..self.launch.clone() };
        let handle = Handle::start(group, shared, &launch, Arc::clone(&self.network))?;
        self.groups.add(Arc::new(handle));
        Ok(())
    }

    fn remove_group(&self, group: &Group) {
        if let Some(handle) = self.groups.find(&group.name) {
            self.groups.remove(&group.name);
            handle.end();
        }
    }
}

/// Checks that nothing changes that the agent reads only when it starts.
fn check_fixed(held: &Config, fresh: &Config) -> Result<(), String> {
    let changed = [
        ("node", held.node != fresh.node),
        ("interface", held.interface != fresh.interface),
        ("store", held.store != fresh.store),
        ("socket", held.socket != fresh.socket),
        ("metrics", held.metrics != fresh.metrics),
    ];
    match changed.iter().find(|(_, is_changed)| *is_changed) {
        Some((key, _)) => Err(format!("`{key}` is read only at the start: restart the agent to change it")),
        None => Ok(()),
    }
}
