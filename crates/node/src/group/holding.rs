//! What the thread of a group does about its addresses: takes them once its server has the claim, refreshes them, gives them up when
//! another machine may have them, and has clients connect again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use store::boot_time;

use super::{Running, Worker, lock};
use crate::connections::{self, Recorder};
use crate::limits::{ADDRESS_LIFETIME, ANNOUNCEMENTS, LINK_GONE_MIN, REFRESH, START_MAX};
use crate::status::{State, milliseconds};

impl Worker {
    /// The server has the data directory, and opens it: takes the addresses meanwhile.
    pub(super) fn claimed(&mut self) {
        let Some(running) = &mut self.running else { return };
        self.last_renewal = boot_time();
        let claimed = Instant::now();
        running.claimed = Some(claimed);
        if running.instance.is_some() {
            // It may have stood by for days: its start begins now.
            running.begun = claimed;
            lock(&self.status).starts_total += 1;
            self.show(State::Starting, None);
        } else {
            running.phases.claim_ms = milliseconds(running.launched.elapsed());
        }
        let Some(running) = &mut self.running else { return };
        if !running.has_addresses {
            running.clients = connections::stored(&self.shared);
            self.take_addresses();
        }
    }

    /// Takes the addresses; if that fails, so has the group.
    fn take_addresses(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        match self.addresses.take(&mut running.phases, &running.clients) {
            Ok(()) => {
                (running.has_addresses, running.lapsed) = (true, None);
                (running.refreshed, running.announcements) = (Instant::now(), 1);
                let clients = running.clients.clone();
                running.recorder =
                    Recorder::start(&self.config, &self.shared, &self.addresses.network, clients);
                self.running = Some(running);
            }
            Err(reason) => {
                let Running { child, waiting, .. } = running;
                drop(child);
                self.addresses.give_up();
                self.fail(waiting, reason);
            }
        }
    }

    /// The server has renewed its claim: if the addresses had lapsed, no other machine has them.
    pub(super) fn renewed(&mut self, at: u64) {
        self.renewed.store(at, Ordering::Relaxed);
        self.last_renewal = at;
        let lapsed = self.running.as_ref().and_then(|running| running.lapsed);
        if lapsed.is_some_and(|lapsed| at > lapsed) {
            self.log("takes its addresses again");
            lock(&self.status).reconnections_total += 1;
            self.take_addresses();
        }
    }

    /// The interface has lost its link, or has it again.
    pub(super) fn link(&mut self, has_link: bool) {
        if !has_link {
            self.link_gone.get_or_insert_with(Instant::now);
            return;
        }
        let Some(gone) = self.link_gone.take().map(|gone| gone.elapsed()) else { return };
        let Some(running) = &mut self.running else { return };
        if gone < LINK_GONE_MIN || !running.has_addresses {
            return;
        }
        running.clients = self.addresses.connections();
        running.announcements = 1;
        let count = running.clients.len();
        if let Err(reason) = self.addresses.end_connections() {
            eprintln!("holdfast: {reason}");
        }
        self.addresses.tell(&running.clients);
        lock(&self.status).reconnections_total += 1;
        let were_reset = if count == 1 {
            "1 connection was reset".to_owned()
        } else {
            format!("{count} connections were reset")
        };
        self.log(&format!("has its link back after {} s; {were_reset}", gone.as_secs()));
    }

    /// Does what has to be done from time to time: see [`REFRESH`].
    pub(super) fn tick(&mut self) {
        let Some(running) = &mut self.running else { return };
        let since = running.refreshed.elapsed();
        if since < REFRESH {
            return;
        }
        running.refreshed = Instant::now();
        running.child.give_sign();
        // A server that stands for the lease has no time limit until it has claimed it.
        let begun = running.claimed.or_else(|| self.shared.term().is_none().then_some(running.launched));
        if !running.is_ready && begun.is_some_and(|begun| begun.elapsed() > START_MAX) {
            return self.give_up_late_start();
        }
        // Until the claim is had, another machine may have them.
        if !running.has_addresses {
            return;
        }
        let is_over =
            |term: Duration| Duration::from_nanos(boot_time().saturating_sub(self.last_renewal)) > term;
        if since >= ADDRESS_LIFETIME || self.shared.term().is_some_and(is_over) {
            return self.lapse();
        }
        self.addresses.refresh();
        if running.announcements < ANNOUNCEMENTS {
            running.announcements += 1;
            self.addresses.tell(&running.clients);
        }
    }

    /// The addresses were not refreshed in time.
    fn lapse(&mut self) {
        let Some(running) = &mut self.running else { return };
        (running.has_addresses, running.lapsed) = (false, Some(boot_time()));
        // Another machine may keep the list now.
        running.recorder = None;
        running.clients = self.addresses.connections();
        self.addresses.give_up();
        self.log("could not refresh its addresses in time, and takes them again when the claim is renewed");
    }

    pub(super) fn ready(&mut self) {
        let Some(running) = &mut self.running else { return };
        running.phases.open_ms = milliseconds(running.claimed.unwrap_or(running.launched).elapsed());
        let before = running.phases.fence_ms + running.phases.mount_ms;
        running.phases.total_ms = before + milliseconds(running.begun.elapsed());
        running.is_ready = true;
        if running.must_reload {
            running.child.reload();
        }
        let clients = running.clients.clone();
        let (phases, waiting) = (running.phases, std::mem::take(&mut running.waiting));
        lock(&self.status).last_start = Some(phases);
        self.show(State::Serving, None);
        self.log(&format!("is served, {} ms after it was started", phases.total_ms));
        // Answer last: the command that gets the answer may ask for the status next.
        for waiting in waiting {
            let _ = waiting.send(Ok(()));
        }
        // A client whose first attempt came before the address did.
        self.addresses.tell(&clients);
    }
}
