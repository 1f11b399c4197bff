//! nfs-ganesha in place of Holdfast, for comparison: its recovery directory lies beside its files, and the address is moved by
//! `IPaddr2`, as a cluster manager does.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{ADDRESS6, Pair};
use crate::e2e::lab::ADDRESS;
use crate::process::{self, root};

/// For how long nfs-ganesha lets clients reclaim what they held, and nobody else change it, after each start.
pub(super) const GRACE: Duration = Duration::from_secs(90);

/// The agent of the package resource-agents.
const IPADDR2: &str = "/usr/lib/ocf/resource.d/heartbeat/IPaddr2";

impl Pair<'_> {
    /// Takes the addresses, and then starts the server: the order of a resource group in Pacemaker.
    pub(super) fn start_ganesha(&mut self, node: usize) -> Result<(), String> {
        self.move_addresses(node, "start")?;
        let folder = |name: String| -> PathBuf { self.lab.folder.join("ganesha").join(name) };
        let mut command = Command::new(root().join("e2e/peer/ganesha-node"));
        command
            .arg(self.machines[node].namespace())
            .arg(folder(self.machines[node].name.to_owned()))
            .arg(folder("shared".to_owned()));
        self.machines[node].agent = Some(process::start(&mut command)?);
        Ok(())
    }

    /// Stops the server, and then gives the addresses up.
    pub(super) fn stop_ganesha(&mut self, node: usize) -> Result<(), String> {
        self.kill_ganesha(node)?;
        self.move_addresses(node, "stop")
    }

    /// Kills the server alone.
    pub(super) fn kill_ganesha(&mut self, node: usize) -> Result<(), String> {
        let mut server = self.machines[node].agent.take().ok_or("no server runs")?;
        process::stop(&mut server);
        Ok(())
    }

    fn move_addresses(&self, node: usize, action: &str) -> Result<(), String> {
        for (address, bits) in [(ADDRESS, "24"), (ADDRESS6, "64")] {
            let mut agent = Command::new("ip");
            agent.args(["netns", "exec", &self.machines[node].namespace(), "env", "OCF_ROOT=/usr/lib/ocf"]);
            agent.args([&format!("OCF_RESKEY_ip={address}"), &format!("OCF_RESKEY_cidr_netmask={bits}")]);
            agent.args(["OCF_RESKEY_nic=eth0", "OCF_RESOURCE_INSTANCE=address", IPADDR2, action]);
            process::output(&mut agent)?;
        }
        Ok(())
    }
}
