//! How long clients waited, by what happened to the machine that served them.

use std::fs;

use crate::e2e::lab::{Lab, Peer};
use crate::process;

/// The longest pause of a client that is no failure, seconds, besides the time for which nobody could serve it. What is promised is
/// measured: see docs/results.md.
const STALL_MAX: f64 = 30.0;

/// Rounds that are shown with their pauses.
const SHOWN: usize = 3;

/// What happened to a machine.
pub(in crate::e2e) trait Kind {
    /// Returns what it is called.
    fn name(&self) -> &'static str;
    /// Returns for how long nobody can serve clients because of it, seconds.
    fn pause(&self) -> f64;
}

/// Returns the longest pauses, without the time for which nobody could serve the clients; prints them for each version.
pub(in crate::e2e) fn judge(lab: &Lab, versions: &[&str], blows: &[impl Kind]) -> Result<String, String> {
    let mut longest = vec![0.0; blows.len()];
    for (number, version) in (1..).zip(versions) {
        let waited = of_guest(lab, number, blows)?;
        println!("NFSv{version}: {}; longest {}", summary(&waited, blows), rounds(&waited));
        longest.iter_mut().zip(waited).for_each(|(most, waited)| *most = f64::max(*most, waited));
    }
    let summary = summary(&longest, blows);
    match longest.iter().position(|waited| *waited > STALL_MAX) {
        // nfs-ganesha is not judged.
        Some(round) if lab.peer == Peer::Holdfast => {
            Err(format!("a client waited too long in round {}: {summary}", round + 1))
        }
        _ => Ok(summary),
    }
}

/// Returns how long the operations of a guest took at most in each round, beyond the time for which nobody could serve it.
fn of_guest(lab: &Lab, number: u32, blows: &[impl Kind]) -> Result<Vec<f64>, String> {
    let mut longest = vec![0.0; blows.len()];
    let path = lab.out().join(format!("stall-guest{number}"));
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    for line in text.lines() {
        let pair =
            line.split_once(' ').and_then(|(round, took)| Some((round.parse().ok()?, took.parse().ok()?)));
        let (round, took): (usize, f64) = pair.ok_or_else(|| format!("{}: {line:?}", path.display()))?;
        let Some(index) = round.checked_sub(1) else { continue };
        let blow = blows.get(index).ok_or_else(|| format!("{}: no round {round}", path.display()))?;
        longest[index] = f64::max(longest[index], took - blow.pause());
    }
    Ok(longest)
}

/// Returns the rounds with the longest pauses.
fn rounds(longest: &[f64]) -> String {
    let mut rounds: Vec<(usize, f64)> = (1..).zip(longest.iter().copied()).collect();
    rounds.sort_by(|one, other| other.1.total_cmp(&one.1));
    let shown = rounds.iter().take(SHOWN).map(|(round, waited)| format!("{waited:.2} s in round {round}"));
    shown.collect::<Vec<_>>().join(", ")
}

fn summary(longest: &[f64], blows: &[impl Kind]) -> String {
    let mut names: Vec<&str> = blows.iter().map(Kind::name).collect();
    names.sort_unstable();
    names.dedup();
    let of_kind = |name: &&str| {
        let of = longest.iter().zip(blows).filter(|(_, blow)| blow.name() == *name);
        let mut of: Vec<f64> = of.map(|(waited, _)| *waited).collect();
        of.sort_by(f64::total_cmp);
        let (median, most) = (of.get(of.len() / 2)?, of.last()?);
        Some(format!("{name} {} x: p50 {median:.2} s, max {most:.2} s", of.len()))
    };
    let kinds: Vec<String> = names.iter().filter_map(of_kind).collect();
    kinds.join("; ")
}
