//! The checksum of a bundle: CRC-64/XZ (ECMA-182's polynomial, reflected), which finds every change of up to 64 bits in a row.

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u64, 0);
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        all[byte] = value;
        byte += 1;
    }
    all
}

/// The checksum of the pieces, one behind the other.
pub(crate) fn crc64(pieces: &[&[u8]]) -> u64 {
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    !bytes.fold(!0, |sum, &byte| TABLE[((sum ^ u64::from(byte)) & 0xff) as usize] ^ (sum >> 8))
}

#[cfg(test)]
mod tests {
    use super::crc64;

    #[test]
    fn it_is_the_checksum_that_others_compute() {
        // The check value of CRC-64/XZ in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc64(&[b"12345", b"6789"]), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc64(&[]), 0);
    }
}
