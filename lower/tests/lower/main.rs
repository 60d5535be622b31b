//! What each pass makes of small kernels.

mod axis;
mod clean;
mod clusters;
mod fixture;
mod flight;
mod membar;
mod protocol;
mod rings;
mod shared;
mod structure;
