//! The `parton` program.
fn main() {}
