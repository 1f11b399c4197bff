//! Two fresh machines become a pair by the steps of docs/cluster.md, typed as they stand there. They share a disk with a file system
//! that only one of them may mount; the fence switches the other one off. Guests work meanwhile, as they do in the scenario `pair`.

use std::fs;
use std::thread;
use std::time::Duration;

use super::stalls::{self, Kind as _};
use super::typed::{self, Steps};
use super::{ADDRESS, BETWEEN, Blow, DETECTION, mark, start_guests};
use crate::e2e::Options;
use crate::e2e::hosts::{BRIDGE, Switch, ip};
use crate::e2e::lab::Lab;
use crate::e2e::machine::{Hardware, IMAGE, Machine, SHARE, make_disk};
use crate::package;
use crate::process::{self, root};

/// What a reader of the document replaces by what his machines have.
const REPLACED: &[(&str, &str)] = &[
    ("eth0", "vec0"),
    ("10.0.0.50/24", "10.77.0.1/24"),
    ("10.0.0.0/24", "10.77.0.0/24"),
    ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "/dev/ubdb"),
];

/// The machines: names, numbers as guests, own addresses.
const NODES: [(&str, u8, &str); 2] = [("a", 3, "10.77.0.3/24"), ("b", 4, "10.77.0.4/24")];

/// Bytes of the shared disk.
const DISK: u64 = 1 << 30;

/// Time limit from the command to take a group over to the request to fence.
const FENCED: Duration = Duration::from_secs(20);

/// Runs the scenario.
pub(in crate::e2e) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let (versions, rounds): (&[&str], usize) =
        if options.sample { (&["4.1"], 1) } else { (&["4.0", "4.2"], options.rounds) };
    let _switch = Switch::make(lab)?;
    let mut pair = Pair::make(lab)?;
    pair.set_up()?;
    let guests = start_guests(lab, versions, |_| vec![ADDRESS.to_owned(), "/home".to_owned()])?;
    pair.refuses_without_fence()?;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut blows = Vec::new();
    for _ in 0..rounds {
        for blow in [Blow::Dies, Blow::Moves] {
            blows.push(blow);
            mark(lab, blows.len())?;
            let struck = if blow == Blow::Dies { pair.lose(random.bool()) } else { pair.give_back() };
            struck.map_err(|why| format!("round {}, {}: {why}", blows.len(), blow.name()))?;
            thread::sleep(BETWEEN);
            mark(lab, 0)?;
            pair.heal()?;
        }
    }
    lab.create_file("stop")?;
    for (number, mut guest) in guests {
        lab.finish_guest(number, &mut guest)?;
    }
    let starts = pair.finish()?;
    let stalls = stalls::judge(lab, versions, &blows)?;
    Ok(format!("{stalls}; {starts}"))
}

/// The two machines.
struct Pair<'l> {
    steps: Steps,
    machines: [Machine<'l>; 2],
    serving: usize,
    /// Whether the last blow switched the other machine off.
    is_other_off: bool,
    /// How long the phases of each start took, as the agent shows them.
    starts: Vec<String>,
}

