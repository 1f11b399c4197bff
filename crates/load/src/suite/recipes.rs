//! How each published test runs here: threads, operations in flight, stability, amount of data.

use super::{Machine, Scale, SuiteTest};
use crate::published::{self, Shape};
use crate::workload::{Stability, Workload};

use WorkingSet::{Large, Small};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes in flight of all threads together.
pub(super) const IN_FLIGHT_BYTES_MAX: u64 = 128 * MIB;

/// Files per directory, as in Dell's report.
const FILES_PER_DIRECTORY: u64 = 3000;

/// For reports that do not state threads: as many calls in flight as NULL calls need to reach their limit.
const UNSTATED: &[u32] = &[8];
const UNSTATED_DEPTH: u32 = 16;

/// The size of the working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkingSet {
    /// Fits the memory of any server, for tests that were published as cached.
    Small,
    /// As large as the scale allows.
    Large,
}

/// How to run a published test.
struct Recipe {
    /// The test's figures. The shape of the first determines the workload.
    ids: &'static [&'static str],
    /// Numbers of threads, that of the figure first.
    threads: &'static [u32],
    depth: u32,
    set: WorkingSet,
    /// The stability of writes.
    stability: Stability,
}

/// One operation in flight, UNSTABLE writes and a COMMIT at the end, like IOzone and IOR with `-e`.
const fn streams(ids: &'static [&'static str], threads: &'static [u32]) -> Recipe {
    Recipe { ids, threads, depth: 1, set: Large, stability: Stability::Unstable }
}

/// Synchronous writes, as with a `sync` mount or direct I/O.
const fn synced(
    ids: &'static [&'static str],
    threads: &'static [u32],
    depth: u32,
    set: WorkingSet,
) -> Recipe {
    Recipe { ids, threads, depth, set, stability: Stability::FileSync }
}

/// Direct writes that a client splits: a COMMIT after each.
const fn split(ids: &'static [&'static str], threads: &'static [u32], depth: u32) -> Recipe {
    Recipe { ids, threads, depth, set: Large, stability: Stability::Commit }
}

