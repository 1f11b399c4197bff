//! Judges what processes do, by what must hold of a group whoever owns it.

use std::collections::BTreeMap;

use cluster::{Epoch, LeaseRecord, LeaseState};

use super::journal::{Journal, OperationId};
use super::process::Reply;

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Executed,
    Acknowledged,
    /// An owner opened the group without it, so nobody may see it again.
    Lost,
}

/// The judge.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The process that owns each epoch.
    owners: BTreeMap<Epoch, u64>,
    /// The epoch of the last execution.
    executed: Epoch,
    fates: Vec<Fate>,
    acknowledged: Vec<OperationId>,
    identity: Option<u64>,
}

impl Judge {
    /// Returns the last epoch in which the lease was taken.
    pub fn last_epoch(&self) -> Epoch {
        self.owners.keys().next_back().copied().unwrap_or(Epoch::NONE)
    }

    /// Returns how many operations were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Returns how many operations were lost before they were acknowledged.
    pub fn lost(&self) -> usize {
        self.fates.iter().filter(|fate| **fate == Fate::Lost).count()
    }

    /// Returns the number of the next operation.
    pub fn next_operation(&self) -> OperationId {
        self.fates.len() as u64
    }

    /// The lease object was replaced.
    pub fn on_lease(&mut self, bytes: &[u8]) -> Result<(), String> {
        let record = LeaseRecord::decode(bytes).map_err(|damage| format!("a lease was written: {damage}"))?;
        let owner = *self.owners.entry(record.epoch).or_insert(record.owner.instance());
        let is_his = owner == record.owner.instance();
        let goes_back = record.epoch < self.last_epoch();
        if goes_back || (!is_his && record.state == LeaseState::Held) {
            return Err(format!("the lease was changed to {record:?}, {owner} owning that epoch"));
        }
        Ok(())
    }

    /// An owner of `epoch` executes a call.
    pub fn on_execution(&mut self, epoch: Epoch, operation: Option<OperationId>) -> Result<(), String> {
        if epoch < self.executed {
            return Err(format!("I1: {epoch:?} executes after {:?} did", self.executed));
        }
        self.executed = epoch;
        if operation.is_some() {
            self.fates.push(Fate::Executed);
        }
        Ok(())
    }

    /// The owner of `epoch` opened the group. If somebody took the lease from it meanwhile, it may have read anything.
    pub fn on_opened(&mut self, epoch: Epoch, journal: &Journal) -> Result<(), String> {
        if epoch < self.last_epoch() {
            return Ok(());
        }
        let mut is_missing = vec![true; self.fates.len()];
        for operation in journal.state() {
            let place = usize::try_from(*operation).unwrap_or(usize::MAX);
            match self.fates.get(place) {
                Some(Fate::Lost) => return Err(format!("I2: {epoch:?} found {operation}, which was lost")),
                Some(_) if is_missing[place] => is_missing[place] = false,
                _ => return Err(format!("I2: {epoch:?} found {operation}, which is unknown or there twice")),
            }
        }
        if journal.state().windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(format!("I2: {epoch:?} found operations in another order: {:?}", journal.state()));
        }
        for (operation, fate) in self.fates.iter_mut().enumerate().filter(|(at, _)| is_missing[*at]) {
            if *fate == Fate::Acknowledged {
                return Err(format!("I2: {epoch:?} misses {operation}, which was acknowledged"));
            }
            *fate = Fate::Lost;
        }
        Ok(())
    }

    /// A reply leaves.
    pub fn on_reply(&mut self, journal: &Journal, reply: Reply) -> Result<(), String> {
        let identity = *self.identity.get_or_insert(journal.identity());
        if identity != journal.identity() {
            return Err(format!("I5: the identity {identity} became {}", journal.identity()));
        }
        let shown = &journal.state()[..reply.shown];
        let before = &self.acknowledged[..reply.acknowledged_before];
        if let Some(missing) = before.iter().find(|operation| shown.binary_search(operation).is_err()) {
            return Err(format!("I1: a reply does not show {missing}, acknowledged before its call came"));
        }
        if let Some(operation) = reply.operation {
            let fate = &mut self.fates[usize::try_from(operation).expect("it was executed")];
            if *fate == Fate::Lost {
                return Err(format!("I2: {operation} is acknowledged, which an owner did not find"));
            }
            *fate = Fate::Acknowledged;
            self.acknowledged.push(operation);
        }
        Ok(())
    }
}
