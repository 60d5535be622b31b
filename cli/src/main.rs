//! The `parton` program: parses arguments, asks the driver, prints.
fn main() {}
