//! Several client hosts with one coordinator.
