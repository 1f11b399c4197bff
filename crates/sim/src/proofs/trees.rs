//! Quota trees. Directories with and without contents become trees and cease to be trees while files are made, written, moved and
//! removed; at each boundary the device is crashed and opened, and walks are finished. Then the usage of each tree is counted
//! anew from the names beneath its directory, no limit is exceeded, and the offline check finds no fault.

mod world;

use std::sync::Arc;

use volume::Pool;
use volume::trees::TreeState;

use super::boundaries::try_some;
use super::crash::check_offline;
use crate::engine::{Sizes, open_pool};
use crate::media::{Boundary, SimMedia, Survival};
use crate::random::Random;
use world::{Known, World};

/// The extent of the proof for one seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Crashes and recoveries in a row.
    pub generations: u32,
    /// Events between two crashes.
    pub events: usize,
    /// The maximum number of boundaries tried in each generation.
    pub boundaries: usize,
    /// Whether changes count as acknowledged before they are durable: a planted fault.
    pub is_hasty: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { generations: 3, events: 150, boundaries: 150, is_hasty: false }
    }
}

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
        world.is_hasty = plan.is_hasty;
        world.media.record();
        for _ in 0..plan.events {
            world.event(&mut random).map_err(context)?;
        }
        let judged = |boundary: &Boundary, random: &mut Random| judge(&world, boundary, random);
        let boundaries = world.media.recorded();
        let successor = try_some(&boundaries, plan.boundaries, &mut random, &mut points, judged);
        let Some((media, pool)) = successor.map_err(context)? else { return Ok(points) };
        world = World::resume(media, sizes, &pool, world.now + 2_000_000, world.made())?;
    }
    Ok(points)
}

/// Crashes the device at a boundary, and judges the recovered pool before and after walks are finished.
fn judge(world: &World, boundary: &Boundary, random: &mut Random) -> Result<(SimMedia, Arc<Pool>), String> {
    let survival = Survival::draw(random);
    let context = |wrong: String| format!("after a crash with {survival:?} surviving, {wrong}");
    let media = SimMedia::of(boundary.disk.crash(random, survival), world.sizes.capacity, random.fork());
    let now = world.now + 1_000_000;
    let pool = open_pool(&media, &world.sizes, now).map_err(|wrong| context(format!("no pool: {wrong}")))?;
    let event = usize::try_from(boundary.mark).map_err(|error| error.to_string())?;
    let least = event.checked_sub(1).map_or(0, |before| world.marks[before].0);
    let most = world.marks[event].1;
    let seen = Known::observe(&pool).map_err(context)?;
    if !(least..=most).any(|at| world.history[at] == seen) {
        let known: Vec<&Known> = world.history[least..=most].iter().collect();
        return Err(context(format!("the trees {seen:?} are in no state of {known:?}")));
    }
    let mut next = World::resume(media, world.sizes, &pool, now, world.made()).map_err(context)?;
    check_offline(next.media.disk(), world.sizes.capacity, random).map_err(context)?;
    if random.chance(1, 2) {
        next.finish_walks().map_err(context)?;
        next.count_anew().map_err(context)?;
        let is_done = |state| matches!(state, TreeState::Ready);
        let trees = next.volume.trees().map_err(|error| context(format!("{error:?}")))?;
        let is_refused = |state| matches!(state, TreeState::Refused(_));
        if let Some(tree) = trees.iter().find(|tree| !is_done(tree.state) && !is_refused(tree.state)) {
            return Err(context(format!("{tree:?} is not done")));
        }
        check_offline(next.media.disk(), world.sizes.capacity, random).map_err(context)?;
    }
    let World { media, pool, .. } = next;
    Ok((media, pool))
}
