//! `holdfast pool`: creates, lists, shows, copies and deletes pools. If a server runs on the data directory, the command asks it what
//! its pools hold; pools are created, copied and deleted only while none runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::admin;
use server::admin::api::types::{NewVolume, PoolInfo, VolumeInfo};
use server::config::size::Size;
use server::config::{JOURNAL_BYTES_DEFAULT, values};
use server::data::{self, Data};
use server::error::{Error, ErrorKind};
use server::names;
use server::pools::{self, creation_notice};
use server::volumes::{self, Unserved};

use super::named::{All, Deleted, Named, with_warnings};
use crate::report::{Align, Outcome, as_json, columns, count, print_either, table};

mod copy;

const CREATE_EXAMPLES: &str = "A pool has a journal, an index and data files of its own, so that pools on different devices do not wait for each \
other. It begins with one volume; `holdfast volume create --pool` makes others.

Example:
  holdfast pool create /srv/holdfast fast --volume scratch --path /mnt/nvme";

/// Most volumes that text names for a pool; JSON has all.
const VOLUMES_SHOWN_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Pool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a pool; no server may be running on the data directory
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        #[command(flatten)]
        pool: Named,
        /// Name of its first volume [default: that of the pool]
        #[arg(long, value_name = "VOLUME")]
        volume: Option<String>,
        /// Existing directory on another device in which to create the pool's directory [default: in the data directory]
        #[arg(long, value_name = "DIR")]
        path: Option<PathBuf>,
        /// Directory for its journal, best on a device of its own [default: with the pool]
        #[arg(long, value_name = "DIR")]
        journal: Option<PathBuf>,
        /// Size of its journal, such as "64 MiB", rounded up to a multiple of 16 MiB; the pool takes up to about three
        /// times as much [default: 512 MiB]
        #[arg(long, value_name = "SIZE", value_parser = values::journal_size)]
        journal_size: Option<Size>,
    },
    /// List the pools
    List(All),
    /// Show a pool
    Show(Named),
    /// Copy a pool to another data directory or a Ceph cluster, and verify the copy; no server may be running on either
    #[command(after_help = copy::EXAMPLES)]
    Copy(copy::Copy),
    /// Delete a pool; no server may be running on the data directory
    Delete {
        #[command(flatten)]
        pool: Deleted,
        /// Delete it even if it has volumes, with all their data, or if it is missing or cannot be opened
        #[arg(long)]
        with_volumes: bool,
    },
}

pub(crate) fn run(pool: &Pool) -> Outcome {
    with_warnings(|| act(&pool.action))
}

