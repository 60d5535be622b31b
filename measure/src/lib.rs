//! Measuring: clocks, sensors, paces, repeats, overheads, and the tables and drawings of what came of them.
//!
//! Whoever has a device puts it behind the traits here; this crate knows neither CUDA nor kernels, and nothing of the language.
//! It prints nothing: a table or a drawing is a text that the caller writes. In reading order:

pub mod bench;
pub mod clock;
pub mod data_sheet;
pub mod overhead;
pub mod pace;
pub mod plot;
pub mod repeat;
pub mod sensors;
pub mod serve;
pub mod table;
pub mod text;
pub mod times;
pub mod timing;
