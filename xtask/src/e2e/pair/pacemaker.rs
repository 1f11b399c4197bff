//! Two fresh machines become a cluster with Pacemaker by the steps of docs/cluster.md, typed as they stand there. Their disk is a LUN
//! of a third machine, over iSCSI; its reservations are the fence. Guests work meanwhile, as they do in the scenario `pair`.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::stalls::{self, Kind};
use super::typed::{self, Steps};
use super::{ADDRESS, BETWEEN, mark, start_guests};
use crate::e2e::Options;
use crate::e2e::hosts::{BRIDGE, Switch};
use crate::e2e::lab::Lab;
use crate::e2e::machine::{Hardware, Machine, PACEMAKER_IMAGE, SHARE, make_disk};
use crate::package;
use crate::process::root;

/// What a reader of the document replaces by what the reader's machines have. No terminal asks for the password.
const REPLACED: &[(&str, &str)] = &[
    ("eth0", "vec0"),
    ("10.0.0.50/24", "10.77.0.1/24"),
    ("10.0.0.0/24", "10.77.0.0/24"),
    ("wwn-0x5000c500a1b2c3d4", "wwn-0x60014057a3c5e9000004000800000000"),
    ("-u hacluster ", "-u hacluster -p PASSWORD "),
];

/// The machines: names, numbers as guests, own addresses, memory, and services that they do not start.
type Made = (&'static str, u8, &'static str, &'static str, &'static [&'static str]);
const NODES: [Made; 2] = [("a", 3, "10.77.0.3/24", "768M", &[]), ("b", 4, "10.77.0.4/24", "768M", &[])];
const TARGET: Made = ("lun", 5, "10.77.0.5/24", "192M", &["corosync", "pacemaker", "pcsd", "pcsd-ruby"]);

/// The guests' versions of NFS.
const VERSIONS: &[&str] = &["4.0", "4.2"];

/// The file in which pcs sets its time limits.
const PCS_SETTINGS: &str = "/usr/lib/python3/dist-packages/pcs/settings.py";

/// Bytes of the LUN.
const DISK: u64 = 1 << 30;

/// For how long nothing may be served once a fence has failed.
const REFUSED: Duration = Duration::from_secs(20);

/// Time limit of what Pacemaker does by itself, seconds.
const PATIENCE: u32 = 240;

/// What happens to the machine that serves.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// It is without power, and for so long it cannot be fenced.
    LostUnfenced(Duration),
    /// The group is moved to the other machine.
    Moves,
    /// It is without power, and the other machine serves the group after so long.
    Lost(Duration),
}

impl Kind for Blow {
    fn name(&self) -> &'static str {
        match self {
            Blow::LostUnfenced(_) => "node lost, not fenced",
            Blow::Moves => "moved",
            Blow::Lost(_) => "node lost",
        }
    }

    fn pause(&self) -> f64 {
        match self {
            Blow::LostUnfenced(unserved) | Blow::Lost(unserved) => unserved.as_secs_f64(),
            Blow::Moves => 0.0,
        }
    }
}

/// Runs the scenario.
pub(in crate::e2e) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    let _switch = Switch::make(lab)?;
    let begun = Instant::now();
    let mut cluster = Cluster::make(lab)?;
    cluster.set_up()?;
    println!("     set up in {:.0} s", begun.elapsed().as_secs_f64());
    let guests = start_guests(lab, VERSIONS, |_| vec![ADDRESS.to_owned(), "/home".to_owned()])?;
    let mut blows = Vec::new();
    for round in 1..=3 {
        thread::sleep(BETWEEN);
        mark(lab, round)?;
        let struck = match round {
            1 => cluster.lose_unfenced(),
            2 => cluster.move_group(),
            _ => cluster.lose(),
        };
        blows.push(struck.map_err(|why| format!("round {round}: {why}"))?);
        thread::sleep(BETWEEN);
        mark(lab, 0)?;
        cluster.heal()?;
    }
    lab.create_file("stop")?;
    for (number, mut guest) in guests {
        lab.finish_guest(number, &mut guest)?;
    }
    cluster.finish()?;
    let paused = stalls::judge(lab, VERSIONS, &blows)?;
    Ok(format!("clients paused, beyond the time in which nobody could serve them: {paused}"))
}

/// The machines.
struct Cluster<'l> {
    steps: Steps,
    nodes: [Machine<'l>; 2],
    target: Machine<'l>,
    serving: usize,
    /// Whether the machine that does not serve is off.
    is_other_off: bool,
}

