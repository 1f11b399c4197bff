//! Takeovers of whole pools while changes of a killed owner are under way: they arrive before any call of the next owner, which may be
//! killed as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use volume::check::{CheckOptions, check};
use volume::media::Media;

use crate::media::RadosMedia;
use crate::memory::link::{Break, Late, Link, arrive_in_any_order};
use crate::memory::{MemoryObjects, seed};
use crate::objects::Objects;
use crate::scenarios::{Owner, new_pool, place_of, seal_pool, take};

/// When owners are killed, and when what they had sent arrives. Calls are counted from 0.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// For the changes.
    seed: u64,
    /// For the order in which late ones arrive.
    order: u64,
    /// With which call the first owner is killed, counted from when it serves.
    first_killed: Break,
    /// The call of the second owner before which what the first one had sent arrives.
    arrives_at: u64,
    /// The call at which the second owner is killed; it serves for a while if `None`.
    second_killed_at: Option<u64>,
    fault: Option<Fault>,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The second owner reads before it seals.
    ReadsFirst,
    /// The first owner's changes have no guards.
    NoGuards,
}

/// A change of a client.
enum Change {
    Write(String, Vec<u8>),
    Remove(String, Vec<u8>),
}

/// A change that was not acknowledged as a whole.
struct Uncertain {
    change: Change,
    /// How many bytes of a write were acknowledged.
    bytes: usize,
}

impl Change {
    /// Returns the name, and the content after the change.
    fn outcome(&self) -> (String, Option<Vec<u8>>) {
        match self {
            Change::Write(name, content) => (name.clone(), Some(content.clone())),
            Change::Remove(name, _) => (name.clone(), None),
        }
    }

    /// Makes the change. Returns it if it was not acknowledged as a whole.
    fn make(self, owner: &Owner) -> Option<Uncertain> {
        let (bytes, wanted) = match &self {
            Change::Write(name, content) => (owner.write_some(name, content), content.len()),
            Change::Remove(name, _) => (usize::from(owner.remove(name)), 1),
        };
        (bytes < wanted).then_some(Uncertain { change: self, bytes })
    }
}

impl Uncertain {
    /// Whether its file may have this content.
    fn permits(&self, found: Option<&[u8]>) -> bool {
        match (&self.change, found) {
            (Change::Write(_, content), Some(found)) => {
                content.starts_with(found) && found.len() >= self.bytes
            }
            (Change::Write(..), None) => self.bytes == 0,
            (Change::Remove(_, content), found) => found.is_none_or(|found| found == content),
        }
    }
}

/// What clients know.
#[derive(Default)]
struct Known {
    /// The content of each file; `None` of one that was removed.
    files: BTreeMap<String, Option<Vec<u8>>>,
    uncertain: Option<Uncertain>,
}

impl Known {
    /// Makes random changes until one is not acknowledged, or `count` were.
    fn change(&mut self, owner: &Owner, rng: &mut Rng, count: usize) {
        for _ in 0..count {
            let change = self.choose(rng);
            let outcome = change.outcome();
            self.uncertain = change.make(owner);
            if self.uncertain.is_some() {
                return;
            }
            self.files.extend([outcome]);
            if rng.u8(..4) == 0 {
                owner.background();
            }
        }
    }

    fn choose(&self, rng: &mut Rng) -> Change {
        let mut there = self.files.iter().filter_map(|(name, content)| Some((name, content.as_ref()?)));
        match there.nth(rng.usize(..10)) {
            Some((name, content)) if rng.bool() => Change::Remove(name.clone(), content.clone()),
            _ => {
                let name = format!("file-{}", self.files.len());
                Change::Write(name, vec![rng.u8(1..); rng.usize(1..100_000)])
            }
        }
    }

    /// Compares what an owner has with what clients know, who from now on know what became of the uncertain change.
    fn judge(&mut self, owner: &Owner) -> Result<(), String> {
        let find = |name: &str| owner.find(name).map_err(|error| format!("{name}: {error:?}"));
        if let Some(uncertain) = self.uncertain.take() {
            let (name, _) = uncertain.change.outcome();
            let found = find(&name)?;
            if !uncertain.permits(found.as_deref()) {
                return Err(format!("{name} lacks what was acknowledged, or has what nobody wrote"));
            }
            self.files.insert(name, found);
        }
        for (name, content) in &self.files {
            if find(name)? != *content {
                return Err(format!("{name} has other content, or should be there or not be there"));
            }
        }
        Ok(())
    }

    /// Requires that an owner that nobody killed acknowledged everything.
    fn all_acknowledged(&self) -> Result<(), String> {
        let refused = self.uncertain.as_ref().map(|uncertain| uncertain.change.outcome().0);
        refused.map_or(Ok(()), |name| Err(format!("the change of {name} was not acknowledged")))
    }
}

/// What was sent over broken links.
type UnderWay = Arc<Mutex<Vec<Late>>>;

/// Lets everything arrive before a call of `link`.
fn arrive_before(link: &Link, call: u64, under_way: &UnderWay, objects: &Arc<MemoryObjects>, mut order: Rng) {
    let (under_way, objects) = (Arc::clone(under_way), Arc::clone(objects));
    link.before_call(call, move || {
        let late = std::mem::take(&mut *under_way.lock().unwrap());
        arrive_in_any_order(&objects, late, &mut order);
    });
}

