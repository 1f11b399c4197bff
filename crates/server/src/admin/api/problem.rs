//! Why a request is refused (RFC 9457).

use crate::error::{Error, ErrorKind};
use crate::http::Response;

/// A status code, and a sentence that says what is wrong and what to do.
#[derive(Debug)]
pub(super) struct Problem {
    status: u16,
    sentence: String,
}

impl Problem {
    pub(super) fn new(status: u16, sentence: impl Into<String>) -> Problem {
        Problem { status, sentence: sentence.into() }
    }

    pub(super) fn into_response(self) -> Response {
        let response = Response::problem(self.status, &self.sentence);
        // RFC 9110 section 11.6.1.
        if self.status == 401 { response.with("WWW-Authenticate", "Bearer") } else { response }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match error.kind {
            ErrorKind::Usage => 422,
            ErrorKind::NotFound => 404,
            ErrorKind::InUse | ErrorKind::Conflict => 409,
            ErrorKind::Failed => 500,
        };
        Problem { status, sentence: error.sentence }
    }
}
