//! Tests the release binary with a real Linux client. User-Mode-Linux guests and the server share a network namespace
//! without a route to the outside. `e2e/guest` starts a guest; `e2e/scenarios` holds the scripts that run inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::process::{self, root, target_directory};
use crate::report::{Report, usage};

mod bench;
mod calls;
mod client;
mod copies;
mod delegations;
mod full_names;
mod guest_requests;
mod homes;
mod hostile;
mod hosts;
mod kill;
mod lab;
mod libnfs;
mod machine;
mod metrics;
mod nodes;
mod observer;
mod package;
mod pair;
mod prerequisites;
mod probe;
mod rados;
mod rates;
mod remove;
mod scenarios;
mod tenants;
mod volumes;
mod writers;

use lab::{Lab, Peer, Version};
pub(crate) use scenarios::SAMPLE;

/// What `cargo xtask help e2e` prints.
pub(crate) const HELP: &str = "\
cargo xtask e2e [OPTION...] [SCENARIO...]: a real Linux client against the release binary; all scenarios by default.

  source-tree   unpack a Linux source tree, build its tools, compare checksums after a remount
  git           clone, fsck, commit, gc, and fsck again after a remount
  sqlite        two writers and a reader, both journal modes, PRAGMA integrity_check
  pjdfstest     the POSIX suite as root; expected failures are listed in e2e/pjdfstest.expected
  fsx           the file system exerciser, through the page cache and without it
  two-guests    two guests in one directory
  locks         lock contention between two guests, across a server kill, and after a guest dies
  mixed         the same between a guest with NFSv3 and one with the version under test
  mount         mount(8) without options, and with eight connections
  homes         shared home directories, with the commands and files of docs/homes.md
  writers       64 writers at the limits of users, groups, a tree and a volume, over NFSv3 and NFSv4.2; with
                --server ganesha, beside a limit of btrfs (needs btrfs-progs)
  extents       clones, server-side copies, holes, allocation and extended attributes (NFSv4.2)
  copies        asynchronous server-side copies, across a server kill too (NFSv4.2)
  delegations   granting, recall, revocation from a silent or dead guest; open files that lose their names
  calls         the calls of making, reading, changing and removing files, beside nfs-ganesha and the kernel's server
  libnfs        the tools of libnfs, a client independent of Linux's
  full-disk     ENOSPC, removing, and space coming back
  full-names    the same with names only: creating, removing and restarting on the full disk
  remove        removing large and many files beside another client, whose latencies are printed; kill -9 meanwhile
  hostile       attacks by strangers, neighbours and local users beside two well-behaved clients; --sample runs a few
  package       the Debian package under systemd: confined, restarted, killed, upgraded, rebooted, purged; the image under podman
  metrics       a Prometheus runs every query of the dashboard and of the alert rules
  rates         a rate limit is met exactly by many loads, and a neighbour does not notice
  tenants       two tenants with a volume, a quota tree and a tier each; one misbehaves, the other does not notice
  bench         `holdfast bench` against nfs-ganesha, and a comparison of both; no operation may fail
  volumes       volumes come, change and go beside two guests and libnfs, also while the server is killed
  pair          two machines with a floating address: one dies, stops or is cut off, its server dies, the group is moved
  rados         on a Ceph cluster: kill -9, copies of a pool, segments in an erasure-coded pool, a takeover from a stopped server, an
                OSD that hangs, a full pool
  nodes         three nodes, then four, of a Ceph cluster serve four groups: a node dies, stops, is cut off, drained or removed, groups are moved
  drbd          two machines that mirror a disk with DRBD; the one that serves is killed
  traps         what goes wrong with stock clients when an address moves, each provoked on purpose
  pair-guests   two fresh machines with systemd, made a pair by the steps of docs/cluster.md: lost, fenced, given back
  pacemaker     two fresh machines with a LUN, made a cluster with Pacemaker by the steps of docs/cluster.md: lost, not fenced, moved;
                not in samples
  kill          repeated kill -9 under two guests and libnfs; everything acknowledged must survive

  --nfs VERSION      mount with 3, 4.0, 4.1 or 4.2 only; each scenario has its default versions
  --server ganesha   test the scenarios themselves against nfs-ganesha, except those that kill, fill or check
  --rounds N         rounds of `kill`, `pair`, `nodes` and `pair-guests`, 10 by default
  --minutes N        minutes of `fsx`, and of `nodes`, which has a guest build software then; short runs by default
  --long             let `remove` use 6 GiB and a million files instead of 256 MiB and 10,000; `calls` 2,000 files
                     instead of 200, with times that say something; and `volumes` go on for ten minutes
  --attack NAME      run only this attack of `hostile`; repeatable
  --sample           scenarios with time limits of 40 minutes in all, unless some are named, one version of each, and five
                     attacks, which the seed chooses, and fewer tools of Linux, as continuous integration does
  --seed N           replay a run
  --keep             keep the data under the target directory; a failed scenario always does

