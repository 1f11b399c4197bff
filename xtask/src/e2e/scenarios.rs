//! The scenarios: their budgets, and their parts outside the guest.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::lab::{Lab, Peer, Version};
use super::libnfs::Client;
use super::{
    Options, bench, calls, copies, delegations, full_names, homes, hostile, installed, kill, machine,
    metrics, nodes, package, pair, rados, rates, remove, scratch, tenants, volumes, writers,
};
use crate::process::{self, root};

use Version::{V3, V40, V41, V42};

/// Time limit of a sample. Continuous integration has an hour, and its other stages need 40 minutes of it.
pub(crate) const SAMPLE: Duration = Duration::from_secs(20 * 60);

/// The most that the time limits of a sample's scenarios add up to. Most take a third of theirs.
const SAMPLED: Duration = Duration::from_secs(40 * 60);

/// Scenarios that no sample has: most of their time, machines are set up.
const NOT_SAMPLED: &[&str] = &["pacemaker"];

/// Parts of Linux's tools that are built, and those of a sample, with the least number of objects.
const TOOLS: (&str, &[&str]) = (
    "50",
    &["lib/api", "lib/subcmd", "lib/traceevent", "bootconfig", "vm", "gpio", "accounting", "leds", "usb"],
);
pub(super) const SAMPLE_OF_TOOLS: (&str, &[&str]) = ("8", &["lib/subcmd", "bootconfig"]);

/// The Linux source as Debian packages it.
pub(super) const LINUX_SOURCE: &str = "/usr/src/linux-source-6.1.tar.xz";

type Run = fn(&mut Lab, &Options) -> Result<String, String>;

/// One scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    seconds: u64,
    /// Whether it runs against a foreign server too.
    foreign: bool,
    /// The versions guests mount with by default.
    versions: &'static [Version],
    pub(super) run: Run,
}

impl Scenario {
    /// Its time limit.
    pub(super) fn budget(&self, options: &Options) -> Duration {
        let rounds_of = |seconds| u64::try_from(options.rounds).unwrap_or(u64::MAX).saturating_mul(seconds);
        let longer = match self.name {
            // nfs-ganesha has a grace period after each takeover.
            "pair" => rounds_of(if options.peer == Peer::Holdfast { 20 } else { 250 }),
            "nodes" if !options.sample => rounds_of(40) + 60 * options.minutes.unwrap_or(0),
            "pair-guests" if !options.sample => rounds_of(90),
            "kill" => rounds_of(8),
            "remove" if options.long => 3600,
            "calls" if options.long => 900,
            "rates" if !options.sample => 1200,
            "volumes" if options.long => 900,
            "hostile" => hostile::seconds(options),
            "writers" if !options.sample => 600,
            "fsx" => options.minutes.unwrap_or(0).saturating_mul(60),
            _ => 0,
        };
        Duration::from_secs(self.seconds + longer)
    }
}

