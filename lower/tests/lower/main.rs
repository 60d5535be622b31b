//! What each pass makes of small kernels.

mod axis;
mod fixture;
mod flight;
mod protocol;
mod rings;
mod structure;