impl<'l> Pair<'l> {
    /// Makes two fresh machines and switches them on.
    fn make(lab: &'l Lab) -> Result<Pair<'l>, String> {
        let steps = Steps::read(REPLACED)?;
        let disk = make_disk(lab, DISK)?;
        let machine = |(name, number, address)| {
            let shared_disk = Some(disk.clone());
            let (memory, bridge, image, masked) = ("384M", BRIDGE, IMAGE, &[][..]);
            Machine::new(lab, Hardware { number, name, address, memory, bridge, shared_disk, image, masked })
        };
        let [a, b] = NODES;
        let mut machines = [machine(a)?, machine(b)?];
        let package = package::deb(&lab.binary(), &lab.machines().join("package"), 1)?;
        for machine in &machines {
            typed::give(machine, &package)?;
            machine.give(&root().join("e2e/machine/power-off"), "power-off")?;
        }
        Machine::boot_all(&mut machines.each_mut())?;
        Ok(Pair { steps, machines, serving: 0, is_other_off: false, starts: Vec::new() })
    }

    /// Types a step of the document on a machine.
    fn type_in(&mut self, node: usize, name: &str) -> Result<(), String> {
        self.steps.type_in(&mut self.machines[node], name).map(drop)
    }

    /// Does what the document says under "Setting up" and "Without a cluster manager".
    fn set_up(&mut self) -> Result<(), String> {
        for (machine, (name, ..)) in self.machines.iter_mut().zip(NODES) {
            machine.run(&format!("install -m 755 {SHARE}/power-off /usr/local/sbin"))?;
            self.steps.set_up(machine, name, "commands")?;
        }
        self.type_in(0, "data")?;
        self.type_in(0, "start")
    }

    /// Has the fence refuse to switch the machine off that serves: nothing is taken over, or mounted.
    fn refuses_without_fence(&mut self) -> Result<(), String> {
        let other = 1 - self.serving;
        self.begin_takeover(other)?;
        self.answer_fence(other, "refused")?;
        match self.machines[other].finish()? {
            (0, _) => return Err("a machine takes over without a fence".to_owned()),
            (_, said) if !said.contains("was not fenced") => {
                return Err(format!("it is not said why: {said}"));
            }
            _ => {}
        }
        self.machines[other].run("! mountpoint -q /srv/home")?;
        self.machines[self.serving].run("holdfast cluster monitor home").map(drop)
    }

    fn begin_takeover(&mut self, to: usize) -> Result<(), String> {
        let from = NODES[1 - to].0;
        self.steps.begin(&mut self.machines[to], "takeover", &[("--from a", &format!("--from {from}"))])
    }

    /// Answers a request to switch the other machine off.
    fn answer_fence(&mut self, asking: usize, answer: &str) -> Result<(), String> {
        let request = self.machines[asking].share().join("fence");
        self.machines[asking].await_file("fence", FENCED)?;
        let asked = fs::read_to_string(&request).map_err(process::at(&request))?;
        if asked.trim() != NODES[1 - asking].0 {
            return Err(format!("{} is to be fenced", asked.trim()));
        }
        fs::remove_file(&request).map_err(process::at(&request))?;
        if answer == "off" {
            self.machines[1 - asking].cut_power();
        }
        let path = self.machines[asking].share().join("fence-answer");
        fs::write(&path, answer).map_err(process::at(&path))
    }

    /// Loses the machine that serves: it is without power at once, or cut off and serves on until it is fenced.
    fn lose(&mut self, at_once: bool) -> Result<(), String> {
        let (from, to) = (self.serving, 1 - self.serving);
        if at_once {
            self.machines[from].cut_power();
        } else {
            ip(&["link", "set", &format!("guest{}", NODES[from].1), "down"])?;
        }
        thread::sleep(DETECTION);
        self.begin_takeover(to)?;
        self.answer_fence(to, "off")?;
        self.machines[to].finish_successfully("takeover")?;
        (self.serving, self.is_other_off) = (to, true);
        self.note_start()
    }

    /// Moves the group to the other machine, as the document says of the machine that is back.
    fn give_back(&mut self) -> Result<(), String> {
        let (from, to) = (self.serving, 1 - self.serving);
        self.type_in(from, "give")?;
        self.type_in(to, "take")?;
        self.serving = to;
        self.note_start()
    }

    /// Boots the machine that was lost.
    fn heal(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_other_off) {
            self.machines[1 - self.serving].boot()?;
        }
        Ok(())
    }

    /// Notes how long the last start took.
    fn note_start(&mut self) -> Result<(), String> {
        let status = self.machines[self.serving].run("holdfast cluster status")?;
        let line = status.lines().find_map(|line| line.trim().strip_prefix("last start  "));
        self.starts.push(line.ok_or("the agent does not say how long the start took")?.to_owned());
        Ok(())
    }

    /// Stops the group, checks its volume, and switches the machines off. Returns how long starts took.
    fn finish(&mut self) -> Result<String, String> {
        let serving = self.serving;
        self.machines[serving].run("holdfast cluster stop home")?;
        typed::check_volume(&mut self.machines[serving])?;
        for machine in &mut self.machines {
            machine.switch_off()?;
        }
        for start in &self.starts {
            println!("     start: {start}");
        }
        Ok(format!("{} starts", self.starts.len()))
    }
}
