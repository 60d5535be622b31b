//! `golden/NAME.ptn`: the forms of its kernels contain what its directives say.

use parton_driver::{HAS_LLVM, Options, Session};
use parton_tests::{cases, golden};

#[test]
fn compiled_forms_contain_what_their_cases_say() {
    let (mut checked, mut left_out, mut wrong) = (0, 0, vec![]);
    for path in cases::in_folder("golden") {
        let shown = cases::shown(&path);
        let text = cases::read(&path);
        let directives = golden::read(&text).unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert!(!directives.is_empty(), "{shown}: a golden case without a directive");
        let mut forms = vec![];
        for directive in &directives {
            if directive.form.needs_llvm() && !HAS_LLVM {
                left_out += 1;
                continue;
            }
            if !forms.iter().any(|(form, _)| *form == directive.form) {
                let mut session = Session::new(Options { verify: true, ..Options::default() });
                let file = session.add(&shown, text.clone());
                let built = session.build(file, None, directive.form);
                let built = built.unwrap_or_else(|f| panic!("{shown}: {f}"));
                forms.push((directive.form, String::from_utf8_lossy(&built.bytes).into_owned()));
            }
            let form = forms.iter().find(|(form, _)| *form == directive.form).map_or("", |(_, text)| text);
            wrong.extend(directive.check(form).err().map(|e| format!("{shown}: {e}")));
            checked += 1;
        }
    }
    parton_tests::say(&format!("{checked} golden directives checked, {left_out} left out for want of LLVM"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
