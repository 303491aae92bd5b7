//! JUnit's XML, as build servers read it.

use std::time::Duration;

use super::{Ran, RanCase, problems};

/// All results.
pub(super) fn document(all: &[Ran]) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for ran in all {
        let name = escaped(&ran.file.display().to_string());
        let failures = ran.cases.iter().filter(|case| !case.has_passed()).count();
        let errors = usize::from(ran.problem.is_some());
        let took: Duration = ran.cases.iter().map(|case| case.took).sum();
        text += &format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" \
             skipped=\"0\" time=\"{}\">\n",
            ran.cases.len() + errors,
            seconds(took)
        );
        if let Some(problem) = &ran.problem {
            text += &format!(
                "    <testcase classname=\"{name}\" name=\"read\" time=\"0.000\">\
                 <error type=\"unreadable\" message=\"cannot be run\">{}</error></testcase>\n",
                escaped(problem)
            );
        }
        for case in &ran.cases {
            text += &of_case(ran, case, &name);
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

fn of_case(ran: &Ran, case: &RanCase, suite: &str) -> String {
    let (name, took) = (escaped(&case.name), seconds(case.took));
    let start = format!("    <testcase classname=\"{suite}\" name=\"{name}\" time=\"{took}\"");
    let Some(first) = case.outcome.problems.first() else { return start + "/>\n" };
    let (what, all) = (escaped(&first.what), escaped(&problems(&ran.file, &case.outcome)));
    format!("{start}><failure type=\"assertion\" message=\"{what}\">{all}</failure></testcase>\n")
}

fn seconds(took: Duration) -> String {
    format!("{:.3}", took.as_secs_f64())
}

/// Characters that XML cannot have are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if xml::is_text(c.encode_utf8(&mut [0; 4])) => escaped.push(c),
            _ => escaped.push('\u{FFFD}'),
        }
    }
    escaped
}
