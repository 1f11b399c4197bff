//! The published tests, at a scale that fits the machine.
