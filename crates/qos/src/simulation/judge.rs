//! Judges what a gate does with calls that wait: that it is not idle, that clients get equal shares.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::ClientId;
use crate::limits::Dimension;
use crate::time::Time;

/// The part of its rate, in a thousand, that a gate must let through while calls wait.
const USED_MIN: u128 = 995;

/// By how many calls, of the largest size, the shares of clients may differ; and one more for each of their flows, each of
/// which may keep a place while it waits elsewhere.
const CALLS_APART_MAX: i128 = 2;

/// A client with calls that wait at a gate, and how often it came to wait there: it may leave and come back in one step.
type Holder = (ClientId, u64);

/// What a client was served at a gate.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    units: i128,
    /// Those units that it owed, and that may still put it behind others.
    owed: i128,
    /// Its calls that were served since it owed them.
    calls: i128,
    /// Whether it may have been put less far behind than what it owed.
    is_unsure: bool,
}

/// Two clients that both have calls waiting.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// By how much the first one was ahead at first.
    before: i128,
    /// What each has owed since, and has not waited for.
    owed: [i128; 2],
}

/// A gate, while calls wait there without a break.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    is_bytes: bool,
    since: Option<Time>,
    /// Units that were served since then.
    served: i128,
    /// The debt of the gate at that time.
    debt: Duration,
    /// What clients were ever served.
    clients: BTreeMap<ClientId, Account>,
    pairs: BTreeMap<(Holder, Holder), Pair>,
    largest: i128,
}

/// What a client's share may depend on.
#[derive(Clone, Debug)]
pub(super) struct Fair {
    /// Flows that its calls can form.
    pub(super) flows: i128,
    /// Its largest call, bytes.
    pub(super) largest: i128,
    /// Whether all its calls can be held: those that cannot are beyond its share.
    pub(super) is_held: bool,
}

impl Judge {
    pub(super) fn new(dimension: Dimension) -> Judge {
        Judge {
            is_bytes: dimension.is_bytes(),
            since: None,
            served: 0,
            debt: Duration::ZERO,
            clients: BTreeMap::new(),
            pairs: BTreeMap::new(),
            largest: 0,
        }
    }

    /// Counts units that a client was served.
    pub(super) fn serve(&mut self, client: ClientId, units: i128, fair: &Fair) {
        self.served += units;
        self.largest = self.largest.max(units);
        let account = self.clients.entry(client).or_default();
        account.units += units;
        account.calls += 1;
        // Each flow may have had a call with a place before the client owed anything. Any other one was behind those of others.
        if account.owed > 0 && account.calls > fair.flows {
            (account.owed, account.is_unsure) = (0, false);
            self.change_owed(client, |_| 0);
        }
    }

    /// Counts units that a client moved without having waited for them: `owed` of them count as debt. `behind_max` is by how many units
    /// that puts it behind others at most; none if nobody has waited here lately.
    pub(super) fn owe(
        &mut self,
        client: ClientId,
        (units, owed): (i128, i128),
        behind_max: Option<i128>,
        fair: &Fair,
    ) {
        self.served += owed;
        let Some(behind_max) = behind_max else { return };
        let account = self.clients.entry(client).or_default();
        (account.units, account.owed, account.calls) = (account.units + units, account.owed + units, 0);
        account.is_unsure |= account.owed + fair.flows * fair.largest > behind_max;
        self.change_owed(client, |before| before + units);
    }

    fn change_owed(&mut self, client: ClientId, change: impl Fn(i128) -> i128) {
        for ((one, other), pair) in &mut self.pairs {
            for (owed, _) in pair.owed.iter_mut().zip([one, other]).filter(|(_, holder)| holder.0 == client) {
                *owed = change(*owed);
            }
        }
    }

    /// Counts units that were given back from a call charged at this time. Shares are of what calls ask for.
    pub(super) fn give_back(&mut self, units: i128, charged: Time) {
        if self.since.is_some_and(|since| charged > since) {
            self.served -= units;
        }
    }

    /// Judges the time until now, and whose calls wait from now on. `debt` is that of the gate.
    pub(super) fn observe(
        &mut self,
        now: Time,
        debt: impl FnOnce() -> Duration,
        held: &[Holder],
        clients: &[Fair],
    ) -> Result<(), String> {
        if self.since.is_some() || !held.is_empty() {
            self.judge_pairs(held, clients)?;
        }
        if held.is_empty() {
            self.since = None;
        } else if self.since.is_none() {
            (self.since, self.served, self.debt) = (Some(now), 0, debt());
        }
        Ok(())
    }

    /// Begins anew, because limits have changed.
    pub(super) fn restart(&mut self, now: Time, debt: Duration) {
        self.since = self.since.map(|_| now);
        (self.served, self.debt) = (0, debt);
        // Those that owe may be brought forward.
        self.clients.values_mut().for_each(|account| account.is_unsure |= account.owed > 0);
    }

    /// Judges after a release whether calls wait that could have gone on. `rate` is in force.
    pub(super) fn judge_use(&self, now: Time, rate: Option<u64>) -> Result<(), String> {
        let Some(since) = self.since else { return Ok(()) };
        let time = now.since(since);
        let Some(rate) = rate else {
            let is_late = time > Duration::from_millis(100);
            return if is_late { Err(format!("calls wait for {time:?} without a limit")) } else { Ok(()) };
        };
        let due = time.as_nanos() * u128::from(rate) * USED_MIN / 1000;
        let slack = self.debt.as_nanos() * u128::from(rate);
        let due = i128::try_from(due.saturating_sub(slack) / 1_000_000_000).unwrap_or(i128::MAX);
        if self.served + self.largest + 1 < due {
            return Err(format!(
                "{} units passed in {time:?} with calls waiting, {due} were due",
                self.served
            ));
        }
        Ok(())
    }

    fn judge_pairs(&mut self, held: &[Holder], clients: &[Fair]) -> Result<(), String> {
        let accounts = &self.clients;
        let account = |holder: &Holder| accounts.get(&holder.0).copied().unwrap_or_default();
        let is_sure = |holder: &Holder| held.contains(holder) && !account(holder).is_unsure;
        self.pairs.retain(|(one, other), _| is_sure(one) && is_sure(other));
        let is_fair = |holder: &&Holder| clients[index_of(holder.0)].is_held && is_sure(holder);
        for (index, one) in held.iter().enumerate().filter(|(_, one)| is_fair(one)) {
            for other in held[index + 1..].iter().filter(is_fair) {
                let (of_one, of_other) = (account(one), account(other));
                let ahead = of_one.units - of_other.units;
                let pair = match self.pairs.get(&(*one, *other)) {
                    Some(pair) => *pair,
                    // How far those that owe are behind is not known.
                    None if of_one.owed > 0 || of_other.owed > 0 => continue,
                    None => *self.pairs.entry((*one, *other)).or_insert(Pair { before: ahead, owed: [0; 2] }),
                };
                let (a, b) = (&clients[index_of(one.0)], &clients[index_of(other.0)]);
                let largest = if self.is_bytes { a.largest.max(b.largest) } else { 1 };
                let most = (CALLS_APART_MAX + 2 * (a.flows + b.flows)) * largest;
                let ahead = ahead - pair.before;
                if ahead > most + pair.owed[0] || -ahead > most + pair.owed[1] {
                    return Err(format!(
                        "{one:?} got {ahead} units more than {other:?}, over {most}: {pair:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn index_of(client: ClientId) -> usize {
    usize::try_from(client.0).expect("few clients")
}
