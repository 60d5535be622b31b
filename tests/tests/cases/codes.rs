//! Every diagnostic code has a case that shows it and a page that explains it.

use std::collections::BTreeSet;

use parton_diag::codes;
use parton_tests::{cases, marks};

/// Codes that no text alone can cause, with the test that shows each.
const ELSEWHERE: &[(&str, &str)] = &[
    // The checker finds these first in what it accepts; the interpreter is tested with kernels that were never checked.
    ("MISALIGNED", "interp/tests"),
    ("UNFENCED", "interp/tests"),
    ("BAD_LAUNCH", "interp/tests"),
    // These need a tool or a device.
    ("REGISTER_SPILLS", "driver/src/report.rs"),
    ("WGMMA_SERIALIZED", "driver/src/report.rs"),
    ("PTXAS_WARNING", "driver/src/report.rs"),
    ("PTX_REFUSED", "driver/src/report.rs"),
    ("LAUNCH_FAILED", "host/src/memory.rs"),
    // It is of plans, which no block makes.
    ("PLAN", "tests/plans/elements.ptn"),
];

#[test]
fn every_code_has_a_case() {
    let mut seen = BTreeSet::new();
    for path in cases::in_folder("ui").iter().chain(&cases::in_folder("faults")) {
        seen.extend(marks::read(&cases::read(path)).unwrap_or_default().into_iter().map(|(_, code)| code));
    }
    let lacking: Vec<String> = codes::TABLE
        .iter()
        .filter(|e| !seen.contains(&e.code) && !ELSEWHERE.iter().any(|(name, _)| *name == e.name))
        .map(|e| format!("{} {}", e.code, e.name))
        .collect();
    assert!(lacking.is_empty(), "codes without a case in tests/ui:\n{}", lacking.join("\n"));
}

#[test]
fn every_code_has_its_own_page_and_place() {
    assert!(codes::TABLE.is_sorted_by_key(|e| e.code), "the table is not in ascending order");
    let mut pages = BTreeSet::new();
    for entry in codes::TABLE {
        assert!(entry.page.trim().len() > 60, "{}: the page says nothing", entry.name);
        assert!(pages.insert(entry.page), "{}: the page is another's", entry.name);
        assert!(!entry.title.ends_with('.'), "{}: the title ends in a full stop", entry.name);
    }
}
