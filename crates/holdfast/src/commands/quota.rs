//! `holdfast quota`: limits what users, groups, quota trees and whole volumes use. If a server runs on the data directory, the command asks it;
//! otherwise it opens the data directory itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use server::admin;
use server::admin::api::types::{GracePeriods, QuotaChange, QuotaInfo, QuotaKind, QuotaList, TreeInfo};
use server::error::Error;
use server::volumes::trees::Which;
use server::volumes::{self, Unserved, quotas, trees};
use volume::Volume;

use super::named::{InVolume, PAGE, all_pages, with_warnings};
use super::tree;
use super::volume::offline;
use crate::report::{Outcome, as_json, print_either};

use arguments::{Inodes, Limited, OneKind, Owner, Period};
use table::{page, rows};

mod arguments;
mod table;

const SET_EXAMPLES: &str = "A limit is written HARD, or SOFT:HARD. The soft one may be exceeded for the grace period (`holdfast quota grace`), the hard one \
never. What a limit does not name stays; `none` removes it. The superuser is bound by the limits of trees and volumes only.

Examples:
  holdfast quota set /srv/holdfast home --user alice --bytes 8GiB:10GiB
  holdfast quota set /srv/holdfast home --all-users --bytes 5GiB --inodes 100000
  holdfast quota set /srv/holdfast home --group students --bytes none
  holdfast quota set /srv/holdfast home --tree /projects/atlas --bytes 2TiB
  holdfast quota set /srv/holdfast home --user alice --reset";

const GRACE_EXAMPLES: &str = "Examples:
  holdfast quota grace /srv/holdfast home --users --bytes 7d --inodes 36h";

#[derive(Debug, Args)]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Action,
}