fn act(action: &Action) -> Outcome {
    match action {
        Action::Create { pool: Named { data, name, json }, volume, path, journal, journal_size } => {
            check_unserved(data)?;
            let volume = volume.as_ref().unwrap_or(name);
            let bytes =
                journal_size.map_or_else(|| data::journal_bytes(data, JOURNAL_BYTES_DEFAULT), |size| size.0);
            let new = NewVolume { name: volume.clone(), ..NewVolume::default() };
            let first = volumes::options(&new)?;
            let places = (path.as_deref(), journal.as_deref());
            if !data.exists() {
                // It is not made for a pool that is refused.
                pools::check_new(data, name, places, bytes)?;
            }
            let unserved = Unserved::open(Data::open_or_create(data)?)?;
            let free = volumes::check_free(unserved.pools(), volume);
            let directory = unserved.close()?;
            // After what an interrupted creation left there was removed.
            pools::check_new(directory.root(), name, places, bytes)?;
            free?;
            eprintln!("holdfast: {}", creation_notice(&directory, name, places, bytes));
            pools::create(&directory, name, places, bytes, first)?;
            let volumes = Some(vec![volume.clone()]);
            show(&PoolInfo { volumes, ..pools::describe(data, name)? }, *json);
        }
        Action::List(All { data, json }) => {
            let (pools, faults) = list(data)?;
            print_either(*json, &as_json(&pools), || lines(&pools));
            return all_of(faults).map_or(Ok(ExitCode::SUCCESS), Err);
        }
        Action::Show(Named { data, name, json }) => show(&find(data, name)?, *json),
        Action::Copy(arguments) => return copy::run(arguments),
        Action::Delete { pool, with_volumes } => delete(pool, *with_volumes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes a pool; one with volumes only if that was confirmed.
fn delete(pool: &Deleted, with_volumes: bool) -> Result<(), Error> {
    let Named { data, name, .. } = &pool.named;
    check_unserved(data)?;
    let directory = Data::open(data)?;
    if with_volumes && directory.is_missing(name) {
        return delete_missing(pool, &directory);
    }
    // One that does not exist or is missing is not one that cannot be opened.
    pools::describe(data, name).map(drop).or_else(|error| match error.kind {
        ErrorKind::NotFound | ErrorKind::Usage => Err(error),
        _ => Ok(()),
    })?;
    let volumes = volumes::in_pool(&directory, name);
    let holds = match &volumes {
        Ok(volumes) if volumes.is_empty() => "its journal; it has no volumes".to_owned(),
        Ok(volumes) => {
            let its = if volumes.len() == 1 { "its volume" } else { "its volumes" };
            let volumes: Vec<String> = volumes.iter().map(contents).collect();
            format!("{its} {}", names::list(&volumes, VOLUMES_SHOWN_MAX))
        }
        Err(error) => format!("all its volumes, which cannot be listed ({error})"),
    };
    if !with_volumes && !matches!(&volumes, Ok(volumes) if volumes.is_empty()) {
        let kind = volumes.as_ref().err().map_or(ErrorKind::Usage, |error| error.kind);
        let first = if volumes.is_ok() { "delete the volumes first, or " } else { "" };
        let sentence =
            format!("deleting the pool {name:?} destroys {holds}; {first}confirm with --with-volumes --yes");
        return Err(Error { kind, sentence });
    }
    pool.run("pool", || Ok(holds), || directory.delete(name))
}

/// Deletes a pool whose files are missing, so that its volumes cannot be listed.
fn delete_missing(pool: &Deleted, directory: &Data) -> Result<(), Error> {
    let holds = "all its volumes, which cannot be listed since it is missing; its files stay where they are, and the \
                 configuration must not export its volumes any more";
    pool.run("pool", || Ok(holds.to_owned()), || directory.delete_missing(&pool.named.name))
}

/// Describes a volume by its name and what it holds.
fn contents(volume: &VolumeInfo) -> String {
    format!("{} ({} in {})", volume.name, Size(volume.used_bytes), count(volume.inodes, "object"))
}

/// Refuses to create or delete a pool while a server has the others open.
fn check_unserved(data: &Path) -> Result<(), Error> {
    if !admin::is_served(data) {
        return Ok(());
    }
    Err(Error {
        kind: ErrorKind::InUse,
        sentence: format!(
            "a server runs on {}, and divides its memory and threads among the pools when it starts: stop it to create or \
             delete a pool; only volumes can be created and deleted while it runs",
            data.display()
        ),
    })
}

/// Returns the pools, and why others cannot be examined.
fn list(data: &Path) -> Result<(Vec<PoolInfo>, Vec<Error>), Error> {
    if admin::is_served(data) {
        return Ok((admin::get(data, "/v1/pools")?, Vec::new()));
    }
    let (mut pools, mut faults) = (Vec::new(), Vec::new());
    for examined in pools::list(data)? {
        match examined {
            Ok(pool) => pools.push(pool),
            Err(error) => faults.push(error),
        }
    }
    Ok((pools, faults))
}

/// Returns one error for all, if there are any.
fn all_of(faults: Vec<Error>) -> Option<Error> {
    let kind = faults.first()?.kind;
    let sentences: Vec<String> = faults.into_iter().map(|error| error.sentence).collect();
    Some(Error { kind, sentence: sentences.join("\n") })
}

fn find(data: &Path, name: &str) -> Result<PoolInfo, Error> {
    if admin::is_served(data) {
        return admin::get(data, &format!("/v1/pools/{}", admin::escaped(name)));
    }
    pools::read(data, name)
}

/// Shows each pool in a line, in columns.
fn lines(pools: &[PoolInfo]) -> String {
    let line = |pool: &PoolInfo| {
        [pool.name.clone(), pool.id.clone(), state(pool), format!("volumes {}", volume_names(pool))]
    };
    columns([Align::Left; 4], &pools.iter().map(line).collect::<Vec<_>>())
}

/// Names the volumes of a pool, at most [`VOLUMES_SHOWN_MAX`] of them.
fn volume_names(pool: &PoolInfo) -> String {
    match pool.volumes.as_deref() {
        None => "unknown".to_owned(),
        Some([]) => "none".to_owned(),
        Some(volumes) => names::list(volumes, VOLUMES_SHOWN_MAX),
    }
}

fn show(pool: &PoolInfo, json: bool) {
    print_either(json, &as_json(pool), || {
        table(&[
            ("name", pool.name.clone()),
            ("id", pool.id.clone()),
            ("path", pool.path.clone()),
            ("journal", format!("{} ({})", pool.journal, Size(pool.journal_bytes))),
            ("index", Size(pool.index_bytes).to_string()),
            ("segments", format!("{} ({})", pool.segments, Size(pool.segment_bytes))),
            ("state", state(pool)),
            ("volumes", volume_names(pool)),
        ])
    });
}

fn state(pool: &PoolInfo) -> String {
    match pool.in_use_by {
        Some(0) => "in use".to_owned(),
        Some(pid) => format!("in use by process {pid}"),
        None => "not in use".to_owned(),
    }
}
