//! `holdfast qos`: limits the rates of targets, pools, volumes and clients of a running server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::admin;
use server::admin::api::types::{Kind, QosChange, QosInfo, Rate, SettingChange, TierInfo};
use server::config::size::Size;
use server::error::Error;

use super::named::All;
use crate::report::{Outcome, as_json, print, print_either};

mod table;

const SET_EXAMPLES: &str = "Sizes are bytes a second, numbers are operations a second; `none` removes a limit. Limits that are not \
named stay as they are. Changes take effect at once and survive restarts. A call passes the limits of its target, its pool, its \
volume and its client.

Examples:
  holdfast qos set /srv/holdfast --volume home --tier premium
  holdfast qos set /srv/holdfast --volume scratch --read-bytes 200MiB --write-bytes 100MiB
  holdfast qos set /srv/holdfast --target fast --tier oci-20
  holdfast qos set /srv/holdfast --all-clients --total-ops 20000
  holdfast qos set /srv/holdfast --client 192.0.2.7 --reset";

#[derive(Debug, Args)]
pub(crate) struct Qos {
    #[command(subcommand)]
    action: Action,
}

/// What has limits.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// A target: a name below [targets] in the configuration, or a listen address
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// All volumes of a pool together
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// A volume
    #[arg(long, value_name = "VOLUME")]
    volume: Option<String>,
    /// A client, by its IP address; those in a /64 network of IPv6 are one
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Each client that has no limits of its own
    #[arg(long)]
    all_clients: bool,
}

impl Of {
    fn named(&self) -> (Kind, &str) {
        match self {
            Of { target: Some(name), .. } => (Kind::Target, name),
            Of { pool: Some(name), .. } => (Kind::Pool, name),
            Of { volume: Some(name), .. } => (Kind::Volume, name),
            Of { client: Some(name), .. } => (Kind::Client, name),
            Of { .. } => (Kind::Client, "*"),
        }
    }
}

/// Limits to change.
#[derive(Debug, Args)]
struct Changes {
    /// The tier, or `none`; `holdfast qos tiers` lists them
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,
    /// Bytes read a second, at least 1MiB
    #[arg(long, value_name = "SIZE")]
    read_bytes: Option<String>,
    /// Bytes written a second, at least 1MiB
    #[arg(long, value_name = "SIZE")]
    write_bytes: Option<String>,
    /// Bytes read and written a second, at least 1MiB
    #[arg(long, value_name = "SIZE")]
    total_bytes: Option<String>,
    /// READs a second, at least 10
    #[arg(long, value_name = "NUMBER")]
    read_ops: Option<String>,
    /// WRITEs a second, at least 10
    #[arg(long, value_name = "NUMBER")]
    write_ops: Option<String>,
    /// Other operations a second, at least 10
    #[arg(long, value_name = "NUMBER")]
    metadata_ops: Option<String>,
    /// All operations a second, at least 10
    #[arg(long, value_name = "NUMBER")]
    total_ops: Option<String>,
    /// What may pass at once: as much as the limits allow in this time, 20 to 10000 milliseconds, or `none`
    #[arg(long, value_name = "MILLISECONDS")]
    burst: Option<String>,
    /// Remove all limits first
    #[arg(long)]
    reset: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Limit a target, a pool, a volume or clients
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        changes: Box<Changes>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the limits of a target, a pool, a volume or clients, and how long calls have waited for them
    Show {
        /// The data directory
        #[arg(value_name = "DATA")]
        data: PathBuf,
        #[command(flatten)]
        of: Of,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List what has limits
    List(All),
    /// List the tiers
    Tiers(All),
}

pub(crate) fn run(qos: &Qos) -> Outcome {
    match &qos.action {
        Action::Set { data, of, changes, json } => {
            let (kind, name) = of.named();
            let change = QosChange { kind, name: name.to_owned(), set: changes.change()? };
            let info: QosInfo = admin::ask(data, "PATCH", "/v1/qos", Some(&change))?;
            show(&info, *json);
        }
        Action::Show { data, of, json } => {
            let (kind, name) = of.named();
            let name = admin::escaped(name);
            let found: Vec<QosInfo> = admin::get(data, &format!("/v1/qos?kind={}&name={name}", kind.name()))?;
            found.iter().for_each(|info| show(info, *json));
        }
        Action::List(All { data, json }) => {
            let list: Vec<QosInfo> = admin::get(data, "/v1/qos")?;
            print_either(*json, &as_json(&list), || table::list(&list));
        }
        Action::Tiers(All { data, json }) => {
            let tiers: Vec<TierInfo> = admin::get(data, "/v1/qos/tiers")?;
            print_either(*json, &as_json(&tiers), || table::tiers(&tiers));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(info: &QosInfo, json: bool) {
    if json { print(&format!("{}\n", as_json(info))) } else { print(&table::rows(info)) }
}

impl Changes {
    fn change(&self) -> Result<SettingChange, Error> {
        let given = [
            (Rate::ReadBytes, &self.read_bytes),
            (Rate::WriteBytes, &self.write_bytes),
            (Rate::TotalBytes, &self.total_bytes),
            (Rate::ReadOps, &self.read_ops),
            (Rate::WriteOps, &self.write_ops),
            (Rate::MetadataOps, &self.metadata_ops),
            (Rate::TotalOps, &self.total_ops),
        ];
        let mut limits = BTreeMap::new();
        for (rate, text) in given {
            if let Some(text) = text {
                limits.insert(rate, limit(rate, text)?);
            }
        }
        let or_none = |text: &String| Some(text.clone()).filter(|text| text != "none");
        let burst = self.burst.as_ref().map(|text| number("--burst", text, "100")).transpose()?;
        Ok(SettingChange {
            reset: self.reset,
            tier: self.tier.as_ref().map(or_none),
            limits,
            burst_milliseconds: burst,
        })
    }
}

/// Reads a limit; none for `none`.
fn limit(rate: Rate, text: &str) -> Result<Option<u64>, Error> {
    if !rate.is_bytes() {
        return number(&format!("--{}", rate.name().replace('_', "-")), text, "1000");
    }
    if text == "none" {
        return Ok(None);
    }
    let size: Result<Size, String> = text.parse();
    size.map(|size| Some(size.0)).map_err(Error::usage)
}

fn number(option: &str, text: &str, usual: &str) -> Result<Option<u64>, Error> {
    if text == "none" {
        return Ok(None);
    }
    let wrong = |_| Error::usage(format!("{option} is a whole number or `none`, such as {option} {usual}"));
    text.parse().map(Some).map_err(wrong)
}
