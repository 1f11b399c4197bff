//! `holdfast pool copy`: copies a pool to another data directory or a Ceph cluster.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use server::config::size::Size;
use server::pools::copy::{Target, ready};
use server::pools::{PoolInfo, describe};
use volume::copy::{Source, Stage};

use crate::commands::named::Named;
use crate::commands::serve::stop_flag;
use crate::report::{Outcome, as_json, count, print_either, table};

/// Exit code after a signal, the one that shells report for SIGINT.
const INTERRUPTED: u8 = 130;

/// How often the line of progress changes on a terminal.
const REFRESH: Duration = Duration::from_millis(200);

pub(super) const EXAMPLES: &str = "No server may use either place. The pool is checked with all its data, copied, and compared; only then does the copy \
exist. If the command ends before, what it left is removed when TARGET is used next, and it can be repeated. The source is not \
changed.

The copy is the same pool: file handles, quotas and the state of clients stay valid in it. Serve only one of the two, and delete the \
other with `holdfast pool delete`. Tokens, rate limits and exports are not in the pool.

Examples:
  holdfast pool copy /srv/holdfast default rados:holdfast@nfs
  holdfast pool copy rados:holdfast@nfs default /srv/other --name moved
  holdfast pool copy /srv/holdfast default /srv/new --path /mnt/disks --journal /mnt/nvme

Exit codes: 0 copied; 1 the copy failed, or the pool has faults; 2 the command line is wrong; 3 one of the places is in use; \
130 interrupted.";

#[derive(Debug, Args)]
pub(super) struct Copy {
    #[command(flatten)]
    pool: Named,
    /// The data directory, or the namespace of a Ceph cluster, to copy it to; created if there is nothing
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Name of the copy [default: that of the pool]
    #[arg(long = "name", value_name = "NEW_NAME", id = "new_name")]
    new_name: Option<String>,
    /// Existing directory on another device in which to create the copy's directory [default: in the data directory]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Directory for the copy's journal, best on a device of its own [default: with the pool]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

pub(super) fn run(copy: &Copy) -> Outcome {
    let Named { data, name, json } = &copy.pool;
    let (path, journal) = (copy.path.as_deref(), copy.journal.as_deref());
    let target = Target { root: &copy.target, name: copy.new_name.as_ref().unwrap_or(name), path, journal };
    let mut line = Line::new();
    line.show(&format!("checking the pool {name}"));
    let ready = ready(data, name, target);
    line.clear();
    let ready = ready?;
    let source = ready.source();
    let mut notice = Some(format!(
        "holdfast: copying the pool {name} to {}: {} in {}",
        copy.target.display(),
        Size(source.bytes().total()),
        count(source.segments() as u64, "segment")
    ));
    // Until here, nothing was changed, and a signal ends the command at once.
    let interrupted = stop_flag()?;
    let copied = ready.run(&mut |stage, done| {
        if let Some(notice) = notice.take() {
            eprintln!("{notice}");
        }
        line.progress(stage, done, source.bytes().total());
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    line.clear();
    match copied {
        Err(error) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("holdfast: {error}");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        copied => copied?,
    }
    let volumes = Some(source.volumes().to_vec());
    let pool = PoolInfo { volumes, ..describe(&copy.target, target.name)? };
    print_either(*json, &json!({ "pool": as_json(&pool), "copied": in_json(source) }), || {
        in_text(&pool, source)
    });
    Ok(ExitCode::SUCCESS)
}

fn in_json(source: &Source) -> serde_json::Value {
    let (bytes, summary) = (source.bytes(), source.summary());
    json!({
        "bytes": bytes.total(),
        "index_bytes": bytes.index,
        "journal_bytes": bytes.journal,
        "segment_bytes": bytes.segments,
        "segments": source.segments(),
        "volumes": source.volumes().len(),
        "inodes": summary.inodes,
        "files": summary.files,
        "used_bytes": summary.used_bytes,
    })
}

fn in_text(pool: &PoolInfo, source: &Source) -> String {
    let summary = source.summary();
    table(&[
        ("name", pool.name.clone()),
        ("id", pool.id.clone()),
        ("path", pool.path.clone()),
        ("copied", format!("{}, read again and compared", Size(source.bytes().total()))),
        ("volumes", source.volumes().join(", ")),
        ("objects", format!("{} in all, {}", summary.inodes, count(summary.files, "file"))),
        ("file data", Size(summary.used_bytes).to_string()),
    ])
}

/// A line of progress, on terminals only.
struct Line {
    is_terminal: bool,
    shown: Option<Instant>,
}

impl Line {
    fn new() -> Line {
        Line { is_terminal: stderr().is_terminal(), shown: None }
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        if self.shown.is_none_or(|shown| shown.elapsed() >= REFRESH) {
            let stage = match stage {
                Stage::Copy => "copying",
                Stage::Compare => "comparing",
            };
            self.show(&format!("{stage} {} of {}, {} %", Size(done), Size(total), percent(done, total)));
        }
    }

    fn show(&mut self, text: &str) {
        if self.is_terminal {
            self.shown = Some(Instant::now());
            // Best effort: the copy goes on without the line.
            let _ = write!(stderr(), "\r\x1b[K{text}");
        }
    }

    fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Returns a share, rounded down: 100 is the end.
fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100).checked_div(total).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_a_hundred_percent() {
        assert_eq!(
            [(0, 3), (2, 3), (999, 1000), (3, 3)].map(|(done, total)| percent(done, total)),
            [0, 66, 99, 100]
        );
    }
}
