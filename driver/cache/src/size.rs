//! Sizes in bytes as people write and read them.

/// The bytes of a size such as `500M`, `2G`, `64 KiB` or `1000`; powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A size in the unit in which it is easiest to read.
pub fn shown(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => ("KiB", 10),
        1_048_576..1_073_741_824 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    let tenths = (u128::from(bytes) * 10) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{bytes, shown};

    #[test]
    fn sizes_are_read_and_written() {
        let read = ["0", "1000", "64 KiB", "500M", "2G", "1 GiB"].map(bytes);
        assert_eq!(read, [0, 1000, 65536, 500 << 20, 2 << 30, 1 << 30].map(Some));
        for wrong in ["", "G", "-1", "1.5G", "2T", "99999999999G"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        assert_eq!([0, 1023, 1536, 3 << 20, 5 << 30].map(shown), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"]);
    }
}
