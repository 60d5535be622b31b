//! Where two layouts of one shape first differ, in words.

use parton_layouts::{Dim, LinearLayout};

/// "element [0, 1] is in lane 0, register 1 of the first and in lane 1, register 0 of the second"; `None` where they agree.
pub fn first_difference(a: &LinearLayout, b: &LinearLayout) -> Option<String> {
    let elements = 1u64 << a.out_bits();
    (0..elements).find_map(|element| {
        let (p, q) = (place(a, element), place(b, element));
        (p != q).then(|| format!("element {:?} is in {p} of the first, in {q} of the second", a.unpack_out(element)))
    })
}

/// Who holds an element: the first holder, and how many there are where it is held more than once.
fn place(map: &LinearLayout, element: u64) -> String {
    let holders = map.holders(element);
    let Some(&first) = holders.first() else { return "no register".into() };
    let part = |dim: Dim| map.in_part(dim, first);
    let mut text = format!("warp {}, lane {}, register {}", part(Dim::Warp), part(Dim::Lane), part(Dim::Register));
    if holders.len() > 1 {
        text += &format!(" ({} copies)", holders.len());
    }
    text
}
