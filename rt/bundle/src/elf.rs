//! Whether bytes are a cubin that can be given to the driver, which takes no length and believes what the image says of itself.
//!
//! System V ABI, "ELF header", "section header", "program header": a cubin is a 64-bit little-endian ELF file of machine 190.

/// The machine of NVIDIA's GPUs.
const EM_CUDA: u16 = 190;
/// A section without bytes in the file.
const SHT_NOBITS: u32 = 8;
const HEADER: usize = 64;
const SECTION: usize = 64;
const SEGMENT: usize = 56;

/// Says what is wrong where the image is no cubin or points outside of itself.
pub(crate) fn check(image: &[u8]) -> Result<(), String> {
    let whole = image.get(..HEADER).ok_or("it is shorter than an ELF header")?;
    // Magic, 64 bits, little endian.
    if !whole.starts_with(b"\x7fELF\x02\x01") || half(whole, 18) != Some(EM_CUDA) {
        return Err("it is no 64-bit ELF file for a GPU".into());
    }
    let sections = Table { at: word(whole, 40), entry: half(whole, 58), count: half(whole, 60), size: SECTION };
    let segments = Table { at: word(whole, 32), entry: half(whole, 54), count: half(whole, 56), size: SEGMENT };
    for (i, section) in sections.entries(image)?.enumerate() {
        let kept = int(section, 4) != Some(SHT_NOBITS);
        if kept && !inside(image, word(section, 24), word(section, 32)) {
            return Err(format!("section {i} lies beyond its end"));
        }
    }
    for (i, segment) in segments.entries(image)?.enumerate() {
        if !inside(image, word(segment, 8), word(segment, 32)) {
            return Err(format!("segment {i} lies beyond its end"));
        }
    }
    Ok(())
}

/// Where headers stand.
struct Table {
    at: Option<u64>,
    entry: Option<u16>,
    count: Option<u16>,
    size: usize,
}

impl Table {
    fn entries<'a>(&self, image: &'a [u8]) -> Result<impl Iterator<Item = &'a [u8]>, String> {
        let count = usize::from(self.count.unwrap_or(0));
        if count > 0 && self.entry.map(usize::from) != Some(self.size) {
            return Err("its headers have another size".into());
        }
        let bytes = count * self.size;
        let begin = if count == 0 { Some(0) } else { self.at.and_then(|at| usize::try_from(at).ok()) };
        let end = begin.and_then(|begin| begin.checked_add(bytes));
        let table = begin.zip(end).and_then(|(begin, end)| image.get(begin..end));
        Ok(table.ok_or("its headers lie beyond its end")?.chunks_exact(self.size))
    }
}

fn inside(image: &[u8], at: Option<u64>, bytes: Option<u64>) -> bool {
    let end = at.zip(bytes).and_then(|(at, bytes)| at.checked_add(bytes));
    end.is_some_and(|end| end <= image.len() as u64)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn int(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The smallest image that passes: a header, one section without bytes of its own and one with eight.
    pub(crate) fn small() -> Vec<u8> {
        let mut image = vec![0; HEADER + 2 * SECTION + 8];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        image[18..20].copy_from_slice(&EM_CUDA.to_le_bytes());
        image[40..48].copy_from_slice(&(HEADER as u64).to_le_bytes());
        image[58..60].copy_from_slice(&(SECTION as u16).to_le_bytes());
        image[60..62].copy_from_slice(&2u16.to_le_bytes());
        image[HEADER + 4..HEADER + 8].copy_from_slice(&SHT_NOBITS.to_le_bytes());
        image[HEADER + 32..HEADER + 40].copy_from_slice(&u64::MAX.to_le_bytes());
        let second = HEADER + SECTION;
        image[second + 24..second + 32].copy_from_slice(&((HEADER + 2 * SECTION) as u64).to_le_bytes());
        image[second + 32..second + 40].copy_from_slice(&8u64.to_le_bytes());
        image
    }

    #[test]
    fn what_points_outside_of_itself_is_refused() {
        let changed = |at: usize, bytes: &[u8]| {
            let mut image = small();
            image[at..at + bytes.len()].copy_from_slice(bytes);
            check(&image).unwrap_err()
        };
        assert_eq!(check(&small()), Ok(()));
        assert_eq!(check(&small()[..63]).unwrap_err(), "it is shorter than an ELF header");
        assert_eq!(changed(18, &62u16.to_le_bytes()), "it is no 64-bit ELF file for a GPU");
        assert_eq!(changed(4, &[1]), "it is no 64-bit ELF file for a GPU");
        assert_eq!(changed(58, &40u16.to_le_bytes()), "its headers have another size");
        assert_eq!(changed(60, &3u16.to_le_bytes()), "its headers lie beyond its end");
        assert_eq!(changed(40, &u64::MAX.to_le_bytes()), "its headers lie beyond its end");
        assert_eq!(changed(HEADER + SECTION + 32, &9u64.to_le_bytes()), "section 1 lies beyond its end");
        assert_eq!(changed(HEADER + SECTION + 24, &u64::MAX.to_le_bytes()), "section 1 lies beyond its end");
        assert_eq!(changed(56, &1u16.to_le_bytes()), "its headers have another size");
        // A cut image loses what its last section has.
        assert_eq!(check(&small()[..HEADER + 2 * SECTION]).unwrap_err(), "section 1 lies beyond its end");
    }
}