impl InVolume {
    /// Finds out whose quota is meant.
    fn resolve(&self, owner: &Owner) -> Result<(QuotaKind, Option<u64>), Error> {
        owner.resolve(|tree| tree::number_of(&self.data, &self.name, tree))
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Limit what a user, a group, a quota tree, all others or the whole volume may use
    #[command(after_help = SET_EXAMPLES)]
    Set {
        #[command(flatten)]
        of: InVolume,
        #[command(flatten)]
        owner: Owner,
        /// The limits on bytes of file data and extended attributes, such as 10GiB or 8GiB:10GiB
        #[arg(long, value_name = "LIMIT")]
        bytes: Option<Limited<server::config::size::Size>>,
        /// The limits on inodes: files, directories and others
        #[arg(long, value_name = "LIMIT")]
        inodes: Option<Limited<Inodes>>,
        /// Remove the limits first: a user, a group or a tree then has those of all others
        #[arg(long)]
        reset: bool,
    },
    /// Show what a user, a group, a quota tree or the whole volume uses, and the limits
    Show {
        #[command(flatten)]
        of: InVolume,
        #[command(flatten)]
        owner: Owner,
    },
    /// List what all users, groups or quota trees use, and the limits
    Report {
        #[command(flatten)]
        of: InVolume,
        #[command(flatten)]
        kind: OneKind,
    },
    /// Set how long soft limits may be exceeded
    #[command(after_help = GRACE_EXAMPLES)]
    Grace {
        #[command(flatten)]
        of: InVolume,
        #[command(flatten)]
        kind: OneKind,
        /// Soft limits on bytes, such as 7d, 36h, 30min or 90s
        #[arg(long, value_name = "TIME")]
        bytes: Option<Period>,
        /// Soft limits on inodes
        #[arg(long, value_name = "TIME")]
        inodes: Option<Period>,
    },
}

pub(crate) fn run(quota: &Quota) -> Outcome {
    with_warnings(|| act(&quota.action)).map(|()| ExitCode::SUCCESS)
}

fn act(action: &Action) -> Result<(), Error> {
    match action {
        Action::Set { of, owner, bytes, inodes, reset } => {
            let (kind, id) = of.resolve(owner)?;
            let (bytes, inodes) = (bytes.map(Limited::limit), inodes.map(Limited::limit));
            let change = QuotaChange { kind, id, bytes, inodes, reset: *reset, grace: None };
            show(of, &set(of, &change)?)?;
        }
        Action::Show { of, owner } => {
            let (kind, id) = of.resolve(owner)?;
            show(of, &find(of, kind, id)?)?;
        }
        Action::Report { of, kind } => report(of, kind.kind())?,
        Action::Grace { of, kind, bytes, inodes } => {
            let kind = kind.kind();
            let before = find(of, kind, None)?.grace;
            let seconds = |period: Option<Period>, before| period.map_or(before, |period| period.0.as_secs());
            let grace = GracePeriods {
                bytes_seconds: seconds(*bytes, before.bytes_seconds),
                inodes_seconds: seconds(*inodes, before.inodes_seconds),
            };
            let change =
                QuotaChange { kind, id: None, bytes: None, inodes: None, reset: false, grace: Some(grace) };
            let set = set(of, &change)?.grace;
            print_either(of.json, &as_json(&set), || {
                let time = |seconds| crate::report::duration(Duration::from_secs(seconds));
                format!("bytes   {}\ninodes  {}\n", time(set.bytes_seconds), time(set.inodes_seconds))
            });
        }
    }
    Ok(())
}

/// Returns the path of a volume's quotas in the interface of the server.
fn resource(name: &str) -> String {
    format!("/v1/volumes/{}/quotas", admin::escaped(name))
}

/// Does something with a volume of a data directory that no server has open.
fn with_volume<T>(of: &InVolume, act: impl FnOnce(&Volume) -> Result<T, Error>) -> Result<T, Error> {
    offline(Unserved::at(&of.data)?, |pools| act(&volumes::find(pools, &of.name)?))
}

fn set(of: &InVolume, change: &QuotaChange) -> Result<QuotaInfo, Error> {
    if admin::is_served(&of.data) {
        return admin::ask(&of.data, "PATCH", &resource(&of.name), Some(change));
    }
    with_volume(of, |volume| {
        quotas::set_quota(volume, change)?;
        quotas::quota(volume, change.kind, change.id)
    })
}

fn find(of: &InVolume, kind: QuotaKind, id: Option<u64>) -> Result<QuotaInfo, Error> {
    if !admin::is_served(&of.data) {
        return with_volume(of, |volume| quotas::quota(volume, kind, id));
    }
    let id = id.map_or_else(String::new, |id| format!("&id={id}"));
    let target = format!("{}?kind={}&limit=1{id}", resource(&of.name), kind.name());
    // Without a number, the first page begins with the quota of all others.
    let list: QuotaList = admin::get(&of.data, &target)?;
    list.quotas.into_iter().next().ok_or_else(|| Error::failed("the server shows no such quota"))
}

fn show(of: &InVolume, quota: &QuotaInfo) -> Result<(), Error> {
    let tree = quota.id.filter(|_| quota.kind == QuotaKind::Tree && !of.json);
    let shown = tree.map(|id| tree::list(&of.data, &of.name, Which::Id(id))).transpose()?;
    let paths = paths(shown.map_or_else(Vec::new, |list| list.trees));
    print_either(of.json, &as_json(quota), || rows(quota, &paths));
    Ok(())
}

/// Returns the paths of quota trees by their numbers.
fn paths(trees: Vec<TreeInfo>) -> BTreeMap<u64, String> {
    trees.into_iter().filter_map(|tree| Some((tree.id, tree.path?))).collect()
}

/// Lists all quotas of a kind.
fn report(of: &InVolume, kind: QuotaKind) -> Result<(), Error> {
    let is_of_trees = kind == QuotaKind::Tree;
    let (listed, trees) = if admin::is_served(&of.data) {
        let listed = list_all(&of.data, &of.name, kind)?;
        (listed, if is_of_trees { tree::list_all(&of.data, &of.name)? } else { Vec::new() })
    } else {
        with_volume(of, |volume| {
            let listed = all_pages(|from| {
                let QuotaList { quotas, next } = quotas::quotas(volume, kind, from, PAGE)?;
                Ok((quotas, next))
            })?;
            let all = Which::From(0);
            Ok((listed, if is_of_trees { trees::list(volume, all, usize::MAX)?.trees } else { Vec::new() }))
        })?
    };
    let paths = paths(trees);
    print_either(of.json, &as_json(&listed), || page(&listed, &paths));
    Ok(())
}

/// Lists all quotas of a kind, as the server has them.
pub(super) fn list_all(data: &Path, volume: &str, kind: QuotaKind) -> Result<Vec<QuotaInfo>, Error> {
    all_pages(|from| {
        let from = from.map_or_else(String::new, |from| format!("&from={from}"));
        let target = format!("{}?kind={}&limit={PAGE}{from}", resource(volume), kind.name());
        let QuotaList { quotas, next } = admin::get(data, &target)?;
        Ok((quotas, next))
    })
}
