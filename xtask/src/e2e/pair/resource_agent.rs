//! The OCF resource agent, `package/cluster/group`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Pair;
use crate::process::{self, root};

/// Exit codes of resource agents.
const SUCCESS: i32 = 0;
const NOT_INSTALLED: i32 = 5;

fn agent() -> PathBuf {
    root().join("package/cluster/group")
}

impl Pair<'_> {
    /// Runs the cluster manager's own test of the resource agent, in a cluster that fences and in one that does not.
    pub(super) fn try_resource_agent(&self) -> Result<(), String> {
        let bin = self.lab.folder.join("bin");
        fs::create_dir_all(&bin).map_err(process::at(&bin))?;
        let attribute = bin.join("crm_attribute");
        for (fences, passes) in [("true", true), ("false", false)] {
            fs::write(&attribute, format!("#!/bin/sh\necho {fences}\n")).map_err(process::at(&attribute))?;
            process::output(Command::new("chmod").arg("+x").arg(&attribute))?;
            let mut tester = Command::new("ip");
            tester.args(["netns", "exec", &self.serving().namespace(), "env", "OCF_ROOT=/usr/lib/ocf"]);
            tester.arg(format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
            tester.args(["ocf-tester", "-n", "home", "-o", "group=home"]);
            tester.args(["-o", &format!("config={}", self.serving().configuration().display())]);
            tester.args(["-o", &format!("program={}", self.lab.binary().display())]);
            let tested = process::output(tester.arg(agent()));
            if tested.is_ok() != passes {
                let said = tested.unwrap_or_else(|why| why);
                return Err(format!("ocf-tester, where stonith-enabled is {fences}: {said}"));
            }
        }
        self.try_it_where_nothing_is_installed()
    }

    /// A machine without the program or its configuration says so, and stops what it does not serve: otherwise it would be fenced.
    fn try_it_where_nothing_is_installed(&self) -> Result<(), String> {
        let absent = self.lab.folder.join("absent");
        for (action, expected) in [("monitor", NOT_INSTALLED), ("start", NOT_INSTALLED), ("stop", SUCCESS)] {
            let mut command = Command::new("sh");
            command.arg(agent()).arg(action).env("OCF_ROOT", "/usr/lib/ocf");
            command.env("OCF_RESOURCE_INSTANCE", "home").env("OCF_RESKEY_group", "home");
            command.env("OCF_RESKEY_program", &absent).env("OCF_RESKEY_config", &absent);
            let output = command.output().map_err(|error| format!("sh: {error}"))?;
            if output.status.code() != Some(expected) {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(format!("{action} where nothing is installed: {}: {said}", output.status));
            }
        }
        Ok(())
    }
}
