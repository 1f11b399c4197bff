//! Tries crashes at the boundaries of a recording.

use crate::media::Boundary;
use crate::random::Random;

/// Judges crashes at some boundaries, about `most` of them, and at one that is drawn first. Adds their number to `points`. Returns what
/// recovered from that one; none without boundaries.
///
/// # Errors
/// The first thing that was wrong, with the number of its boundary.
pub(super) fn try_some<T>(
    boundaries: &[Boundary],
    most: usize,
    random: &mut Random,
    points: &mut u64,
    mut judge: impl FnMut(&Boundary, &mut Random) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let chosen = random.index(boundaries.len());
    let mut successor = None;
    for (number, boundary) in boundaries.iter().enumerate() {
        let is_drawn = random.chance(most as u64, boundaries.len() as u64);
        if number != chosen && !is_drawn {
            continue;
        }
        let recovered = judge(boundary, random).map_err(|wrong| format!("boundary {number}: {wrong}"))?;
        *points += 1;
        if number == chosen {
            successor = Some(recovered);
        }
    }
    Ok(successor)
}
