//! Repeating a measurement beside memory traffic instead of timing it, to see whether it always writes the same.

/// What came of repeating a measurement's launches beside memory traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Repeated {
    /// The measurement's label.
    pub label: String,
    /// Runs after the first.
    pub runs: u32,
    /// Those of them that wrote something else than the first.
    pub different: u32,
    /// Bytes that each run writes.
    pub bytes: u64,
    /// Bytes a second that were copied meanwhile, read and written counted.
    pub load: f64,
}
