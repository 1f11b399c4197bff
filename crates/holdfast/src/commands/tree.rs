//! `holdfast tree`: makes directories quota trees, which `holdfast quota` limits. If a server runs on the data directory, the
//! command asks it; otherwise it opens the data directory itself.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use server::admin;
use server::admin::api::types::{Done, NewTree, TreeInfo, TreeList, TreeState};
use server::error::Error;
use server::volumes::trees::Which;
use server::volumes::{self, Unserved, trees};

use super::named::{InVolume, all_pages, with_warnings};
use super::volume::offline;
use crate::report::{Align, Outcome, as_json, columns, print_either};

/// Interval between looks at a tree that is being made.
const PAUSE: Duration = Duration::from_millis(200);

const CREATE_EXAMPLES: &str = "Objects created in the directory from then on count towards the tree. Existing ones are moved into it in the \
background, even across a restart of the server; the command waits for this. Files cannot be renamed or linked \
into or out of a tree: `mv` copies them.

Examples:
  holdfast tree create /srv/holdfast home /projects/atlas
  holdfast quota set /srv/holdfast home --tree /projects/atlas --bytes 2TiB";

#[derive(Debug, Args)]
pub(crate) struct Tree {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a directory a quota tree
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        #[command(flatten)]
        of: InVolume,
        /// The directory: its path in the volume
        #[arg(value_name = "PATH")]
        path: String,
        /// Do not wait until existing objects have been moved into the tree
        #[arg(long)]
        no_wait: bool,
    },
    /// List the quota trees of a volume
    List {
        #[command(flatten)]
        of: InVolume,
    },
    /// Delete a quota tree and its limits; its directory stays, with what is in it
    ///
    /// Its limits end at once. Objects are moved out of it in the background; the command waits for this.
    Delete {
        #[command(flatten)]
        of: InVolume,
        /// The path of its directory in the volume, or its number
        #[arg(value_name = "TREE")]
        tree: String,
        /// Do not wait until the objects have been moved out of the tree
        #[arg(long)]
        no_wait: bool,
    },
}

pub(crate) fn run(tree: &Tree) -> Outcome {
    with_warnings(|| act(&tree.action)).map(|()| ExitCode::SUCCESS)
}

fn act(action: &Action) -> Result<(), Error> {
    match action {
        Action::Create { of, path, no_wait } => {
            let mut made = create(of, &NewTree { path: path.clone() })?;
            while made.state == TreeState::Creating && !no_wait {
                thread::sleep(PAUSE);
                let listed = list(&of.data, &of.name, Which::Id(made.id))?.trees.pop();
                made = listed
                    .ok_or_else(|| Error::failed(format!("the tree {path:?} was removed meanwhile")))?;
            }
            if let Some(reason) = &made.reason {
                return Err(Error::failed(format!("{path:?} cannot be a quota tree: {reason}")));
            }
            print_either(of.json, &as_json(&made), || table(std::slice::from_ref(&made)));
        }
        Action::List { of } => {
            let trees = list_all(&of.data, &of.name)?;
            print_either(of.json, &as_json(&trees), || table(&trees));
        }
        Action::Delete { of, tree, no_wait } => {
            let id = number_of(&of.data, &of.name, tree)?;
            delete(of, id)?;
            let is_listed = || list(&of.data, &of.name, Which::Id(id)).map(|found| !found.trees.is_empty());
            let mut is_going_on = is_listed()?;
            while is_going_on && !no_wait {
                thread::sleep(PAUSE);
                is_going_on = is_listed()?;
            }
            print_either(of.json, &as_json(&Done {}), || match is_going_on {
                true => format!("quota tree {id} is being deleted: objects are moved out of it\n"),
                false => format!("quota tree {id} deleted\n"),
            });
        }
    }
    Ok(())
}

/// Returns the path of a volume's trees in the interface of the server.
fn resource(name: &str) -> String {
    format!("/v1/volumes/{}/trees", admin::escaped(name))
}

fn create(of: &InVolume, new: &NewTree) -> Result<TreeInfo, Error> {
    if admin::is_served(&of.data) {
        return admin::ask(&of.data, "POST", &resource(&of.name), Some(new));
    }
    offline(Unserved::at(&of.data)?, |pools| {
        let volume = volumes::find(pools, &of.name)?;
        let (id, _) = trees::create(&volume, new)?;
        trees::finish(&volume)?;
        trees::one(&volume, id)?.ok_or_else(|| Error::failed("the tree is not listed"))
    })
}

fn delete(of: &InVolume, id: u64) -> Result<(), Error> {
    if admin::is_served(&of.data) {
        let target = format!("{}?id={id}", resource(&of.name));
        return admin::ask(&of.data, "DELETE", &target, None::<&Done>).map(|Done {}| ());
    }
    offline(Unserved::at(&of.data)?, |pools| {
        let volume = volumes::find(pools, &of.name)?;
        trees::delete(&volume, id)?;
        trees::finish(&volume)
    })
}

/// Lists all trees of a volume.
pub(super) fn list_all(data: &Path, name: &str) -> Result<Vec<TreeInfo>, Error> {
    all_pages(|from| {
        let TreeList { trees, next } = list(data, name, Which::From(from.unwrap_or(0)))?;
        Ok((trees, next))
    })
}

/// Lists trees of a volume: a page of them if a server is asked.
pub(super) fn list(data: &Path, name: &str, which: Which<'_>) -> Result<TreeList, Error> {
    if !admin::is_served(data) {
        return offline(Unserved::at(data)?, |pools| {
            trees::list(&volumes::find(pools, name)?, which, usize::MAX)
        });
    }
    let query = match which {
        Which::From(from) => format!("?from={from}"),
        Which::Id(id) => format!("?id={id}"),
        Which::Path(path) => format!("?path={}", admin::escaped(path)),
    };
    admin::get(data, &format!("{}{query}", resource(name)))
}

/// Returns the number of a tree that is named by it, or by the path of its directory.
pub(super) fn number_of(data: &Path, volume: &str, tree: &str) -> Result<u64, Error> {
    if let Ok(number) = tree.parse() {
        return Ok(number);
    }
    let found = list(data, volume, Which::Path(tree))?.trees.pop();
    let none = || {
        Error::failed(format!("the volume {volume:?} has no quota tree {tree:?}: see `holdfast tree list`"))
    };
    found.map(|tree| tree.id).ok_or_else(none)
}

/// Writes a line for each tree.
fn table(trees: &[TreeInfo]) -> String {
    let line = |TreeInfo { id, path, state, reason }: &TreeInfo| {
        let path = path.as_deref().unwrap_or("(unknown path)");
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        [id.to_string(), state.name().to_owned(), format!("{path}{reason}")]
    };
    columns([Align::Right, Align::Left, Align::Left], &trees.iter().map(line).collect::<Vec<_>>())
}