const RECIPES: &[Recipe] = &[
    streams(&["dell-seq-read"], &[16, 1, 4, 64]),
    streams(&["dell-seq-write"], &[8, 1, 64]),
    synced(&["dell-random-read"], &[64, 1, 16], 1, Large),
    synced(&["dell-random-write"], &[32, 1, 64], 1, Large),
    streams(
        &["dell-mdtest-empty-create", "dell-mdtest-empty-stat", "dell-mdtest-empty-remove"],
        &[512, 1, 32],
    ),
    streams(&["dell-mdtest-4k-create", "dell-mdtest-4k-stat", "dell-mdtest-4k-read"], &[512, 1, 32]),
    streams(&["pixstor-seq-read"], &[512, 1, 8]),
    streams(&["pixstor-seq-write"], &[512, 1, 8]),
    streams(&["pixstor-shared-read"], &[32, 1, 8]),
    streams(&["pixstor-shared-write"], &[512, 1, 8]),
    synced(&["anf-4k-cached-read"], UNSTATED, UNSTATED_DEPTH, Small),
    synced(&["anf-4k-cached-write"], UNSTATED, UNSTATED_DEPTH, Small),
    synced(&["anf-4k-uncached-read", "starwind-4k-read"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["starwind-4k-90-10"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["starwind-4k-70-30"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-4k-uncached-write"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["starwind-cache-4k-read", "starwind-nvmeof-4k-read"], UNSTATED, UNSTATED_DEPTH, Small),
    synced(&["anf-8k-uncached-read"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-8k-uncached-write"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-64k-cached-read"], UNSTATED, UNSTATED_DEPTH, Small),
    synced(&["anf-64k-cached-write"], UNSTATED, UNSTATED_DEPTH, Small),
    synced(&["anf-64k-uncached-read"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-64k-uncached-write"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-256k-uncached-read"], UNSTATED, UNSTATED_DEPTH, Large),
    synced(&["anf-256k-uncached-write"], UNSTATED, UNSTATED_DEPTH, Large),
    split(&["oci80-1m-read"], &[64], 64),
    split(&["oci80-1m-write"], &[64], 64),
    synced(&["oci80-32k-read"], &[64], 64, Large),
    synced(&["oci80-32k-write"], &[64], 64, Large),
    synced(&["oci80-4k-read"], &[64], 64, Large),
    synced(&["oci80-4k-write"], &[64], 64, Large),
    split(&["oci20-1m-read"], &[32], 64),
    split(&["oci20-1m-write"], &[32], 64),
    synced(&["oci20-32k-read"], &[32], 64, Large),
    synced(&["oci20-32k-write"], &[32], 64, Large),
    synced(&["oci20-4k-read"], &[32], 64, Large),
    synced(&["oci20-4k-write"], &[32], 64, Large),
    split(&["starwind-2m-read"], UNSTATED, UNSTATED_DEPTH),
    split(&["starwind-2m-write"], UNSTATED, UNSTATED_DEPTH),
];

/// Returns all tests. Published tests that are identical here run once, for all their figures.
pub(super) fn steps(scale: Scale, machine: &Machine) -> Vec<SuiteTest> {
    let mut steps: Vec<SuiteTest> = Vec::new();
    for recipe in RECIPES {
        let mut threads = recipe.threads.to_vec();
        if scale == Scale::Quick {
            threads.truncate(1);
        }
        threads.sort_unstable();
        for threads in threads {
            let Some(mut step) = step(recipe, threads, scale, machine) else { continue };
            // The test with the published number of threads, or the most that fit, represents the figure.
            let is_published = recipe.threads.first() == Some(&threads);
            step.published = if is_published { recipe.ids.to_vec() } else { Vec::new() };
            match steps.iter_mut().find(|known| is_same(known, &step)) {
                Some(known) => known.published.append(&mut step.published),
                None => steps.push(step),
            }
        }
    }
    steps
}

fn is_same(a: &SuiteTest, b: &SuiteTest) -> bool {
    (a.workload, a.threads, a.depth, a.working_set_bytes)
        == (b.workload, b.threads, b.depth, b.working_set_bytes)
}

fn step(recipe: &Recipe, threads: u32, scale: Scale, machine: &Machine) -> Option<SuiteTest> {
    let row = published::find(recipe.ids.first()?)?;
    if let Shape::Metadata { file_bytes, .. } = row.shape {
        // At most a quarter of the space, including the overhead of each file.
        let files = files(scale, machine).min(machine.free_bytes / 4 / (file_bytes + 4 * KIB)).max(1);
        let threads = threads.min(u32::try_from(files).unwrap_or(u32::MAX));
        let each = (files / u64::from(threads)).max(1);
        let files_per_directory = each.min(FILES_PER_DIRECTORY);
        let directories_per_thread = (each / files_per_directory).max(1);
        let workload = Workload::Metadata { files_per_directory, directories_per_thread, file_bytes };
        return Some(SuiteTest { workload, threads, depth: 1, working_set_bytes: 0, published: Vec::new() });
    }
    let block = row.shape.block_bytes()?;
    let working_set_bytes = working_set(recipe.set, scale, machine).max(block);
    let threads_max = u32::try_from(working_set_bytes / block).unwrap_or(u32::MAX);
    let threads = threads.min(threads_max);
    let each = IN_FLIGHT_BYTES_MAX / (u64::from(threads) * block);
    let depth = recipe.depth.min(u32::try_from(each).unwrap_or(u32::MAX)).max(1);
    let stability = recipe.stability;
    let workload = match row.shape {
        Shape::Sequential { write: false, block_bytes, shared_file } => {
            Workload::SequentialRead { block_bytes, shared_file }
        }
        Shape::Sequential { write: true, block_bytes, shared_file } => {
            Workload::SequentialWrite { block_bytes, shared_file, stability }
        }
        Shape::Random { read_percent, block_bytes } => {
            Workload::Random { block_bytes, read_percent, stability }
        }
        Shape::Metadata { .. } => return None,
    };
    Some(SuiteTest { workload, threads, depth, working_set_bytes, published: Vec::new() })
}

/// Returns the bytes of files that fit the memory of any server.
pub(super) fn small_set(scale: Scale, machine: &Machine) -> u64 {
    working_set(Small, scale, machine)
}

/// Returns the bytes of files, at most a quarter of the free space.
fn working_set(set: WorkingSet, scale: Scale, machine: &Machine) -> u64 {
    let wanted = match (set, scale) {
        (Small, Scale::Quick) => 32 * MIB,
        (Small, _) => 64 * MIB,
        (Large, Scale::Quick) => 128 * MIB,
        (Large, Scale::Standard) => GIB.min(machine.memory_bytes / 8),
        (Large, Scale::Long) => machine.memory_bytes.saturating_mul(2),
    };
    (wanted.min(machine.free_bytes / 4) / MIB * MIB).max(MIB)
}

/// Returns the number of files of a metadata test, which grows with the processors.
fn files(scale: Scale, machine: &Machine) -> u64 {
    let each = u64::from(machine.cores.clamp(1, 16));
    match scale {
        Scale::Quick => 2048 * each,
        Scale::Standard => 24_000 * each,
        Scale::Long => 960_000.max(48_000 * each),
    }
}

#[cfg(test)]
pub(super) fn ids() -> Vec<&'static str> {
    RECIPES.iter().flat_map(|recipe| recipe.ids).copied().collect()
}
