//! `holdfast volume`: creates, lists, shows, changes and deletes volumes. If a server runs on the data directory, the command
//! asks it; otherwise it opens the data directory itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::admin;
use server::admin::api::types::{Done, NewVolume, VolumeChange, VolumeInfo};
use server::config::size::Size;
use server::config::{JOURNAL_BYTES_DEFAULT, values};
use server::data::{self, Data};
use server::error::Error;
use server::pools::{self, FIRST_POOL, creation_notice};
use server::volumes::{self, Unserved};

use super::named::{All, Deleted, Named, with_warnings};
use crate::report::{Align, Outcome, as_json, columns, count, print_either, table};

use root::RootArgs;

mod root;

const CREATE_EXAMPLES: &str = "The root directory of a new volume belongs to the user that runs the server, with mode 0755, unless --owner and \
--mode say otherwise.

Examples:
  holdfast volume create /srv/holdfast home --owner root:root --mode 0755
  holdfast volume create /srv/holdfast scratch --mode 1777 --size \"10 GiB\"";

const SET_EXAMPLES: &str = "Examples:
  holdfast volume set /srv/holdfast main --mode 1777
  holdfast volume set /srv/holdfast main --owner 1000:1000 --mode 0770";

#[derive(Debug, Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a volume
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        #[command(flatten)]
        volume: Named,
        /// The pool to create it in [default: the pool default, or the only one]
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
        /// Most bytes that its files may use, such as "10 GiB" [default: as many as the pool has]
        #[arg(long, value_name = "SIZE")]
        size: Option<Size>,
        #[command(flatten)]
        root: RootArgs,
        #[command(flatten)]
        first: FirstPool,
    },
    /// List the volumes
    List(All),
    /// Show a volume
    Show(Named),
    /// Change the owner and the mode of a volume's root directory
    #[command(after_help = SET_EXAMPLES)]
    Set {
        #[command(flatten)]
        volume: Named,
        #[command(flatten)]
        root: RootArgs,
    },
    /// Limit the bytes that the files of a volume may use; if they already use more, they cannot grow
    Resize {
        #[command(flatten)]
        volume: Named,
        /// The size, such as "10 GiB"; 0 for as much as the pool has
        size: Size,
    },
    /// Rename a volume; clients keep it mounted
    Rename {
        #[command(flatten)]
        volume: Named,
        /// Its new name
        #[arg(value_name = "NEW")]
        new: String,
    },
    /// Delete a volume with all its data
    Delete(Deleted),
}

/// The journal of the pool `default`, if there is no pool yet.
#[derive(Debug, Args)]
struct FirstPool {
    /// In a new data directory: directory for the journal of the first pool, best on a device of its own [default: in the data
    /// directory]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// In a new data directory: size of the first pool's journal, such as "64 MiB", rounded up to a multiple of 16 MiB; the
    /// pool takes up to about three times as much [default: 512 MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::journal_size)]
    journal_size: Option<Size>,
}

pub(crate) fn run(volume: &Volume) -> Outcome {
    with_warnings(|| act(&volume.action)).map(|()| ExitCode::SUCCESS)
}

fn act(action: &Action) -> Result<(), Error> {
    match action {
        Action::Create { volume, pool, size, root, first } => {
            let new = NewVolume {
                name: volume.name.clone(),
                pool: pool.clone(),
                size_bytes: size.map(|size| size.0),
                root: root.root()?,
            };
            let created = create(&volume.data, &new, first)?;
            show(&created, volume.json);
            if created.exports.is_empty() && admin::is_served(&volume.data) {
                eprintln!(
                    "holdfast: clients cannot mount it yet: add an [[export]] with volume = {:?} to the configuration, and \
                     reload the exports by sending SIGHUP to the server",
                    created.name
                );
            }
        }
        Action::List(All { data, json }) => show_list(data, *json)?,
        Action::Show(Named { data, name, json }) => show(&find(data, name)?, *json),
        Action::Set { volume, root } => {
            if root.is_empty() {
                return Err(Error::usage("nothing to change: give --owner or --mode"));
            }
            let change = VolumeChange { root: root.root()?, ..VolumeChange::default() };
            show(&self::change(volume, &change)?, volume.json);
        }
        Action::Resize { volume, size } => {
            let change = VolumeChange { size_bytes: Some(Some(size.0)), ..VolumeChange::default() };
            show(&self::change(volume, &change)?, volume.json);
        }
        Action::Rename { volume, new } => {
            let change = VolumeChange { name: Some(new.clone()), ..VolumeChange::default() };
            show(&self::change(volume, &change)?, volume.json);
        }
        Action::Delete(volume) => delete(volume)?,
    }
    Ok(())
}

/// Returns the path of a volume in the interface of the server.
fn resource(name: &str) -> String {
    format!("/v1/volumes/{}", admin::escaped(name))
}

/// Opens the pools of a data directory that no server has open, and closes them after `act`.
pub(super) fn offline<T>(
    unserved: Unserved,
    act: impl FnOnce(&[pools::OpenPool]) -> Result<T, Error>,
) -> Result<T, Error> {
    let done = act(unserved.pools());
    let closed = unserved.close();
    done.and_then(|done| closed.map(|_| done))
}

