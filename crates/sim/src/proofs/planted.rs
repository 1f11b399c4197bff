//! Planted faults: promises broken on purpose, which the proofs must detect.

use std::ops::Range;
use std::sync::Arc;

use volume::Volume;
use volume::request::Access;

use super::crash::{Plan, judge};
use super::{crash, full_device};
use crate::call::Success;
use crate::engine::Sizes;
use crate::media::{Action, Effect, Fault, MediaPart};
use crate::random::Random;
use crate::run::{FIRST_CALL, Run};
use crate::transport::RpcTransport;
use crate::transport::transport_of;
use crate::transport::{CallStatus, DirectTransport, ResolvedCall, Transport};
use crate::workload::{Profile, Workload};

/// A planted fault.
#[derive(Clone, Copy, Debug)]
pub enum Planted {
    /// None.
    Nothing,
    /// Media with this fault.
    Media(Fault),
    /// Replies leave at once, durable or not.
    EarlyReplies,
    /// Syncs that take so long that files change meanwhile make nothing durable.
    LyingSlowSyncs,
    /// The server forgets its answers: a retransmission is executed again.
    ForgottenAnswers,
    /// The write verifier never changes.
    ConstantVerifier,
    /// Deleted segments keep their space.
    LeakedSpace,
}

/// Whether crashes of any of these seeds reveal the fault.
#[must_use]
pub fn is_detected(planted: Planted, mut seeds: Range<u64>) -> bool {
    seeds.any(|seed| {
        let tried = match planted {
            Planted::ForgottenAnswers | Planted::ConstantVerifier => {
                let plan = Plan { boundaries: 10, ..Plan::default() };
                crash::run_with(seed, &plan, clients(planted)).map(drop).map_err(|failure| failure.wrong)
            }
            Planted::LeakedSpace => {
                let fault = Fault {
                    part: Some(MediaPart::Blob),
                    action: Action::Delete,
                    after: 0,
                    effect: Effect::Fail,
                    lasting: true,
                };
                full_device::run_on(seed, 0, Some(fault)).map(drop)
            }
            _ => crash_everywhere(planted, seed),
        };
        if let Err(wrong) = &tried {
            println!("{planted:?}, seed {seed}: {wrong}");
        }
        tried.is_err()
    })
}

fn clients(planted: Planted) -> Box<dyn Transport> {
    match planted {
        Planted::ForgottenAnswers => Box::new(RpcTransport::with_new_xids()),
        _ => Box::new(ConstantVerifierTransport::default()),
    }
}

/// Clients that always see the same verifier.
#[derive(Clone, Debug, Default)]
struct ConstantVerifierTransport {
    clients: DirectTransport,
}

impl Transport for ConstantVerifierTransport {
    fn attempt(&mut self, volume: &Arc<Volume>, call: &ResolvedCall, now: i64, access: Access) -> CallStatus {
        let mut attempt = self.clients.attempt(volume, call, now, access);
        if let CallStatus::Done(reply) = &mut attempt
            && let Ok(Success::Written { verifier, .. } | Success::Committed { verifier, .. }) =
                &mut reply.outcome
        {
            *verifier = [7; 8];
        }
        attempt
    }

    fn disconnect(&mut self) {}

    fn fork(&self) -> Box<dyn Transport> {
        Box::new(self.clone())
    }
}

fn crash_everywhere(planted: Planted, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let profile = Profile { reopen: false, ..Profile::default() };
    let mut workload = Workload::new(random.fork(), profile, FIRST_CALL);
    let mut run = Run::new(Sizes::default(), random.fork())?.with_transport(transport_of(seed));
    match planted {
        Planted::Media(fault) => run.media.plan(fault),
        Planted::EarlyReplies => run.early_replies = true,
        Planted::LyingSlowSyncs => run.slow_syncs_lie = true,
        _ => {}
    }
    run.media.record();
    for _ in 0..60 {
        let event = workload.next(&run.model);
        run.step(event)?;
    }
    run.resume()?;
    for boundary in run.media.recorded() {
        judge(&run, &boundary, &mut random, false)?;
    }
    Ok(())
}
