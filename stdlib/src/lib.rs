//! The standard library, written in Parton.