impl<'l> Cluster<'l> {
    /// Makes fresh machines and switches them on.
    fn make(lab: &'l Lab) -> Result<Cluster<'l>, String> {
        let disk = make_disk(lab, DISK)?;
        let machine = |(name, number, address, memory, masked): Made, shared_disk| {
            let (bridge, image) = (BRIDGE, PACEMAKER_IMAGE);
            Machine::new(lab, Hardware { number, name, address, memory, bridge, shared_disk, image, masked })
        };
        let [a, b] = NODES;
        let mut nodes = [machine(a, None)?, machine(b, None)?];
        let mut target = machine(TARGET, Some(disk))?;
        let package = package::deb(&lab.binary(), &lab.machines().join("package"), 1)?;
        for node in &nodes {
            typed::give(node, &package)?;
            node.give(&root().join("e2e/machine/lun"), "lun")?;
        }
        target.give(&root().join("e2e/machine/lun"), "lun")?;
        let [first, second] = nodes.each_mut();
        Machine::boot_all(&mut [first, second, &mut target])?;
        Ok(Cluster { steps: Steps::read(REPLACED)?, nodes, target, serving: 0, is_other_off: false })
    }

    /// Connects the machines with the LUN, and does what the document says under "Setting up" and "Pacemaker with STONITH".
    fn set_up(&mut self) -> Result<(), String> {
        self.target.run(&format!("sh {SHARE}/lun serve"))?;
        let names: String = NODES.map(|(name, _, address, ..)| format!("{} {name}\n", own(address))).concat();
        let target = own(TARGET.2);
        for (node, (name, ..)) in self.nodes.iter_mut().zip(NODES) {
            node.run(&format!("cat >>/etc/hosts <<'END'\n{names}END\nsh {SHARE}/lun connect {target}"))?;
            // A guest may be slower than pcs expects machines to be.
            node.run(&format!(
                "sed -i 's/^default_request_timeout = .*/default_request_timeout = 600/' {PCS_SETTINGS} && \
                 grep -q '^default_request_timeout = 600$' {PCS_SETTINGS}"
            ))?;
            self.steps.set_up(node, name, "move command")?;
            self.steps.begin(node, "pacemaker", &[])?;
        }
        for node in &mut self.nodes {
            node.finish_successfully("pacemaker")?;
        }
        for step in ["data", "cluster", "resources"] {
            self.steps.type_in(&mut self.nodes[0], step)?;
        }
        // Pacemaker chooses the machine; the rounds begin with `a`.
        self.nodes[0].run(&settled())?;
        self.serving = usize::from(!is_served(&mut self.nodes[0])?);
        let serving = self.serving;
        self.nodes[serving].run("holdfast cluster monitor home").map(drop)
    }

    /// Loses the machine that serves while the fence fails, and has the fence work after a while.
    fn lose_unfenced(&mut self) -> Result<Blow, String> {
        let (from, to) = (self.serving, 1 - self.serving);
        let lost = NODES[from].0;
        self.nodes[to].run("mount --bind /bin/false /usr/sbin/fence_scsi")?;
        let begun = Instant::now();
        self.nodes[from].cut_power();
        self.is_other_off = true;
        self.nodes[to].run(&until(&format!(
            "stonith_admin --history {lost} --verbose | grep -q ' of {lost} failed'"
        )))?;
        println!("     the fence has failed after {:.1} s", begun.elapsed().as_secs_f64());
        let end = Instant::now() + REFUSED;
        while Instant::now() < end {
            self.nodes[to].run("! mountpoint -q /srv/home").map_err(|why| format!("not fenced: {why}"))?;
            if is_served(&mut self.nodes[to])? {
                return Err("the group is served though the machine that was lost is not fenced".to_owned());
            }
            thread::sleep(BETWEEN);
        }
        // A monitor may be using it.
        self.nodes[to].run("umount --lazy /usr/sbin/fence_scsi")?;
        let unfenced = begun.elapsed();
        let typed = self.steps.typed("fence", &[("fence b", &format!("fence {lost}"))]);
        self.nodes[to].run(&typed)?;
        self.await_takeover(to)?;
        println!(
            "     fenced from {:.1} s on, served elsewhere after {:.1} s",
            unfenced.as_secs_f64(),
            begun.elapsed().as_secs_f64()
        );
        Ok(Blow::LostUnfenced(begun.elapsed()))
    }

    /// Moves the group to the other machine.
    fn move_group(&mut self) -> Result<Blow, String> {
        let (from, to) = (self.serving, 1 - self.serving);
        let begun = Instant::now();
        let typed = self.steps.typed("move", &[("home b", &format!("home {}", NODES[to].0))]);
        self.nodes[from].run(&typed)?;
        println!("     moved in {:.1} s", begun.elapsed().as_secs_f64());
        self.await_takeover(to)?;
        let constraints = self.nodes[to].run("cibadmin --query --scope constraints")?;
        if constraints.contains("<rsc_location") {
            return Err(format!("the move leaves a constraint: {constraints}"));
        }
        Ok(Blow::Moves)
    }

    /// Loses the machine that serves.
    fn lose(&mut self) -> Result<Blow, String> {
        let (from, to) = (self.serving, 1 - self.serving);
        let (begun, at) = (Instant::now(), SystemTime::now());
        self.nodes[from].cut_power();
        self.is_other_off = true;
        self.await_takeover(to)?;
        let served = begun.elapsed();
        self.print_phases(to, at)?;
        println!("     served elsewhere after {:.1} s", served.as_secs_f64());
        Ok(Blow::Lost(served))
    }

    /// Waits until a machine serves the group.
    fn await_takeover(&mut self, to: usize) -> Result<(), String> {
        self.nodes[to].run(&until("holdfast cluster monitor home"))?;
        self.serving = to;
        Ok(())
    }

    /// Prints when the machine that took over found the other one lost and fenced, as its journal says.
    fn print_phases(&mut self, to: usize, begun: SystemTime) -> Result<(), String> {
        let lost = NODES[1 - to].0;
        let since = begun.duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
        let journal = self.nodes[to].run(&format!(
            "journalctl --quiet --no-pager --output=short-unix --since=@{}",
            since.as_secs()
        ))?;
        for (what, event) in [
            ("found lost", format!("Node {lost} state is now lost")),
            ("fenced", format!("Peer {lost} was terminated")),
        ] {
            let line = journal.lines().find(|line| line.contains(&event));
            let time = line.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
            match time {
                Some(time) => println!("     {what} after {:.1} s", time - since.as_secs_f64()),
                None => return Err(format!("the journal does not say when the machine was {what}")),
            }
        }
        Ok(())
    }

    /// Boots the machine that was lost, which joins the cluster and is not given the group.
    fn heal(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_other_off) {
            return Ok(());
        }
        let (back, serving) = (1 - self.serving, self.serving);
        let begun = Instant::now();
        self.nodes[back].boot()?;
        let [a, b] = NODES.map(|(name, ..)| name);
        self.nodes[serving]
            .run(&until(&format!("crm_mon --one-shot | grep -q 'Online: \\[ {a} {b} \\]'")))?;
        self.nodes[serving].run(&settled())?;
        println!("     {} is back after {:.1} s", NODES[back].0, begun.elapsed().as_secs_f64());
        if is_served(&mut self.nodes[back])? || !is_served(&mut self.nodes[serving])? {
            return Err("the group moves when the lost machine comes back".to_owned());
        }
        Ok(())
    }