Needs root and Debian's user-mode-linux iproute2 nfs-common kmod perl libnfs-utils sqlite3 git gcc libc6-dev
make e2fsprogs xz-utils openssl linux-source-6.1 nfs-ganesha nfs-ganesha-vfs rpcbind mmdebstrap lintian systemd
prometheus resource-agents libxml2-utils drbd-utils ceph-mon ceph-osd ceph-mgr ceph-common, and the crates pjdfstest
0.2.2 and fsx 0.3.2 (`cargo install --locked`).
Lists what is missing but installs nothing. Ends with `N passed, N failed`.
";

/// Environment variable with the namespace's name, set for the process inside it.
const INSIDE: &str = "HOLDFAST_E2E_NAMESPACE";

/// The command line's options.
#[derive(Debug)]
pub(crate) struct Options {
    peer: Peer,
    version: Option<Version>,
    sample: bool,
    attacks: Vec<&'static hostile::Attack>,
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
            sample: false,
            attacks: Vec::new(),
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
                "--attack" => options.attacks.push(hostile::find(words.next()?)?),
                "--sample" => options.sample = true,
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
    match outside(arguments, &options, scenarios::budget(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        // The process inside has printed and counted the failures.
        Err(why) => {
            eprintln!("e2e: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs some of the scenarios, each with one version of NFS: a stage of continuous integration.
pub(crate) fn run_sample() -> Result<String, String> {
    let arguments = ["--sample"];
    let options = Options::parse(&arguments).expect("the option is valid");
    prepare(&options)?;
    outside(&arguments, &options, SAMPLE)?;
    Ok("a sample of the scenarios; `cargo xtask e2e` runs all".to_owned())
}

/// Checks the prerequisites and builds the program under test.
fn prepare(options: &Options) -> Result<(), String> {
    prerequisites::check()?;
    scenarios::prepare(options)?;
    if options.peer == Peer::Holdfast {
        process::build_holdfast()?;
    }
    Ok(())
}

/// Runs this program again inside a new network namespace, and as process 1 of a process namespace that ends when this
/// process does, even if it is killed.
fn outside(arguments: &[&str], options: &Options, budget: Duration) -> Result<(), String> {
    let guest = root().join("e2e/guest");
    let namespace = format!("holdfast-{}", std::process::id());
    let registers = scratch().join(format!("{namespace}.so"));
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    remove_stale_namespaces()?;
    process::output(Command::new(&guest).arg("registers").arg(&registers))?;
    process::output(Command::new(&guest).args(["net", "up", &namespace]))?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["ip", "netns", "exec", &namespace]).arg(program).arg("e2e").args(arguments);
    // Both processes choose the same sample.
    command.args(["--seed", &options.seed.to_string()]);
    command.env(INSIDE, &namespace).env("GUEST_REGISTERS", &registers);
    let outcome = process::run(command, budget);
    let _ = fs::remove_file(&registers);
    process::output(Command::new(&guest).args(["net", "down", &namespace]))?;
    outcome.map_err(|_| "a scenario failed or exceeded its time limit, see above".to_owned())
}

/// Deletes the namespaces of runs that were killed.
fn remove_stale_namespaces() -> Result<(), String> {
    let names = process::output(Command::new("ip").args(["netns", "list"]))?;
    for name in names.lines().filter_map(|line| line.split(' ').next()) {
        let run = name.strip_prefix("holdfast-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if run.is_some_and(|run| !Path::new(&format!("/proc/{run}")).exists()) {
            // Another run may be deleting it too.
            let _ = process::output(Command::new("ip").args(["netns", "del", name]));
        }
    }
    Ok(())
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
            // A scenario that failed may have left guests.
            process::kill_others();
            outcome
        });
    }
    report.finish()
}

/// The folder for the scenarios' data and reports.
fn scratch() -> PathBuf {
    target_directory().join("e2e")
}

/// Finds a program installed with `cargo install`.
fn installed(name: &str) -> Option<PathBuf> {
    let tools = std::env::var_os("HOLDFAST_TOOLS").map(PathBuf::from);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let folders = [tools, home, default].into_iter().flatten();
    folders.map(|folder| folder.join("bin").join(name)).find(|path| path.is_file())
}
