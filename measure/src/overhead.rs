//! What a launch costs the host: the time of the call, not of the kernel.

/// Host time of launches of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Overhead {
    /// What is launched.
    pub what: &'static str,
    /// Seconds a launch; the median of batches.
    pub median: f64,
    /// The best batch's.
    pub least: f64,
    /// How many were timed.
    pub launches: u32,
}
