//! The engine on real media with real threads, which the simulator does not cover: the background threads of a server, and
//! many callers on few objects. No data may be lost or misplaced, and no thread may stall.
//!
//! `HOLDFAST_STRESS_SECONDS` sets the duration of the tests, `HOLDFAST_STRESS_SEED` the seed that a failure printed. A seed
//! does not replay the threads exactly.

#![expect(clippy::unwrap_used, reason = "a failure here fails the test")]

mod chaos;
mod concurrent;
mod history;
mod killed;
mod random;
mod verifier;
mod world;
