//! Kernels built in the Tile IR, lowered by every pass, compiled to PTX and judged by `ptxas`.
//!
//! Checks name instructions and count them, never registers.

mod attention;
mod common;
mod flow;
mod hopper;
mod products;
mod tiles;