    /// Stops the group, checks its volume, and switches the machines off.
    fn finish(&mut self) -> Result<(), String> {
        let serving = self.serving;
        let node = &mut self.nodes[serving];
        node.run(&format!(
            "crm_resource --resource home-all --set-parameter target-role --meta --parameter-value Stopped && \
             {} && mount /srv/home",
            settled()
        ))?;
        typed::check_volume(node)?;
        for machine in self.nodes.iter_mut().chain([&mut self.target]) {
            machine.cut_power();
        }
        Ok(())
    }
}

/// An address without the length of its prefix.
fn own(address: &str) -> &str {
    address.split('/').next().unwrap_or_default()
}

/// Returns a command that waits until another one succeeds.
fn until(command: &str) -> String {
    format!(
        "end=$(($(date +%s) + {PATIENCE})); until {command} >/dev/null 2>&1; do [ $(date +%s) -lt $end ] || \
         {{ crm_mon --one-shot --inactive; exit 1; }}; sleep 0.2; done"
    )
}

/// Returns a command that waits until Pacemaker has nothing to do.
fn settled() -> String {
    format!("crm_resource --wait --timeout {PATIENCE}s")
}

/// Whether a machine serves the group.
fn is_served(node: &mut Machine<'_>) -> Result<bool, String> {
    // 7 says that the group is stopped.
    let state = node.run("holdfast cluster monitor home && exit; [ $? = 7 ] && echo stopped")?;
    Ok(!state.contains("stopped"))
}
