//! Requests of the superuser to a pool whose background work is done only when it is in the way.

use std::sync::Arc;

use volume::Pool;
use volume::request::{Access, Answer, Credentials, Durability, Error, Journaled, Request};
use volume::time::Time;

/// Does something at this time. Returns what must be durable for it to last.
pub(super) fn ask<T>(
    now: Time,
    operation: impl FnOnce(&Request<'_>) -> Answer<T>,
) -> Result<Durability, Error> {
    let credentials = Credentials::root();
    let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
    operation(&request).map(|promised| promised.after).map_err(|failure| failure.error)
}

/// Returns what was done; `None`, after background work, if it has to be tried again.
pub(super) fn unless_busy<T>(
    pool: &Arc<Pool>,
    now: Time,
    done: Result<T, Error>,
) -> Result<Option<T>, String> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_busy() => {
            pool.step_write_back(now, true, true);
            pool.step_commit(now);
            pool.step_checkpoint(now, true);
            Ok(None)
        }
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Journals no reply.
pub(super) fn nothing<T>(_: &T) -> Journaled {
    Journaled::default()
}
