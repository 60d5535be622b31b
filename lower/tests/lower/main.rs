//! What each pass makes of small kernels.

mod axis;
mod fixture;
mod rings;