/// Kills an owner. What it sent over the broken link is still under way; it sends nothing more.
fn kill(owner: Option<Owner>, link: &Link, under_way: &UnderWay) {
    link.end();
    under_way.lock().unwrap().extend(link.take_late());
    drop(owner);
}

/// Takes the pool over. The process ends once it is refused anything.
fn open(link: &Arc<Link>, epoch: u64, seals_late: bool) -> Result<Owner, String> {
    let ended = Arc::clone(link);
    let objects = Arc::<Link>::clone(link) as Arc<dyn Objects>;
    let place = place_of(objects, epoch, Arc::new(move |_| ended.end()));
    let seal = || seal_pool(&place).map_err(|error| error.to_string());
    if seals_late {
        // Its changes name an epoch that the objects do not have yet.
        link.omit_guards(true);
    } else {
        seal()?;
    }
    let media = RadosMedia::open(&place).map_err(|error| error.to_string())?;
    let owner = Owner::open(Arc::new(media), epoch).map_err(|error| error.0)?;
    if seals_late {
        seal()?;
        link.omit_guards(false);
    }
    Ok(owner)
}

/// Runs a schedule. Returns the number of calls that the second owner made to take the pool over.
fn run(schedule: &Schedule) -> Result<u64, String> {
    let (mut rng, mut order) = (Rng::with_seed(schedule.seed), Rng::with_seed(schedule.order));
    let objects = new_pool();
    let under_way = UnderWay::default();
    let mut known = Known::default();

    let link = Link::new(&objects, 2);
    let first = open(&link, 2, false)?;
    if schedule.fault == Some(Fault::NoGuards) {
        link.omit_guards(true);
    }
    let serves = link.calls();
    link.break_with(match schedule.first_killed {
        Break::At(call) => Break::At(serves + call),
        Break::InPlace(call) => Break::InPlace(serves + call),
    });
    known.change(&first, &mut rng, 100);
    kill(Some(first), &link, &under_way);

    let link = Link::new(&objects, 3);
    arrive_before(&link, schedule.arrives_at, &under_way, &objects, order.fork());
    if let Some(call) = schedule.second_killed_at {
        link.break_with(Break::At(call));
    }
    let second = open(&link, 3, schedule.fault == Some(Fault::ReadsFirst));
    let calls = link.calls();
    let second = match second {
        Err(error) if !link.is_broken() => return Err(error),
        second => second.ok(),
    };
    // One that was to be killed may be cut off while it is judged.
    if let (Some(second), None) = (&second, schedule.second_killed_at) {
        known.judge(second)?;
        link.break_with(Break::At(link.calls() + order.u64(..100)));
        known.change(second, &mut rng, 10);
        if !link.is_broken() {
            known.all_acknowledged()?;
        }
    }
    kill(second, &link, &under_way);

    let link = Link::new(&objects, 4);
    arrive_before(&link, order.u64(..100), &under_way, &objects, order.fork());
    let third = open(&link, 4, false)?;
    known.judge(&third)?;
    known.change(&third, &mut rng, 5);
    known.all_acknowledged()?;
    third.background();
    known.judge(&third)?;
    drop(third);
    let report = check(&(take(&objects, 5) as Arc<dyn Media>), &CheckOptions::default());
    let faults = report.map_err(|error| error.to_string())?.faults;
    if faults.is_empty() { Ok(calls) } else { Err(format!("{faults:#?}")) }
}

/// Calls after the takeover before which late changes arrive, too.
const SERVING: u64 = 40;

/// Chooses when the first owner is killed: mostly with a change in place under way, as only such changes could harm others.
fn killed(rng: &mut Rng) -> Break {
    let call = rng.u64(..300);
    if rng.u8(..4) == 0 { Break::At(call) } else { Break::InPlace(call) }
}

#[test]
fn late_changes_and_kills_at_any_call_of_a_takeover_harm_nothing() {
    let mut rng = Rng::with_seed(seed());
    let rounds = std::env::var("HOLDFAST_TAKEOVERS").map_or(2, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        let mut schedule = Schedule {
            seed: rng.u64(..),
            order: 0,
            first_killed: killed(&mut rng),
            arrives_at: 0,
            second_killed_at: None,
            fault: None,
        };
        let judged =
            |schedule: &Schedule| run(schedule).unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        let calls = judged(&schedule);
        assert!(calls > 20, "{calls}");
        for call in 0..calls + SERVING {
            (schedule.arrives_at, schedule.order) = (call, rng.u64(..));
            schedule.second_killed_at = rng.bool().then(|| rng.u64(..=calls));
            judged(&schedule);
        }
    }
}

/// Returns how many of the schedules show that a fault was planted.
fn detected(fault: Fault, runs: u64) -> usize {
    let mut rng = Rng::with_seed(1);
    let mut schedules = (0..runs).map(|_| Schedule {
        seed: rng.u64(..),
        order: rng.u64(..),
        first_killed: killed(&mut rng),
        arrives_at: rng.u64(..200),
        second_killed_at: None,
        fault: Some(fault),
    });
    schedules.by_ref().filter(|schedule| run(schedule).is_err()).count()
}

#[test]
fn omitted_guards_and_reads_before_the_seal_are_detected() {
    for fault in [Fault::NoGuards, Fault::ReadsFirst] {
        let found = detected(fault, 60);
        println!("{fault:?}: detected by {found} of 60");
        assert!(found > 0, "{fault:?}");
    }
}
