//! What the thread of a group does about its server: starts it, stops it, and starts another one when it has ended.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::{Answer, Event, Launch, Running, Worker, lock};
use crate::child::Child;
use crate::connections::List;
use crate::handover::{Candidate, Handover, Report};
use crate::limits::{REFRESH, RESTARTS_MAX, RESTARTS_WITHIN, START_MAX, STOP_MAX};
use crate::status::{Phases, State};

/// Exit codes of a server that another start would not change: a wrong configuration, a data directory that is in use.
const FINAL_EXITS: [i32; 2] = [2, 3];

impl Worker {
    pub(super) fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(self.patience()) {
                Ok(Event::Start(before, answer)) => self.start(before, answer),
                Ok(Event::Stop(answer)) => {
                    self.stop();
                    // Nobody waits for the answer if its command was interrupted.
                    let _ = answer.send(Ok(()));
                }
                Ok(Event::Stand(candidate)) => self.stand(candidate),
                Ok(Event::Reload) => self.reload(),
                Ok(Event::EndStopped(answer)) if self.running.is_some() => {
                    let name = &self.config.name;
                    let why = format!(
                        "the group {name:?} is being served: to change or remove it, stop it on this machine and reload"
                    );
                    let _ = answer.send(Err(why));
                }
                Ok(Event::End(answer) | Event::EndStopped(answer)) => {
                    self.stop();
                    // The caller may bind the same addresses once it has the answer.
                    drop(std::mem::take(&mut self.sockets));
                    let _ = answer.send(Ok(()));
                    return;
                }
                Ok(Event::Heard(number, report)) if self.is_current(number) => match report {
                    Some(Report::Standing { instance }) => self.stands(instance),
                    Some(Report::Claimed) => self.claimed(),
                    Some(Report::Renewed { at }) => self.renewed(at),
                    Some(Report::Ready) => self.ready(),
                    None => self.ended(),
                },
                Ok(Event::Heard(..)) => {}
                Ok(Event::Link(has_link)) => self.link(has_link),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tick();
        }
    }

    fn is_current(&self, number: u64) -> bool {
        self.running.as_ref().is_some_and(|running| running.number == number)
    }

    /// Returns the time until the next periodic step.
    fn patience(&self) -> Duration {
        match &self.running {
            Some(running) => REFRESH.saturating_sub(running.refreshed.elapsed()),
            None => Duration::from_secs(3600),
        }
    }

    /// Has a server stand for the lease.
    fn stand(&mut self, candidate: Candidate) {
        if self.running.is_some() {
            return;
        }
        self.restarts.clear();
        match self.launch(Instant::now(), Phases::default(), Some(candidate)) {
            Ok(running) => {
                self.running = Some(running);
                self.show(State::Starting, None);
            }
            Err(reason) => self.fail(Vec::new(), reason),
        }
    }

    /// The server is connected, and waits for the lease.
    fn stands(&mut self, instance: u64) {
        let Some(running) = &mut self.running else { return };
        running.instance = Some(instance);
        self.show(State::Standby, None);
    }

    fn start(&mut self, before: Phases, answer: Sender<Answer>) {
        if let Some(running) = &mut self.running {
            if running.is_ready {
                let _ = answer.send(Ok(()));
            } else {
                running.waiting.push(answer);
            }
            return;
        }
        self.restarts.clear();
        {
            let mut status = lock(&self.status);
            (status.restarts, status.starts_total) = (0, status.starts_total + 1);
        }
        let begun = Instant::now();
        match self.launch(begun, before, None) {
            Ok(mut running) => {
                running.waiting.push(answer);
                self.running = Some(running);
                self.show(State::Starting, None);
            }
            Err(reason) => {
                self.show(State::Failed, Some(reason.clone()));
                let _ = answer.send(Err(reason));
            }
        }
    }

    /// Starts a server.
    fn launch(
        &mut self,
        begun: Instant,
        phases: Phases,
        candidate: Option<Candidate>,
    ) -> Result<Running, String> {
        self.launched += 1;
        self.renewed.store(0, Ordering::Relaxed);
        let (number, events) = (self.launched, self.events.clone());
        // The thread may have ended.
        let heard = move |report| drop(events.send(Event::Heard(number, report)));
        let Launch { node, groups, .. } = &self.launch;
        let (group, node) = (self.config.name.clone(), node.clone());
        let handover =
            Handover { group, node, groups: groups.load(Ordering::Relaxed), candidate, gives_signs: true };
        let launched = Instant::now();
        let child = Child::start(&self.launch.program, &self.config, &handover, &self.sockets, heard)
            .map_err(|error| format!("cannot start a server for {}: {error}", self.config.data.display()))?;
        Ok(Running {
            child,
            number,
            instance: None,
            begun,
            launched,
            claimed: None,
            has_addresses: false,
            lapsed: None,
            clients: List::new(),
            announcements: 0,
            phases,
            is_ready: false,
            must_reload: false,
            waiting: Vec::new(),
            refreshed: launched,
            recorder: None,
        })
    }

    /// Has the server read its configuration again, at once or when it serves: before that, a signal could end it.
    fn reload(&mut self) {
        match &mut self.running {
            Some(running) if running.is_ready => running.child.reload(),
            Some(running) => running.must_reload = true,
            None => {}
        }
    }

    /// The server has ended without being told to: starts another one, with the same addresses, unless that is pointless.
    fn ended(&mut self) {
        let Some(running) = self.running.take() else { return };
        let Running { child, waiting, has_addresses, lapsed, recorder, .. } = running;
        self.renewed.store(0, Ordering::Relaxed);
        let code = child.ended().and_then(|status| status.code());
        self.restarts.retain(|ended| ended.elapsed() < RESTARTS_WITHIN);
        self.restarts.push_back(Instant::now());
        {
            let mut status = lock(&self.status);
            (status.restarts, status.restarts_total) = (status.restarts + 1, status.restarts_total + 1);
        }
        match self.relaunch(code) {
            Ok(again) => {
                self.log("has lost its server and is starting another one");
                self.running = Some(Running { waiting, has_addresses, lapsed, recorder, ..again });
                self.show(State::Starting, None);
            }
            Err(reason) => {
                if has_addresses {
                    self.addresses.give_up();
                }
                self.fail(waiting, reason);
            }
        }
    }

    /// Starts a server after one that ended with this exit code.
    fn relaunch(&mut self, code: Option<i32>) -> Result<Running, String> {
        if code.is_some_and(|code| FINAL_EXITS.contains(&code)) {
            return Err("its server refused to start: see the log of the agent".to_owned());
        }
        if self.restarts.len() > RESTARTS_MAX {
            let times = self.restarts.len();
            return Err(format!("its server ended {times} times within a minute: see the log of the agent"));
        }
        // The connections ended with it. Those that clients have made since wait for the next server: a connection that is reset before
        // its first reply may have a Linux client wait for 3 s (`xprt_reconnect_delay` of its `xprt.c`).
        let candidate = self.shared.term().map(|_| Candidate::default());
        self.launch(Instant::now(), Phases::default(), candidate)
    }

    pub(super) fn fail(&mut self, waiting: Vec<Sender<Answer>>, reason: String) {
        self.log(&format!("has failed here: {reason}"));
        self.show(State::Failed, Some(reason.clone()));
        for waiting in waiting {
            let _ = waiting.send(Err(reason.clone()));
        }
    }

    /// Stops the group, if it is starting or served.
    fn stop(&mut self) {
        let Some(running) = self.running.take() else { return self.show(State::Stopped, None) };
        if running.has_addresses {
            let clients = self.addresses.connections();
            self.addresses.give_up();
            if let Some(recorder) = running.recorder {
                recorder.finish(clients);
            }
        }
        if !running.child.stop(STOP_MAX)
            && let Err(error) = self.shared.release(&self.launch.node, running.instance)
        {
            eprintln!("holdfast: cannot release the claim on {}: {error}", self.config.data.display());
        }
        self.renewed.store(0, Ordering::Relaxed);
        self.show(State::Stopped, None);
        if running.claimed.is_some() || self.shared.term().is_none() {
            self.log("is stopped");
        }
        for waiting in running.waiting {
            let _ = waiting.send(Err("the group was stopped".to_owned()));
        }
    }

    pub(super) fn give_up_late_start(&mut self) {
        let Some(Running { child, waiting, has_addresses, .. }) = self.running.take() else { return };
        if has_addresses {
            self.addresses.give_up();
        }
        drop(child);
        self.fail(waiting, format!("its server did not begin to serve within {} s", START_MAX.as_secs()));
    }

    /// Writes an event of the group into the log of the agent.
    pub(super) fn log(&self, event: &str) {
        eprintln!("holdfast: the group {:?} {event}", self.config.name);
    }

    pub(super) fn show(&self, state: State, reason: Option<String>) {
        let mut status = lock(&self.status);
        status.pid = self.running.as_ref().map(|running| running.child.id());
        (status.state, status.reason) = (state, reason);
    }
}
