//! Planned faults of media calls.

/// A part of the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaPart {
    /// The journal's ring.
    Log,
    /// The index file.
    Index,
    /// A segment.
    Blob,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reading.
    Read,
    /// Writing or appending.
    Write,
    /// Syncing.
    Sync,
    /// Creating a blob, or growing a file.
    Allocate,
    /// Deleting a blob.
    Delete,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// EIO. A write may have written some of its sectors; a sync discards dirty sectors, and the next one succeeds.
    Fail,
    /// ENOSPC; nothing changed.
    Full,
    /// A sync that returns `Ok` and does nothing. No real medium may do this: it tests the simulation.
    Lie,
}

/// A planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The affected part; all if `None`.
    pub part: Option<MediaPart>,
    /// The affected kind of call.
    pub action: Action,
    /// The number of such calls that succeed first.
    pub after: u64,
    /// The effect.
    pub effect: Effect,
    /// Whether every later such call fails, too.
    pub lasting: bool,
}

/// The planned faults, which count down.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPlan {
    faults: Vec<Fault>,
    pub(crate) struck: u64,
}

impl FaultPlan {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Counts a call, and returns the fault that it meets.
    pub(crate) fn strike(&mut self, part: MediaPart, action: Action) -> Option<Effect> {
        let concerned = |fault: &Fault| fault.action == action && fault.part.is_none_or(|at| at == part);
        let mut effect = None;
        for fault in self.faults.iter_mut().filter(|fault| concerned(fault)) {
            if fault.after > 0 {
                fault.after -= 1;
            } else {
                effect = effect.or(Some(fault.effect));
            }
        }
        self.struck += u64::from(effect.is_some());
        let spent =
            |fault: &Fault| effect.is_some() && concerned(fault) && fault.after == 0 && !fault.lasting;
        self.faults.retain(|fault| !spent(fault));
        effect
    }
}
