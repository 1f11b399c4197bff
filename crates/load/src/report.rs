//! What was measured, for people.