const ALL: &[Scenario] = &[
    Scenario { name: "libnfs", seconds: 60, foreign: true, versions: &[V3], run: libnfs },
    Scenario { name: "two-guests", seconds: 120, foreign: true, versions: &[V3, V40, V42], run: two_guests },
    Scenario { name: "locks", seconds: 200, foreign: false, versions: &[V3, V42], run: locks },
    Scenario { name: "mixed", seconds: 300, foreign: false, versions: &[V42], run: mixed },
    Scenario { name: "mount", seconds: 150, foreign: false, versions: &[V42], run: mount },
    Scenario { name: "homes", seconds: 180, foreign: false, versions: &[V3, V42], run: homes::run },
    Scenario { name: "quotas", seconds: 120, foreign: false, versions: &[V3, V42], run: quotas },
    Scenario { name: "writers", seconds: 120, foreign: false, versions: &[V42], run: writers::run },
    Scenario { name: "extents", seconds: 180, foreign: false, versions: &[V42], run: extents },
    Scenario { name: "copies", seconds: 180, foreign: false, versions: &[V42], run: copies::run },
    Scenario {
        name: "delegations",
        seconds: 300,
        foreign: false,
        versions: &[V40, V42],
        run: delegations::run,
    },
    Scenario { name: "calls", seconds: 300, foreign: false, versions: &[V42], run: calls::run },
    Scenario { name: "git", seconds: 200, foreign: true, versions: &[V3, V42], run: git },
    Scenario { name: "sqlite", seconds: 120, foreign: true, versions: &[V3, V42], run: sqlite },
    Scenario { name: "pjdfstest", seconds: 180, foreign: true, versions: &[V3, V42], run: pjdfstest },
    Scenario { name: "fsx", seconds: 150, foreign: true, versions: &[V3, V42], run: fsx },
    Scenario { name: "full-disk", seconds: 180, foreign: false, versions: &[V3], run: full_disk },
    Scenario { name: "full-names", seconds: 300, foreign: false, versions: &[V3], run: full_names::run },
    Scenario { name: "remove", seconds: 150, foreign: false, versions: &[V3], run: remove::run },
    Scenario { name: "hostile", seconds: 30, foreign: false, versions: &[V42], run: hostile::run },
    Scenario { name: "package", seconds: 480, foreign: false, versions: &[V3], run: package::run },
    Scenario { name: "metrics", seconds: 150, foreign: false, versions: &[V3], run: metrics::run },
    Scenario { name: "bench", seconds: 150, foreign: false, versions: &[V3], run: bench::run },
    Scenario { name: "tenants", seconds: 150, foreign: false, versions: &[V3, V42], run: tenants::run },
    Scenario { name: "rates", seconds: 240, foreign: false, versions: &[V3], run: rates::run },
    Scenario { name: "kill", seconds: 90, foreign: true, versions: &[V3, V41, V42], run: kill::run },
    Scenario { name: "pair", seconds: 180, foreign: false, versions: &[V42], run: pair::run },
    Scenario { name: "rados", seconds: 180, foreign: false, versions: &[V3], run: rados::run },
    Scenario { name: "nodes", seconds: 240, foreign: false, versions: &[V42], run: nodes::run },
    Scenario { name: "drbd", seconds: 180, foreign: false, versions: &[V3], run: pair::run_drbd },
    Scenario { name: "traps", seconds: 120, foreign: false, versions: &[V42], run: pair::run_traps },
    Scenario { name: "pair-guests", seconds: 360, foreign: false, versions: &[V42], run: pair::guests::run },
    Scenario {
        name: "pacemaker",
        seconds: 1800,
        foreign: false,
        versions: &[V42],
        run: pair::pacemaker::run,
    },
    Scenario { name: "volumes", seconds: 120, foreign: false, versions: &[V42], run: volumes::run },
    Scenario { name: "source-tree", seconds: 450, foreign: true, versions: &[V3], run: source_tree },
];

/// Finds a scenario by name.
pub(super) fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// The scenarios asked for, or all that fit the server, each with the versions of NFS to mount with.
pub(super) fn chosen(options: &Options) -> Vec<(&'static Scenario, Version)> {
    let wanted = |scenario: &&Scenario| {
        let named = options.names.iter().any(|name| name == scenario.name);
        named || options.names.is_empty() && (scenario.foreign || options.peer == Peer::Holdfast)
    };
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut scenarios: Vec<&'static Scenario> = ALL.iter().filter(wanted).collect();
    if options.sample && options.names.is_empty() {
        let drawn = draw(scenarios.clone(), options, &mut random);
        scenarios.retain(|scenario| drawn.contains(&scenario.name));
    }
    let mut with_versions = |scenario: &'static Scenario| {
        let versions = match options.version {
            Some(version) => vec![version],
            None if options.sample => random.choice(scenario.versions).copied().into_iter().collect(),
            None => scenario.versions.to_vec(),
        };
        versions.into_iter().map(move |version| (scenario, version))
    };
    scenarios.into_iter().flat_map(&mut with_versions).collect()
}

