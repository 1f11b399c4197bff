//! Several volumes in a pool. Volumes are created, renamed, resized and deleted between changes of their files and background
//! work; at each boundary the device is crashed, opened, and compared with the states of the pool that the crash may leave. The
//! usage of each volume is counted anew, and the offline check finds no fault, also when deletions go on after the crash.

mod world;

use std::sync::Arc;

use volume::Pool;
use volume::time::Time;

use super::boundaries::try_some;
use super::crash::check_offline;
use crate::engine::{Sizes, check_usage, open_pool, walk};
use crate::media::{Boundary, Fault, SimMedia, Survival};
use crate::random::Random;
use world::{State, World};

/// The extent of the proof for one seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Crashes and recoveries in a row.
    pub generations: u32,
    /// Events between two crashes.
    pub events: usize,
    /// The maximum number of boundaries tried in each generation.
    pub boundaries: usize,
    /// What the proof must detect.
    pub planted: Planted,
}

/// A fault planted into a run.
#[derive(Clone, Copy, Debug)]
pub enum Planted {
    /// None.
    Nothing,
    /// Media that fail like this.
    Media(Fault),
    /// Changes are acknowledged before they are durable.
    EarlyReplies,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { generations: 3, events: 90, boundaries: 150, planted: Planted::Nothing }
    }
}

/// Rounds of background work after which nothing of a deleted volume may remain.
const ROUNDS: usize = 20;

/// Runs one seed. Returns the number of crashes.
///
/// # Errors
/// The first thing that was wrong.
pub fn run(seed: u64, plan: &Plan) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let sizes = Sizes::draw(&mut random);
    let mut world = World::new(sizes, random.fork())?;
    let mut points = 0;
    for generation in 0..plan.generations {
        let context = |wrong| format!("seed {seed}, generation {generation}: {wrong}");
        world.is_hasty = matches!(plan.planted, Planted::EarlyReplies);
        if let Planted::Media(fault) = plan.planted {
            world.media.plan(fault);
        }
        world.media.record();
        for _ in 0..plan.events {
            world.event(&mut random).map_err(context)?;
        }
        let judged = |boundary: &Boundary, random: &mut Random| judge(&world, boundary, random);
        let boundaries = world.media.recorded();
        let successor = try_some(&boundaries, plan.boundaries, &mut random, &mut points, judged);
        let Some((media, pool, state)) = successor.map_err(context)? else { return Ok(points) };
        world = World::resume(media, sizes, pool, state, (world.now + 2_000_000, world.made()))?;
    }
    Ok(points)
}

/// Crashes the device at a boundary, and judges the recovered pool.
fn judge(
    world: &World,
    boundary: &Boundary,
    random: &mut Random,
) -> Result<(SimMedia, Arc<Pool>, State), String> {
    let survival = Survival::draw(random);
    let context = |wrong: String| format!("after a crash with {survival:?} surviving, {wrong}");
    let media = SimMedia::of(boundary.disk.crash(random, survival), world.sizes.capacity, random.fork());
    let now = world.now + 1_000_000;
    let pool = open_pool(&media, &world.sizes, now).map_err(|wrong| context(format!("no pool: {wrong}")))?;
    let seen = State::observe(&pool, now).map_err(context)?;
    let event = usize::try_from(boundary.mark).map_err(|error| error.to_string())?;
    let least = event.checked_sub(1).map_or(0, |before| world.marks[before].0);
    let most = world.marks[event].1;
    // The oldest one: a volume that was created and deleted again may be lost, and its number be used for another.
    let found = (least..=most).find(|at| world.history[*at].compare(&seen).is_ok());
    let Some(found) = found else {
        let wrong: Vec<String> = (least..=most)
            .filter_map(|at| Some(format!("{at}: {}", world.history[at].compare(&seen).err()?)))
            .collect();
        return Err(context(format!("the pool is in no state from {least} to {most}: {}", wrong.join("; "))));
    };
    sound(&pool, &media, world, random, now).map_err(context)?;
    if random.chance(1, 3) {
        finish_deletions(&pool, now).map_err(context)?;
        let state = State::observe(&pool, now).map_err(context)?;
        world.history[found].compare(&state).map_err(context)?;
        sound(&pool, &media, world, random, now).map_err(context)?;
    }
    Ok((media, pool, world.history[found].recovered(seen)))
}

/// Counts the usage of all volumes anew, and checks the device as a crash now would leave it.
fn sound(
    pool: &Arc<Pool>,
    media: &SimMedia,
    world: &World,
    random: &mut Random,
    now: i64,
) -> Result<(), String> {
    for volume in pool.volumes() {
        let tree = walk(&volume, now)?;
        check_usage(&volume, &tree, now).map_err(|wrong| format!("volume {}: {wrong}", volume.name()))?;
    }
    check_offline(media.disk(), world.sizes.capacity, random)
}

fn finish_deletions(pool: &Arc<Pool>, now: i64) -> Result<(), String> {
    for _ in 0..ROUNDS {
        if !pool.list_volumes().iter().any(|volume| volume.is_being_deleted) {
            return Ok(());
        }
        pool.step_checkpoint(Time::from_nanos(now), true);
    }
    Err("a deleted volume stays".to_owned())
}
