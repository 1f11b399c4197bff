//! Applies a changed configuration file while the agent runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Agent;
use crate::config::{Config, Group};
use crate::group::{Handle, lock};
use crate::shared::Shared;

impl Agent {
    /// Applies a configuration that was read again: its commands, and the groups that this machine does not serve. Then has all servers
    /// reread theirs; each logs what changed.
    ///
    /// # Errors
    /// Sentences that say what was not applied, and what to do about it. Everything else was.
    pub fn reload(&self, config: Result<Config, String>) -> Result<(), String> {
        let left = config.map_or_else(|why| vec![why], |config| self.configure(config));
        self.groups.reload();
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    /// Applies what can be applied. Returns a sentence for each part that was not.
    fn configure(&self, fresh: Config) -> Vec<String> {
        let _one_at_a_time = lock(&self.reloading);
        let held = self.config();
        let mut left = fixed_keys_that_changed(&held, &fresh);
        if held.store.is_some() || fresh.store.is_some() {
            // The groups are in the store, now or after a restart.
            return left;
        }
        self.launch.groups.store(fresh.group.len(), Ordering::Relaxed);
        let (mut groups, gone): (Vec<Group>, Vec<Group>) =
            held.group.iter().cloned().partition(|group| fresh.group.contains(group));
        let mut ended = Vec::new();
        for group in gone {
            match self.end_stopped(&group) {
                Ok(()) => ended.push(group),
                Err(why) => {
                    left.push(why);
                    groups.push(group);
                }
            }
        }
        for group in &fresh.group {
            if groups.iter().all(|other| other.name != group.name) {
                groups.extend(self.bind(group, &ended, &mut left));
            }
        }
        self.launch.groups.store(groups.len(), Ordering::Relaxed);
        let Config { fence_command, mount_command, move_command, .. } = fresh;
        let config =
            Config { fence_command, mount_command, move_command, group: groups, ..Config::clone(&held) };
        *lock(&self.config) = Arc::new(config);
        left
    }

    fn end_stopped(&self, group: &Group) -> Result<(), String> {
        self.groups.find(&group.name).map_or(Ok(()), |handle| handle.end_stopped())?;
        self.groups.remove(&group.name);
        Ok(())
    }

    /// Binds a new or changed group. If it cannot be bound, the former group of this name is bound again. Returns the one that is.
    fn bind(&self, group: &Group, ended: &[Group], left: &mut Vec<String>) -> Option<Group> {
        let former = ended.iter().find(|former| former.name == group.name);
        [group].into_iter().chain(former).find_map(|group| match self.add_group(group) {
            Ok(()) => Some(group.clone()),
            Err(why) => {
                left.push(why);
                None
            }
        })
    }

    /// Binds the sockets of a group.
    pub(super) fn add_group(&self, group: &Group) -> Result<(), String> {
        let shared = Shared::Directory(group.data.clone());
        let handle = Handle::start(group, shared, &self.launch, Arc::clone(&self.network))?;
        if !self.has_link.load(Ordering::Relaxed) {
            handle.tell_link(false);
        }
        self.groups.add(Arc::new(handle));
        Ok(())
    }
}

/// Returns a sentence for each changed key that the agent reads only when it starts.
fn fixed_keys_that_changed(held: &Config, fresh: &Config) -> Vec<String> {
    let keys = [
        ("node", held.node != fresh.node),
        ("interface", held.interface != fresh.interface),
        ("store", held.store != fresh.store),
        ("socket", held.socket != fresh.socket),
        ("metrics", held.metrics != fresh.metrics),
    ];
    let changed = keys.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(key, _)| format!("`{key}` cannot change while the agent runs: restart the agent")).collect()
}
