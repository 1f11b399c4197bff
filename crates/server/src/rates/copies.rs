//! Copies that continue after the reply to COPY. They pass the limits of their pool, volume and client, part by part, each as a
//! WRITE of its bytes. Nothing of them passes a target.

use std::collections::BTreeMap;
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs::charge::{Charge, CopyId, CopyLimits, CopyPart, Work};
use nfs::service::origin;
use nfs::summary::{MovedIn, Transferred};
use parking_lot::Mutex;
use qos::{LoopId, Released, Token, Verdict};
use volume::limits::TRANSFER_BYTES_MAX;

use super::limiters::OfClient;
use super::{Asker, Charged, Rates};
use crate::connection_origin::ConnectionOrigin;

/// Stands for the thread that copies, beside the numbers of loops.
const COPYING: LoopId = LoopId(u16::MAX - 1);

/// The number of no listen address.
const NO_TARGET: u32 = u32::MAX;

/// A part that has been judged.
struct Judged {
    charged: Charged,
    /// The name by which it waits.
    number: u64,
    bytes: u32,
    is_allowed: bool,
}

impl Judged {
    fn token(&self) -> Token {
        Token { event_loop: COPYING, call: self.number }
    }
}

/// The next part of each copy that met limits.
#[derive(Default)]
pub(super) struct Copies {
    judged: Mutex<BTreeMap<CopyId, Judged>>,
    /// The number of the next part. None is used twice, as a loop may still have a token of a part that is gone.
    next: AtomicU64,
    /// Called when a copy may go on, without locks.
    released: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Rates {
    /// Sets what is called when a copy may go on. Only the first call counts.
    pub(crate) fn on_copies_released(&self, released: Box<dyn Fn() + Send + Sync>) {
        let _ = self.copies.released.set(released);
    }

    /// Takes what is released for copies out of this list.
    pub(super) fn take_released_copies(&self, all: &mut Vec<Released>) {
        let mut is_any = false;
        for one in all.extract_if(.., |one| is_of_copy(one)) {
            if let Released::Call { token, .. } = one {
                self.note_released(token);
            }
            is_any = true;
        }
        if let Some(released) = self.copies.released.get().filter(|_| is_any) {
            released();
        }
    }

    fn note_released(&self, token: Token) {
        let mut judged = self.copies.judged.lock();
        if let Some(part) = judged.values_mut().find(|part| part.token() == token) {
            part.is_allowed = self.go_on(&mut part.charged, token) == Verdict::Admitted;
        }
    }
}

impl CopyLimits for Rates {
    fn allow(&self, part: &CopyPart) -> Option<u64> {
        let mut judged = self.copies.judged.lock();
        if let Some(known) = judged.get(&part.copy) {
            return known.is_allowed.then_some(known.bytes.into());
        }
        if !self.is_limiting() {
            return Some(u64::MAX);
        }
        let bytes = u32::try_from(part.bytes).unwrap_or(u32::MAX).min(TRANSFER_BYTES_MAX);
        let limiter = self.limiter_of(origin(part.peer.ip()), &mut OfClient::default());
        let origin = ConnectionOrigin::of(part.peer);
        let asker = Asker { target: NO_TARGET, origin, limiter: limiter.as_ref() };
        let charge = Charge::of_one(Some(part.volume), Work::write(bytes));
        let Some(mut charged) = self.charged(&charge, &asker) else { return Some(u64::MAX) };
        let number = self.copies.next.fetch_add(1, Ordering::Relaxed);
        let verdict = self.admit(&mut charged, Token { event_loop: COPYING, call: number });
        if verdict == Verdict::Full {
            return None;
        }
        let is_allowed = verdict == Verdict::Admitted;
        judged.insert(part.copy, Judged { charged, number, bytes, is_allowed });
        drop(judged);
        if !is_allowed {
            self.wake_a_loop();
        }
        is_allowed.then_some(bytes.into())
    }

    fn copied(&self, part: &CopyPart, bytes: u64) {
        let Some(judged) = self.copies.judged.lock().remove(&part.copy) else { return };
        let bytes = Transferred { read: 0, written: u32::try_from(bytes).unwrap_or(u32::MAX) };
        self.settle_moved(&judged.charged, iter::once(MovedIn { volume: part.volume, bytes }));
    }

    fn retain(&self, goes_on: &dyn Fn(CopyId) -> bool) {
        self.copies.judged.lock().retain(|copy, judged| {
            let stays = goes_on(*copy);
            if !stays {
                self.forget(judged.token());
                self.give_back(&judged.charged);
            }
            stays
        });
    }
}

fn is_of_copy(released: &Released) -> bool {
    let (Released::Call { token: Token { event_loop, .. }, .. } | Released::Room { event_loop, .. }) =
        released;
    *event_loop == COPYING
}
