//! Two servers, measured in turn.
