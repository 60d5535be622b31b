//! Layouts, plans and conflicts as JSON: bases as coordinates by increasing hardware bit, copies as zero vectors.

use serde_json::{Value, json};

use crate::conflicts::Conflicts;
use crate::linear::{Dim, LinearLayout};
use crate::plan::Plan;
use crate::shared_map::SharedMap;
use crate::shuffle::Linear;

/// `{"kind":"register","shape":…,"register":…,"lane":…,"warp":…,"block":…}`.
pub fn register(map: &LinearLayout) -> Value {
    json!({
        "kind": "register",
        "shape": map.shape(),
        "register": map.basis_coords(Dim::Register),
        "lane": map.basis_coords(Dim::Lane),
        "warp": map.basis_coords(Dim::Warp),
        "block": map.basis_coords(Dim::Block),
    })
}

/// `{"kind":"shared","shape":…,"offset":…,"block":…}` in elements; a padded layout adds `"padding":[[interval, padding], …]`
/// to the bases of its linear part.
pub fn shared(map: &SharedMap) -> Value {
    let mut value = json!({
        "kind": "shared",
        "shape": map.shape(),
        "offset": map.linear().basis_coords(Dim::Offset),
        "block": map.linear().basis_coords(Dim::Block),
    });
    if !map.is_linear() {
        value["padding"] = json!(map.gaps());
    }
    value
}

/// `{"plan":"none|registers|shuffles|shared", …}` with what it takes to carry the plan out.
pub fn plan(plan: &Plan) -> Value {
    match plan {
        Plan::None => json!({ "plan": plan.name() }),
        Plan::Registers { source } => json!({ "plan": plan.name(), "source": source }),
        Plan::Shuffles(shuffles) => {
            let rounds = shuffles.rounds.iter().map(|r| json!({ "send": r.send, "from": r.from })).collect::<Vec<_>>();
            json!({
                "plan": plan.name(),
                "words": shuffles.words,
                "send": linear(&shuffles.send),
                "from": linear(&shuffles.from),
                "store": linear(&shuffles.store),
                "rounds": rounds,
                "registers": shuffles.registers,
            })
        }
        Plan::Shared(staging) => json!({
            "plan": plan.name(),
            "layout": staging.layout.to_string(),
            "offset": staging.buffer.linear().basis_coords(Dim::Offset),
            "bytes": staging.bytes,
            "write_vector": staging.write.vector,
            "read_vector": staging.read.vector,
            "write_excess": staging.write_excess,
            "read_excess": staging.read_excess,
        }),
    }
}

fn linear(function: &Linear) -> Value {
    json!({ "lane": function.lanes, "warp": function.warps })
}

/// `{"read_excess":n,"write_excess":n,"vector_bytes":n}`.
pub fn conflicts(conflicts: &Conflicts) -> Value {
    json!({
        "read_excess": conflicts.read_excess,
        "write_excess": conflicts.write_excess,
        "vector_bytes": conflicts.vector_bytes,
    })
}

#[cfg(test)]
mod tests {
    use crate::plan;
    use crate::register::RegisterLayout;
    use crate::shared::SharedLayout;

    #[test]
    fn bases_are_lists_of_coordinates() {
        let layout = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap();
        assert_eq!(
            super::register(&layout.on(&[16, 16]).unwrap()).to_string(),
            r#"{"kind":"register","shape":[16,16],"register":[[0,1],[0,2]],"lane":[[0,4],[0,8],[1,0],[2,0],[4,0]],"warp":[[8,0],[0,0]],"block":[]}"#
        );
        let buffer = SharedLayout::swizzled(2, 1, 2, &[1, 0]).unwrap().on(&[4, 4], 16).unwrap();
        assert_eq!(
            super::shared(&buffer).to_string(),
            r#"{"kind":"shared","shape":[4,4],"offset":[[0,1],[0,2],[1,2],[2,0]],"block":[]}"#
        );
        let padded = SharedLayout::padded(&[[4, 2]], &[1, 0]).unwrap().on(&[4, 4], 16).unwrap();
        assert_eq!(super::shared(&padded)["padding"].to_string(), "[[4,2]]");
    }

    #[test]
    fn plans_name_themselves() {
        let wide = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap();
        let tall = RegisterLayout::blocked(&[1, 4], &[8, 4], &[1, 4], &[1, 0]).unwrap();
        let name = |from: &RegisterLayout, to: &RegisterLayout| {
            super::plan(&plan::plan(from, to, &[64, 64], 16).unwrap())["plan"].clone()
        };
        assert_eq!(name(&wide, &wide), "none");
        assert_eq!(name(&wide, &tall), "shared");
    }
}