fn create(data: &Path, new: &NewVolume, first: &FirstPool) -> Result<VolumeInfo, Error> {
    let is_journal_given = first.journal.is_some() || first.journal_size.is_some();
    let has_pool = || {
        Error::usage(
            "the data directory has a pool already, whose journal was chosen when it was created: omit --journal and --journal-size, or create another pool with `holdfast pool create`",
        )
    };
    if admin::is_served(data) {
        if is_journal_given {
            return Err(has_pool());
        }
        return admin::ask(data, "POST", "/v1/volumes", Some(new));
    }
    // Nothing is made for a volume that is refused.
    let options = volumes::options(new)?;
    if !data::list_or_none(data)?.is_empty() {
        if is_journal_given {
            return Err(has_pool());
        }
        return offline(Unserved::at(data)?, |pools| {
            let (volume, _) = volumes::create(pools, new)?;
            volumes::describe(pools, &volume, Vec::new())
        });
    }
    let pool = new.pool.as_deref().unwrap_or(FIRST_POOL);
    let (journal, bytes) = (
        first.journal.as_deref(),
        first.journal_size.map_or_else(|| data::journal_bytes(data, JOURNAL_BYTES_DEFAULT), |size| size.0),
    );
    pools::check_new(data, pool, (None, journal), bytes)?;
    let directory = Data::open_or_create(data)?;
    eprintln!("holdfast: {}", creation_notice(&directory, pool, (None, journal), bytes));
    pools::create(&directory, pool, (None, journal), bytes, options)?;
    offline(Unserved::open(directory)?, |pools| describe(pools, &new.name))
}

fn describe(pools: &[pools::OpenPool], name: &str) -> Result<VolumeInfo, Error> {
    volumes::describe(pools, &volumes::find(pools, name)?, Vec::new())
}

fn find(data: &Path, name: &str) -> Result<VolumeInfo, Error> {
    if admin::is_served(data) {
        return admin::get(data, &resource(name));
    }
    offline(Unserved::at(data)?, |pools| describe(pools, name))
}

fn change(volume: &Named, change: &VolumeChange) -> Result<VolumeInfo, Error> {
    let Named { data, name, .. } = volume;
    if admin::is_served(data) {
        return admin::ask(data, "PATCH", &resource(name), Some(change));
    }
    offline(Unserved::at(data)?, |pools| {
        let volume = volumes::find(pools, name)?;
        volumes::change(pools, &volume, change)?;
        volumes::describe(pools, &volume, Vec::new())
    })
}

fn delete(volume: &Deleted) -> Result<(), Error> {
    let Named { data, name, .. } = &volume.named;
    let holds = || {
        let found = find(data, name)?;
        Ok(format!("all its data ({} in {})", Size(found.used_bytes), count(found.inodes, "object")))
    };
    volume.run("volume", holds, || {
        if admin::is_served(data) {
            let _: Done = admin::ask(data, "DELETE", &resource(name), None::<&Done>)?;
            return Ok(());
        }
        offline(Unserved::at(data)?, |pools| {
            let volume = volumes::find(pools, name)?;
            volumes::check_deletable(&volume)?;
            volumes::delete(&volume).map(drop)
        })
    })
}

fn list(data: &Path) -> Result<Vec<VolumeInfo>, Error> {
    if admin::is_served(data) {
        return admin::get(data, "/v1/volumes");
    }
    offline(Unserved::at(data)?, volumes::list)
}

fn show_list(data: &Path, json: bool) -> Result<(), Error> {
    let volumes = list(data)?;
    print_either(json, &as_json(&volumes), || {
        let line = |VolumeInfo { name, pool, used_bytes, size_bytes, exports, .. }: &VolumeInfo| {
            let size = size_bytes.map_or_else(String::new, |size| format!("of {}", Size(size)));
            [name.clone(), Size(*used_bytes).to_string(), size, format!("pool {pool}"), exports.join(" ")]
        };
        let aligns = [Align::Left, Align::Right, Align::Left, Align::Left, Align::Left];
        columns(aligns, &volumes.iter().map(line).collect::<Vec<_>>())
    });
    Ok(())
}

/// Says how many mappings a volume has, and how many it may have.
fn mappings(volume: &VolumeInfo) -> String {
    let most = volume.mappings_max.map(|most| format!(" of at most {most}")).unwrap_or_default();
    format!("{}{most}", volume.mappings)
}

fn show(volume: &VolumeInfo, json: bool) {
    print_either(json, &as_json(volume), || {
        let root = volume.root;
        let number = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
        let mode = root.mode.map_or_else(String::new, |mode| format!("{mode:04o}"));
        table(&[
            ("name", volume.name.clone()),
            ("id", volume.id.clone()),
            ("pool", volume.pool.clone()),
            (
                "size",
                volume
                    .size_bytes
                    .map_or_else(|| "that of the pool".to_owned(), |size| Size(size).to_string()),
            ),
            ("used", format!("{} in {}", Size(volume.used_bytes), count(volume.inodes, "object"))),
            ("free", Size(volume.free_bytes).to_string()),
            ("mappings", mappings(volume)),
            ("root", format!("belongs to {}:{}, mode {mode}", number(root.uid), number(root.gid))),
            (
                "exports",
                if volume.exports.is_empty() { "none".to_owned() } else { volume.exports.join(", ") },
            ),
        ])
    });
}
