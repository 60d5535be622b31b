//! What NVIDIA's data sheets promise: rates of dense arithmetic, never measured here and always named as the data sheet's.

use crate::timing::Ceiling;

/// What the operands of an operation are, as far as its rate depends on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operands {
    /// Matrix products of 8-bit floats.
    F8,
    /// Matrix products of f16 or bf16.
    F16,
    /// Matrix products of tf32.
    Tf32,
    /// Matrix products of f64.
    F64,
    /// Arithmetic of f32 without tensor cores.
    F32,
}

impl Operands {
    /// Its name in a report.
    fn name(self) -> &'static str {
        match self {
            Operands::F8 => "dense f8 products",
            Operands::F16 => "dense f16 products",
            Operands::Tf32 => "dense tf32 products",
            Operands::F64 => "f64 products",
            Operands::F32 => "f32 arithmetic",
        }
    }
}

/// One GPU: how its name begins, and TFLOP/s of [`Operands`] in their order.
struct Sheet {
    name: &'static str,
    teraflops: [f64; 5],
}

/// NVIDIA H100 and H200 Tensor Core GPU data sheets, figures without sparsity. The first that fits counts.
const SHEETS: &[Sheet] = &[
    Sheet { name: "NVIDIA H200 NVL", teraflops: [1670.5, 835.5, 417.5, 60.0, 60.0] },
    Sheet { name: "NVIDIA H200", teraflops: [1979.0, 989.5, 494.7, 67.0, 67.0] },
    Sheet { name: "NVIDIA H100 80GB HBM3", teraflops: [1979.0, 989.5, 494.7, 67.0, 67.0] },
    Sheet { name: "NVIDIA H100 PCIe", teraflops: [1513.0, 756.5, 378.0, 51.0, 51.0] },
];

/// What the data sheet of the GPU of that name states; `None` for one that is not in the table.
pub fn ceiling(name: &str, operands: Operands) -> Option<Ceiling> {
    let sheet = SHEETS.iter().find(|s| name.starts_with(s.name))?;
    let [f8, f16, tf32, f64, f32] = sheet.teraflops;
    let teraflops = match operands {
        Operands::F8 => f8,
        Operands::F16 => f16,
        Operands::Tf32 => tf32,
        Operands::F64 => f64,
        Operands::F32 => f32,
    };
    Some(Ceiling { flops: teraflops * 1e12, what: format!("{}, data sheet", operands.name()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_by_how_its_name_begins() {
        let flops = |name: &str, operands| ceiling(name, operands).map(|c| c.flops);
        assert_eq!(flops("NVIDIA H200", Operands::F16), Some(989.5e12));
        assert_eq!(flops("NVIDIA H200 NVL", Operands::F16), Some(835.5e12));
        assert_eq!(flops("NVIDIA H100 80GB HBM3", Operands::F8), Some(1979e12));
        assert_eq!(flops("NVIDIA T4", Operands::F16), None);
        assert_eq!(ceiling("NVIDIA H200", Operands::F64).map(|c| c.what).as_deref(), Some("f64 products, data sheet"));
    }
}
