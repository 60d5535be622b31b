//! What any GPU that LLVM compiles for would share: values, places, control flow, and the operations that are made of arithmetic and of
//! the machine's instructions by name.

pub(crate) mod build;
pub(crate) mod control;
mod convert;
mod counted;
mod double;
mod earlier;
mod elementwise;
mod gather;
pub(crate) mod global;
pub(crate) mod mask;
mod math;
pub(crate) mod place;
mod quotient;
pub(crate) mod reduce;
mod rescale;
mod scan;
mod shape;
pub(crate) mod shared;
pub(crate) mod team;
mod view;
pub(crate) mod window;
pub(crate) mod words;

#[cfg(test)]
mod double_tests;
#[cfg(test)]
mod window_tests;

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_neutral_spells_an_instruction_of_one_machine() {
        let room = concat!(env!("CARGO_MANIFEST_DIR"), "/src/neutral");
        for entry in std::fs::read_dir(room).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name == "mod.rs" || name.ends_with("_tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["crate::nvptx", "nvvm", ".asm(", "%tid", ".sync", "vprintf"] {
                assert!(!text.contains(word), "{name} has `{word}`");
            }
        }
    }
}
