//! `report.html` in a real browser: on a phone, on a desktop, and in dark mode.
//!
//! Ignored by a plain `cargo test`, since it needs a browser; `make test-all` runs it, or names the package that
//! provides one. The report's only script sorts tables, so a page of the test loads it in frames, measures them, and
//! puts the result into its title.

use crate::report_support;

use std::fs;
use std::process::Command;

use penstock_lab::report::{self, CaseView, results};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The first one installed is used.
const BROWSERS: &[&str] =
    &["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// Measures the frames when they have loaded.
const WATCHER: &str = r#"<!doctype html><title>waiting</title><style>iframe{height:800px;border:0}</style>
<iframe id="phone" style="width:360px;color-scheme:light" src="report/report.html"></iframe>
<iframe id="desk" style="width:1280px;color-scheme:light" src="report/report.html"></iframe>
<iframe id="dark" style="width:360px;color-scheme:dark" src="report/report.html"></iframe>
<script>
onload = () => {
  const seen = {};
  for (const frame of document.querySelectorAll('iframe')) {
    const page = frame.contentDocument, root = page.documentElement;
    const pictures = [...page.querySelectorAll('figure svg')];
    const texts = [...page.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect());
    // A pixel of the empty margin of a text's box does not count.
    const beyond = (a, b) => a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    const clipped = [], colliding = [];
    for (const picture of page.querySelectorAll('figure svg, .rankings svg')) {
      const frame = picture.getBoundingClientRect();
      const labels = [...picture.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
      labels.forEach(([words, box], place) => {
        if (beyond(box, frame)) clipped.push(words);
        for (const [other, its] of labels.slice(place + 1)) if (meet(box, its)) colliding.push(words + ' / ' + other);
      });
    }
    const style = node => frame.contentWindow.getComputedStyle(node);
    // The column of a chart by size whose figures are thousands, and that of the sizes.
    const table = page.querySelector('figure[id^="throughput-by-size-passthrough"] table');
    const sorted = column => {
      table.tHead.rows[0].cells[column].querySelector('button').click();
      return [...table.tBodies[0].rows].map(row => row.cells[column].dataset.v);
    };
    seen[frame.id] = {
      sorted: [0, 1].map(sorted),
      overflow: root.scrollWidth - root.clientWidth,
      pictures: pictures.length,
      narrowest: Math.min(...pictures.map(p => p.getBoundingClientRect().width)),
      columns: new Set(pictures.map(p => Math.round(p.getBoundingClientRect().left))).size,
      smallest_text: Math.min(...texts.map(t => t.height)),
      clipped, colliding,
      unnamed: pictures.filter(p => !p.getAttribute('aria-labelledby').split(' ')
        .every(id => page.getElementById(id)?.textContent)).length,
      duplicate_ids: [...page.querySelectorAll('[id]')].length
        - new Set([...page.querySelectorAll('[id]')].map(e => e.id)).size,
      tables: page.querySelectorAll('figure table').length,
      background: style(page.body).backgroundColor,
      ink: style(page.body).color,
      picture: style(pictures[0].querySelector('rect.bg')).fill,
      picture_ink: style(pictures[0].querySelector('text')).fill,
    };
  }
  document.title = 'seen ' + JSON.stringify(seen);
};
</script>"#;

#[test]
#[ignore = "needs a browser; `make test-all` runs it. On Debian: apt-get install chromium-headless-shell"]
fn the_page_is_readable_on_a_phone_a_desktop_and_in_dark_mode() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let views: Vec<CaseView> =
        results::read(folder.path()).unwrap().into_iter().map(CaseView::new).collect();
    let views = [views.clone(), long_names(views)].concat();
    let charts = report::write(&views, &folder.path().join("report")).unwrap().charts;
    let seen = look(&folder);
    for frame in ["phone", "desk", "dark"] {
        let of = |name: &str| seen[frame][name].as_f64().unwrap();
        assert_eq!(of("overflow"), 0.0, "{frame} scrolls sideways: {seen:#}");
        assert_eq!((of("pictures"), of("tables")), (charts as f64, charts as f64), "{frame}");
        assert_eq!((of("unnamed"), of("duplicate_ids")), (0.0, 0.0), "{seen:#}");
        let texts = (&seen[frame]["clipped"], &seen[frame]["colliding"]);
        assert_eq!(texts, (&json!([]), &json!([])), "{frame}");
        for column in seen[frame]["sorted"].as_array().unwrap() {
            // A size without a figure has no number.
            let number = |one: &Value| one.as_str().map(|text| text.parse::<f64>().unwrap());
            let numbers: Vec<f64> = column.as_array().unwrap().iter().filter_map(number).collect();
            assert!(numbers.len() > 1 && numbers.is_sorted(), "{seen:#}");
        }
        assert!(of("narrowest") > 280.0, "{frame}: {seen:#}");
        assert!(of("smallest_text") >= 8.0, "{frame}: {seen:#}");
        for (ink, paper) in [("ink", "background"), ("picture_ink", "picture")] {
            let of = |name: &str| luminance(seen[frame][name].as_str().unwrap());
            let (ink, paper) = (of(ink), of(paper));
            let contrast = (ink.max(paper) + 0.05) / (ink.min(paper) + 0.05);
            // WCAG 2.2 section 1.4.6.
            assert!(contrast >= 7.0, "{frame}: contrast {contrast:.1}");
            assert_eq!(paper < 0.05, frame == "dark", "{frame}: {seen:#}");
        }
    }
    assert_eq!(seen["phone"]["columns"], 1);
    assert!(seen["desk"]["columns"].as_u64().unwrap() > 1);
}

/// The same cases with names, sizes and times that need more room.
fn long_names(views: Vec<CaseView>) -> Vec<CaseView> {
    let of = |(place, mut view): (usize, CaseView)| {
        let case = &mut view.found.result.case;
        case.target =
            format!("https://gateway-{place}.example.com:8243/{}", "a-long-path/".repeat(9));
        case.scenario =
            "a_scenario_with_a_long_name_of_71_characters_and_without_a_single_space".to_owned();
        (case.users, case.payload_bytes) = (case.users * 1_000, case.payload_bytes * 1_025);
        let second = view.found.result.load["series"][0].clone();
        if second.is_object() {
            view.found.result.load["series"] = json!(vec![second; 4_000]);
        }
        view
    };
    views.into_iter().take(4).enumerate().map(of).collect()
}

fn look(folder: &TempDir) -> Value {
    let page = folder.path().join("watcher.html");
    fs::write(&page, WATCHER).unwrap();
    let profile = TempDir::new().unwrap();
    let is_installed = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let browser = BROWSERS.iter().find(is_installed).unwrap_or_else(|| {
        panic!("no browser found. On Debian: apt-get install chromium-headless-shell")
    });
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let title = dom.split_once("<title>seen ").and_then(|(_, rest)| rest.split_once("</title>"));
    let (json, _) = title.unwrap_or_else(|| {
        panic!(
            "{browser} did not measure the page: {dom}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    serde_json::from_str(&json.replace("&amp;", "&")).unwrap()
}

/// Relative luminance of `rgb(r, g, b)`. Source: WCAG 2.2.
fn luminance(colour: &str) -> f64 {
    let numbers = colour.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(')');
    let channel = |text: &str| {
        let share: f64 = text.trim().parse::<f64>().unwrap() / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let channels: Vec<f64> = numbers.split(',').take(3).map(channel).collect();
    0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
}
