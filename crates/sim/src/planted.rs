//! Faults in the proof itself, planted to see that it finds them.

use std::ops::Range;

use crate::crash::judge;
use crate::media::Fault;
use crate::random::Random;
use crate::run::{BEGIN, Run, Sizes, through};
use crate::workload::{Profile, Workload};

/// What is broken on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Planted {
    /// Nothing.
    Nothing,
    /// The media do this.
    Media(Fault),
    /// Replies leave at once, durable or not.
    EarlyReplies,
}

/// Whether crashing any of these seeds everywhere shows that something is wrong.
#[must_use]
pub fn caught(planted: Planted, mut seeds: Range<u64>) -> bool {
    seeds.any(|seed| crash_everywhere(planted, seed).is_err())
}

fn crash_everywhere(planted: Planted, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let profile = Profile { reopen: false, ..Profile::default() };
    let mut workload = Workload::new(random.fork(), profile, BEGIN + 10_000_000_000);
    let mut run = Run::new(Sizes::default(), random.fork())?.through(through(seed));
    match planted {
        Planted::Nothing => {}
        Planted::Media(fault) => run.media.plan(fault),
        Planted::EarlyReplies => run.early_replies = true,
    }
    run.media.record();
    for _ in 0..60 {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    for boundary in run.media.recorded() {
        judge(&run, &boundary, &mut random, false)?;
    }
    Ok(())
}