/// Draws scenarios for a sample: as many as fit it.
fn draw(
    mut scenarios: Vec<&'static Scenario>,
    options: &Options,
    random: &mut fastrand::Rng,
) -> Vec<&'static str> {
    random.shuffle(&mut scenarios);
    scenarios.retain(|scenario| !NOT_SAMPLED.contains(&scenario.name));
    let mut left = SAMPLED;
    scenarios.retain(|scenario| {
        let rest = left.checked_sub(scenario.budget(options));
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    scenarios.iter().map(|scenario| scenario.name).collect()
}

/// Makes what needs the network, which the scenarios' namespace lacks.
pub(super) fn prepare(options: &Options) -> Result<(), String> {
    let chosen = chosen(options);
    let is_chosen = |name| chosen.iter().any(|(scenario, _)| scenario.name == name);
    if is_chosen("package") || is_chosen("pair-guests") {
        cached(machine::IMAGE, "machine/image", &[])?;
    }
    if is_chosen("pacemaker") {
        cached(machine::PACEMAKER_IMAGE, "machine/image", machine::PACEMAKER_PACKAGES)?;
    }
    if is_chosen("package") {
        package::prepare()?;
    }
    Ok(())
}

/// The time limit of all chosen scenarios.
pub(super) fn budget(options: &Options) -> Duration {
    let scenarios: Duration = chosen(options).iter().map(|(scenario, _)| scenario.budget(options)).sum();
    scenarios + Duration::from_secs(60)
}

/// Makes a file under the scratch folder unless an earlier run made it.
fn cached(name: &str, script: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let path = scratch().join(name);
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    if !path.exists() {
        process::output(Command::new(root().join("e2e").join(script)).arg(&path).args(arguments))?;
    }
    Ok(path)
}

/// Makes the tarball of a part of Linux.
pub(super) fn linux_tarball() -> Result<PathBuf, String> {
    cached("linux.tar", "source-tree", &[])
}

fn source_tree(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let tarball = linux_tarball()?;
    let (objects, parts) = if options.sample { SAMPLE_OF_TOOLS } else { TOOLS };
    lab.start()?;
    lab.guest("source-tree.sh", "1536M", &[&[&*tarball.to_string_lossy(), objects], parts].concat())?;
    Ok(String::new())
}

fn git(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let repository = cached("repository.git", "git-repository", &[])?;
    lab.start()?;
    lab.guest("git.sh", "768M", &[&repository.to_string_lossy()])?;
    Ok(String::new())
}

fn sqlite(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    lab.guest("sqlite.sh", "512M", &["20"])?;
    Ok(String::new())
}

fn fsx(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let program = installed("fsx").ok_or("fsx is not installed")?;
    let seconds = options.minutes.map_or(60, |minutes| minutes * 60).to_string();
    // fsx's seeds have 32 bits.
    let seed = (options.seed % 1_000_000_000).to_string();
    lab.start()?;
    lab.guest("fsx.sh", "512M", &[&program.to_string_lossy(), &seconds, &seed])?;
    Ok(format!("seed {seed}"))
}

fn two_guests(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    let mut one = lab.start_guest(1, "two-guests.sh", "256M", &[])?;
    let mut two = lab.start_guest(2, "two-guests.sh", "256M", &[])?;
    let one = lab.finish_guest(1, &mut one);
    let two = lab.finish_guest(2, &mut two);
    one.and(two)?;
    Ok(String::new())
}

/// Both guests mount with the same version.
fn locks(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    contend(lab, lab.version())?;
    if lab.version() == V3 {
        let mut dying = lab.start_guest(3, "locks-dies.sh", "256M", &["hold"])?;
        let held = lab.await_file("dying-held", Duration::from_secs(60));
        Lab::kill_guest(3, &mut dying);
        held?;
        let mut back = lab.start_guest(3, "locks-dies.sh", "256M", &["return"])?;
        lab.finish_guest(3, &mut back)?;
    }
    Ok(String::new())
}

/// Guest 1 mounts with NFSv3, guest 2 with the version under test.
fn mixed(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    contend(lab, V3)?;
    Ok(String::new())
}

/// Two guests contend for locks while the server is killed. Guest 1 mounts with `version`.
fn contend(lab: &mut Lab, version: Version) -> Result<(), String> {
    let mut one = lab.start_guest(1, "locks.sh", "256M", &[version.name()])?;
    let mut two = lab.start_guest(2, "locks.sh", "256M", &[lab.version().name()])?;
    let killed = lab.await_file("kill-me", Duration::from_secs(120)).and_then(|()| {
        std::thread::sleep(Duration::from_secs(1));
        lab.kill();
        lab.start()?;
        lab.create_file("killed")
    });
    let one = lab.finish_guest(1, &mut one);
    let two = lab.finish_guest(2, &mut two);
    killed.and(one).and(two)
}

fn mount(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    // The 40 copies that it reads take at most half of the guest's memory.
    lab.guest("mount.sh", "512M", &[])?;
    Ok(String::new())
}

fn extents(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(2048)?;
    lab.start()?;
    lab.guest("extents.sh", "768M", &[])?;
    Ok(String::new())
}

fn libnfs(lab: &mut Lab, options: &Options) -> Result<String, String> {
    lab.start()?;
    let mut client = Client::new(lab, options.seed)?;
    for length_max in [1, 100, 5000, 70_000, 1 << 20, 5 << 20, 20 << 20] {
        if !client.put(length_max)? {
            return Err(format!("nfs-cp of up to {length_max} bytes failed"));
        }
    }
    client.list_over_nfs4(500)?;
    client.verify()?;
    Ok(format!("{} files", client.files()))
}

fn full_disk(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(1024)?;
    lab.start()?;
    lab.guest("full-disk.sh", "512M", &[])?;
    lab.await_log("the volume is full")?;
    lab.await_log("the volume has room again")?;
    Ok(String::new())
}

/// The limits are those that the guest sets on its own file system.
fn quotas(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.start()?;
    let limits: [&[&str]; 2] = [
        &["--user", "4001", "--bytes", "2MiB:10MiB", "--inodes", "5:100"],
        &["--group", "4002", "--bytes", "1GiB:8GiB"],
    ];
    for limit in limits {
        lab.holdfast(&["quota", "set"], &[&["main"], limit].concat())?;
    }
    lab.guest("quotas.sh", "512M", &[])?;
    Ok(String::new())
}

fn pjdfstest(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let program = installed("pjdfstest").ok_or("pjdfstest is not installed")?;
    lab.start()?;
    lab.guest("pjdfstest.sh", "512M", &[&program.to_string_lossy()])?;
    let path = lab.out().join("report");
    let report = fs::read_to_string(&path).map_err(process::at(&path))?;
    let path = root().join("e2e/pjdfstest.expected");
    let expected = fs::read_to_string(&path).map_err(process::at(&path))?;
    judge(&report, &expected, lab.version().name())
}

/// Compares the suite's report with the expected failures.
fn judge(report: &str, expected: &str, version: &str) -> Result<String, String> {
    let lines = expected.lines().filter(|line| !line.starts_with('#'));
    let of_version = |line: &'_ str| line.split_whitespace().skip(1).any(|word| word == version);
    let expected: BTreeSet<&str> =
        lines.filter(|line| of_version(line)).filter_map(|line| line.split_whitespace().next()).collect();
    let cases = |verdict: &str| -> BTreeSet<&str> {
        let lines = report.lines().filter(|line| line.split_whitespace().nth(1) == Some(verdict));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    };
    let (passed, failed) = (cases("ok"), cases("FAILED"));
    if passed.is_empty() {
        return Err("the suite reports no passed case".to_owned());
    }
    let unexpected: Vec<&str> = failed.difference(&expected).copied().collect();
    let passing: Vec<&str> = expected.intersection(&passed).copied().collect();
    if !unexpected.is_empty() {
        return Err(format!("unexpected failures: {}", unexpected.join(", ")));
    }
    if !passing.is_empty() {
        return Err(format!("pass now; remove from e2e/pjdfstest.expected: {}", passing.join(", ")));
    }
    Ok(format!("{} passed, {} failed as expected", passed.len(), failed.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::{ALL, NOT_SAMPLED, Options, SAMPLED, chosen, judge};

    #[test]
    fn samples_fit_their_time_and_leave_no_scenario_out() {
        let mut drawn = BTreeSet::new();
        for seed in 0..200 {
            let options = Options::parse(&["--sample", "--seed", &seed.to_string()]).expect("it is valid");
            let sample = chosen(&options);
            let seconds: Duration = sample.iter().map(|(scenario, _)| scenario.budget(&options)).sum();
            assert!(SAMPLED / 2 < seconds && seconds <= SAMPLED, "seed {seed}: {seconds:?}");
            drawn.extend(sample.iter().map(|(scenario, _)| scenario.name));
        }
        assert_eq!(drawn.len() + NOT_SAMPLED.len(), ALL.len());
        assert!(!NOT_SAMPLED.iter().any(|name| drawn.contains(name)));
    }

    const REPORT: &str =
        "chmod::enoent   ok\nunlink::busy   FAILED\n\tassertion failed\nlink::loop   skipped\n";

    #[test]
    fn unexpected_failures_and_passes_are_found() {
        assert!(judge(REPORT, "# a reason\nunlink::busy 3 4.0\n", "4.0").is_ok());
        assert!(judge(REPORT, "unlink::busy 3 4.0\n", "4.2").is_err(), "expected for other versions only");
        assert!(judge(REPORT, "", "3").is_err(), "not listed");
        assert!(judge(REPORT, "unlink::busy 3\nchmod::enoent 3\n", "3").is_err(), "listed, but passes");
        assert!(judge("Error: no tests\n", "", "3").is_err(), "the suite did not run");
    }
}
