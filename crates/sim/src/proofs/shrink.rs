//! Delta debugging: removes events from a failing list as long as it still fails.

/// Returns the shortest list found that still fails. Calls `fails` at most `tries` times.
pub fn shrink<T: Clone>(events: &[T], tries: usize, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = events.to_vec();
    let mut left = tries;
    let mut chunk = kept.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut removed = false;
        while at < kept.len() && left > 0 {
            let end = kept.len().min(at + chunk);
            let mut candidate = kept[..at].to_vec();
            candidate.extend_from_slice(&kept[end..]);
            left -= 1;
            if fails(&candidate) {
                kept = candidate;
                removed = true;
            } else {
                at = end;
            }
        }
        if left == 0 || chunk == 1 && !removed {
            return kept;
        }
        chunk = chunk.div_ceil(2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn shrinking_keeps_the_events_that_matter() {
        let events: Vec<u32> = (0..1000).collect();
        let small = shrink(&events, 10_000, |events| events.contains(&17) && events.contains(&801));
        assert_eq!(small, [17, 801]);
    }
}
