//! Which calls of the media fail, and how.

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
    /// Making durable.
    Sync,
    /// Creating a blob, or growing a file.
    Allocate,
    /// Deleting a blob.
    Delete,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// EIO. A write may have reached some of its sectors; a sync drops what was dirty and the next one succeeds.
    Fail,
    /// ENOSPC, nothing happened.
    Full,
    /// A sync that says it was done and did nothing. No medium may do this: for tests of the simulation itself.
    Lie,
}

/// One planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where; anywhere if `None`.
    pub part: Option<MediaPart>,
    /// At which kind of call.
    pub action: Action,
    /// How many such calls succeed before.
    pub after: u64,
    /// What goes wrong.
    pub effect: Effect,
    /// Whether every later such call goes wrong too.
    pub lasting: bool,
}

/// The planned faults, counting down.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPlan {
    faults: Vec<Fault>,
    pub(crate) struck: u64,
}

impl FaultPlan {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    /// Counts this call, and says what goes wrong with it.
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
