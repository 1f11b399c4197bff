//! What others published about their systems.
