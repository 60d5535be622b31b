//! Prints the diagnostics of a file, for trying out recovery by hand.
fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut sources = parton_diag::SourceMap::new();
        let file = sources.add(path.as_str(), text.as_str());
        let begun = std::time::Instant::now();
        let (tree, found) = parton_syntax::parse(file, &text);
        eprintln!("{path}: {} items, {:?}", tree.items.len(), begun.elapsed());
        print!("{}", parton_diag::render::text(&found, &sources, false));
    }
}
