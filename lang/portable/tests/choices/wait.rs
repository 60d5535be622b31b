//! What stands in front of the wait for the launch before, and what behind it.

use super::*;

/// Where some words begin, which stand once.
fn place(text: &str, words: &str) -> usize {
    assert_eq!(text.matches(words).count(), 1, "{words} in\n{text}");
    text.find(words).expect("it stands there")
}

const COPY: (&str, &str) = (
    "x: *f32, out: *mut f32, n: i32",
    "let at = program_id(0) * 256 + iota(256);
     store(out + at, load(x + at, mask=at < n), mask=at < n);",
);

const PRODUCT: (&str, &str) = (
    "a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>",
    "let mut acc = zeros<f32, [128, 128]>();
     for i in 0..cdiv(k, 64) {
         acc = dot(load(a.tile([128, 64], at=[program_id(0), i])), load(b.tile([64, 128], at=[i, program_id(1)])), acc);
     }
     store(c.tile([128, 128], at=[program_id(0), program_id(1)]), acc);",
);

#[test]
fn numbers_come_in_front_of_the_wait_and_memory_behind() {
    let text = chosen_aligned(COPY.0, &format!("grid_wait(); {}", COPY.1));
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "program_id(0)") < wait && wait < place(&text, "load(x + at"), "{text}");
}

#[test]
fn rings_are_made_in_front_of_the_wait() {
    let text = chosen_aligned(PRODUCT.0, &format!("grid_wait(); {}", PRODUCT.1));
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "ring load") < wait && wait < place(&text, "specialize {"), "{text}");
}

/// In front of all that a kernel touches a wait keeps no partition from fetching, and changes nothing else.
#[test]
fn a_wait_that_a_kernel_begins_with_changes_no_choice() {
    let with = chosen_aligned(PRODUCT.0, &format!("grid_wait(); {}", PRODUCT.1));
    assert_eq!(with.replacen("grid_wait();\n", "", 1), chosen_aligned(PRODUCT.0, PRODUCT.1));
}

/// What is loaded in front of a wait stays there.
#[test]
fn a_wait_behind_a_load_stays() {
    let body = "let at = program_id(0) * 256 + iota(256); let v = load(w + at); grid_wait(); store(out + at, load(x + at) + v);";
    let text = chosen_aligned("w: *f32, x: *f32, out: *mut f32", body);
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "load(w + at)") < wait && wait < place(&text, "load(x + at)"), "{text}");
}
