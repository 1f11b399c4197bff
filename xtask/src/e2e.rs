//! A real Linux client against the release binary: guests of User-Mode-Linux and the server share a network namespace
//! that has no way out. `e2e/guest` starts a guest; `e2e/scenarios` holds what runs inside.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::process::{self, root, target_directory};
use crate::report::{Report, usage};

mod asked;
mod bench;
mod copies;
mod delegations;
mod full_names;
mod kill;
mod lab;
mod libnfs;
mod needs;
pub(crate) mod nfs;
mod probe;
mod remove;
mod scenarios;
mod witness;

use lab::{Lab, Peer, Version};

/// What `cargo xtask help e2e` prints.
pub(crate) const HELP: &str = "\
cargo xtask e2e [OPTION...] [SCENARIO...]: a real Linux client against the release binary; all scenarios by default.

  source-tree   unpack a Linux source tree, build tools from it, compare checksums after a remount
  git           clone, fsck, commit, gc, and fsck again after a remount
  sqlite        two writers and a reader, both journal modes, PRAGMA integrity_check
  pjdfstest     the POSIX suite as root; expected failures are listed in e2e/pjdfstest.expected
  fsx           the file system exerciser, through the page cache and around it
  two-guests    two machines in one directory
  locks         locks contended between two guests, with the server killed, and of a guest that dies
  mixed         the same between a guest with NFSv3 and one with the version that is tried
  mount         what mount(8) makes of no options at all, and of eight connections
  extents       clones, copies by the server, holes, room asked for, and extended attributes (NFSv4.2)
  copies        copies by the server that take longer than a reply, and the server killed meanwhile (NFSv4.2)
  delegations   granted, recalled, revoked from a guest that is cut off or dies; open files that lose their names
  libnfs        the tools of libnfs, which are another client than Linux's
  full-disk     ENOSPC, removing, and space that comes back
  full-names    the same with names alone: creating, removing and restarting on the full disk
  remove        long files and many files are removed beside another client, whose latencies are printed; kill -9 meanwhile
  bench         `holdfast bench` against nfs-ganesha, and the two compared: no operation may fail
  kill          kill -9 again and again under two guests and libnfs; everything acknowledged is there

  --nfs VERSION      mount with 3, 4.0, 4.1 or 4.2 only; by default each scenario with the versions that CI gives it
  --server ganesha   try the scenarios themselves against nfs-ganesha (those that kill, fill or check are skipped)
  --rounds N         rounds of `kill`, 10 by default
  --minutes N        minutes of `fsx`; a short run by default
  --long             of `remove`: 6 GiB and a million files instead of 256 MiB and 10,000
  --seed N           repeat what was random
  --keep             leave the data under the target directory for a look; that of a failure always stays

Needs root and, of Debian: user-mode-linux iproute2 nfs-common kmod perl libnfs-utils sqlite3 git gcc libc6-dev
make e2fsprogs xz-utils linux-source-6.1 nfs-ganesha nfs-ganesha-vfs rpcbind; and these crates: pjdfstest 0.2.2 and fsx 0.3.2 (`cargo install --locked`).
Says what is missing and installs nothing. Ends with `N passed, N failed`.
";

/// Set for the process that runs inside the namespace, to its name.
const INSIDE: &str = "HOLDFAST_E2E_NAMESPACE";

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    peer: Peer,
    version: Option<Version>,
    rounds: usize,
    minutes: Option<u64>,
    long: bool,
    seed: u64,
    keep: bool,
    names: Vec<String>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Option<Options> {
        let mut options = Options {
            peer: Peer::Holdfast,
            version: None,
            rounds: 10,
            minutes: None,
            long: false,
            seed: fastrand::u64(..),
            keep: false,
            names: Vec::new(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match *word {
                "--server" => options.peer = Peer::parse(words.next()?)?,
                "--nfs" => options.version = Some(Version::parse(words.next()?)?),
                "--rounds" => options.rounds = words.next()?.parse().ok()?,
                "--minutes" => options.minutes = Some(words.next()?.parse().ok()?),
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--long" => options.long = true,
                "--keep" => options.keep = true,
                name if scenarios::find(name).is_some() => options.names.push(name.to_owned()),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// `cargo xtask e2e`.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    let Some(options) = Options::parse(arguments) else { return usage(HELP) };
    if let Ok(namespace) = std::env::var(INSIDE) {
        return inside(&options, &namespace);
    }
    if let Err(why) = prepare(&options) {
        eprintln!("e2e: {why}");
        println!("0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    match outside(arguments, scenarios::budget(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        // What failed has been said, and counted, inside.
        Err(why) => {
            eprintln!("e2e: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Every scenario as a stage of continuous integration.
pub(crate) fn run_all(budget: Duration) -> Result<String, String> {
    let options = Options::parse(&[]).expect("no argument is a wrong one");
    prepare(&options)?;
    outside(&[], budget)?;
    Ok(String::new())
}

/// Refuses what cannot work, and builds what will be tested.
fn prepare(options: &Options) -> Result<(), String> {
    needs::check()?;
    if options.peer == Peer::Holdfast {
        process::build_holdfast()?;
    }
    Ok(())
}

/// Runs this program again inside a namespace of its own, which is gone afterwards.
fn outside(arguments: &[&str], budget: Duration) -> Result<(), String> {
    let guest = root().join("e2e/guest");
    let namespace = format!("holdfast-{}", std::process::id());
    process::output(Command::new(&guest).args(["net", "up", &namespace]))?;
    let program = std::env::current_exe().map_err(|error| format!("this program has no name: {error}"))?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace]).arg(program).arg("e2e").args(arguments);
    command.env(INSIDE, &namespace);
    let outcome = process::run(command, budget);
    process::output(Command::new(&guest).args(["net", "down", &namespace]))?;
    outcome.map_err(|_| "a scenario failed or took too long, see above".to_owned())
}

fn inside(options: &Options, namespace: &str) -> ExitCode {
    println!("seed {}", options.seed);
    let mut report = Report::default();
    for (scenario, version) in scenarios::chosen(options) {
        let budget = scenario.budget(options);
        report.step(&format!("e2e: {}, NFSv{}", scenario.name, version.name()), budget, || {
            let mut lab = Lab::new(options, namespace, scenario.name, version, Instant::now() + budget)?;
            let outcome = (scenario.run)(&mut lab, options).and_then(|note| lab.close().map(|()| note));
            if outcome.is_err() {
                lab.show_log();
            } else if !options.keep {
                lab.clear();
            }
            outcome
        });
    }
    report.finish()
}

/// Where scenarios keep their data and reports.
fn scratch() -> PathBuf {
    target_directory().join("e2e")
}

/// A program that was installed with `cargo install`.
fn installed(name: &str) -> Option<PathBuf> {
    let tools = std::env::var_os("HOLDFAST_TOOLS").map(PathBuf::from);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let folders = [tools, home, default].into_iter().flatten();
    folders.map(|folder| folder.join("bin").join(name)).find(|path| path.is_file())
}
