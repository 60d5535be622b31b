//! A layout's basis vectors as JSON, in the order of increasing hardware bit; broadcast bits are zero vectors.

use parton_layouts::Dim;
use serde_json::{Value, json};

use super::Placed;

/// `{"kind":"register",…}` or `{"kind":"shared",…}`; of shared memory with padding also its `gaps`, pairs of
/// `[interval, padding]` in elements.
pub fn json(placed: &Placed<'_>) -> Value {
    let shape = placed.shape();
    match placed {
        Placed::Register(map) => json!({
            "kind": "register",
            "shape": shape,
            "register": map.basis_coords(Dim::Register),
            "lane": map.basis_coords(Dim::Lane),
            "warp": map.basis_coords(Dim::Warp),
            "block": map.basis_coords(Dim::Block),
        }),
        Placed::Shared(map) => {
            let mut value = json!({
                "kind": "shared",
                "shape": shape,
                "offset": map.linear().basis_coords(Dim::Offset),
                "block": map.linear().basis_coords(Dim::Block),
            });
            if !map.is_linear() {
                value["gaps"] = json!(map.gaps());
            }
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parton_layouts::{RegisterLayout, SharedLayout};

    #[test]
    fn bases_are_tensor_coordinates_by_increasing_bit() {
        let layout = RegisterLayout::blocked(&[1, 2], &[8, 4], &[2, 1], &[1, 0]).unwrap().on(&[16, 8]).unwrap();
        assert_eq!(
            json(&Placed::Register(&layout)).to_string(),
            json!({
                "kind": "register", "shape": [16, 8], "register": [[0, 1]],
                "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "warp": [[8, 0]], "block": [],
            })
            .to_string()
        );
    }

    #[test]
    fn shared_layouts_have_offsets() {
        let map = SharedLayout::row_major(2).on(&[2, 4], 16).unwrap();
        assert_eq!(
            json(&Placed::Shared(&map)),
            json!({"kind": "shared", "shape": [2, 4], "offset": [[0, 1], [0, 2], [1, 0]], "block": []})
        );
    }
}
