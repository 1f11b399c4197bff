//! Requests and replies in the words of NFSv4.1 and 4.2: COMPOUNDs as the Linux client sends them, in the slots of
//! sessions.

mod login;
mod request;
mod results;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use login::{Login, bind, slots_for};
pub(super) use request::{encode, encode_write_head, encode_write_tail};
pub(crate) use results::Results;
pub(crate) use session::{Answer, Caller, Session};
