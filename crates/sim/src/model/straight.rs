//! What NFSv3 does not have: protocol state, files that are held, creation as NFSv4 does it.

use std::rc::Rc;

use volume::attributes::FileType;
use volume::request::{Credentials, Error};

use super::{Judgement, Model, Told, Verdict};
use crate::call::{How, Name, Obj, OperationId, Outcome, Straight, Success};

/// The name `..`.
const PARENT: Name = Name(11);

impl Model {
    /// Judges the answer to a call that NFSv3 does not have, and follows it.
    pub(super) fn judge_straight(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        straight: Straight,
        outcome: &Outcome,
    ) -> Judgement<Told> {
        match straight {
            Straight::ChangeState { .. } => {
                self.decide(&Verdict::default(), true, outcome)?;
                self.mutations += u64::from(outcome.is_ok());
                Ok(Told { mutation: self.mutations, ..Told::default() })
            }
            Straight::Hold { object } => {
                let told = self.get_attributes(object, outcome)?;
                if let (Some(ino), true) = (self.ino(object), outcome.is_ok()) {
                    self.edit(ino).held += 1;
                }
                Ok(told)
            }
            Straight::Release { object } => {
                let ino = self.ino(object).filter(|ino| self.inodes.contains_key(ino));
                if let Some(ino) = ino.filter(|ino| self.inodes[ino].held > 0) {
                    self.edit(ino).held -= 1;
                }
                Ok(Told::default())
            }
            Straight::ReapOrphan => self.reap_orphan(outcome),
            Straight::LookupParent { directory } if self.ino(directory) == self.ino(Obj(0)) => {
                let mut verdict = Verdict::default();
                verdict.must(true, Error::NoEntry);
                self.decide(&verdict, false, outcome).map(|_| Told::default())
            }
            Straight::LookupParent { directory } => self.lookup(who, directory, PARENT, outcome),
            Straight::CreateExclusive { directory, name, verifier, set } => {
                let how = How::ExclusiveWith(verifier, set);
                self.create(id, who, now, (directory, name, &how), outcome)
            }
        }
    }

    /// Files that are held, with how often.
    pub fn held(&self) -> impl Iterator<Item = (u64, u32)> {
        self.inodes.iter().filter(|(_, inode)| inode.held > 0).map(|(ino, inode)| (*ino, inode.held))
    }

    /// The same files, as the operations that created them name them.
    #[must_use]
    pub fn held_objects(&self) -> Vec<Obj> {
        let held = |ino: &u64| self.inodes.get(ino).is_some_and(|inode| inode.held > 0);
        self.born.iter().filter(|(_, ino)| held(ino)).map(|(id, _)| Obj(*id)).collect()
    }

    /// The engine may take none if it is busy, and takes that with the lowest number.
    fn reap_orphan(&mut self, outcome: &Outcome) -> Judgement<Told> {
        let leaves =
            |inode: &super::Inode| inode.kind == FileType::Regular && inode.links == 0 && inode.held == 0;
        let first = self.inodes.iter().find(|(_, inode)| leaves(inode)).map(|(ino, _)| *ino);
        match (outcome, first) {
            (Ok(Success::Reaped(0)), _) => {}
            (Ok(Success::Reaped(1)), Some(ino)) => {
                self.mutations += 1;
                self.usage_by = self.mutations;
                self.inodes.remove(&ino);
                Rc::make_mut(&mut self.gone).insert(ino, self.mutations);
            }
            _ => return Err(format!("odd answer {outcome:?} where {first:?} may go")),
        }
        Ok(Told::default())
    }
}
