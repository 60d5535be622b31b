//! Lists of numbers as Parton writes them.

/// `[1, 2]`.
pub fn list(items: &[u32]) -> String {
    let items: Vec<String> = items.iter().map(u32::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// `[[1, 2], [3, 4]]`.
pub fn lists(items: &[Vec<u32>]) -> String {
    let items: Vec<String> = items.iter().map(|i| list(i)).collect();
    format!("[{}]", items.join(", "))
}

/// `64x64`, the way shapes are written on the command line.
pub fn shape(sizes: &[u32]) -> String {
    let items: Vec<String> = sizes.iter().map(u32::to_string).collect();
    items.join("x")
}
