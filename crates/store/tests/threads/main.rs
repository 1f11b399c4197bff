//! The engine on real media under real threads, which the simulator cannot have: the threads that a server drives a volume
//! with, and many callers on few objects. Afterwards nothing may be lost or out of place, and no thread may have stood
//! still.
//!
//! `HOLDFAST_STRESS_SECONDS` makes the tests run for longer, `HOLDFAST_STRESS_SEED` starts from the seed that a failure
//! printed; threads are not replayed exactly.

#![expect(clippy::unwrap_used, reason = "a failure here fails the test")]

mod chaos;
mod facts;
mod keeper;
mod killed;
mod random;
mod together;
mod world;
