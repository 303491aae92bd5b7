//! The reports of a results folder.

use crate::report_support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use penstock_lab::report::{self, CaseView, ReportError, results};
use penstock_lab::result::State;
use tempfile::TempDir;

#[test]
fn the_page_is_self_contained_and_allows_only_its_own_script() {
    let out = written();
    let page = read(out, "report.html");
    let (_, script) = page.split_once("<script>").unwrap();
    let (script, rest) = script.split_once("</script>").unwrap();
    assert!(!rest.contains("<script"));
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, script.as_bytes());
    let hash = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, digest);
    assert!(page.contains(&format!("script-src 'sha256-{hash}'\"")));
    for forbidden in ["<link", "<img", "@import", "url(", "src=", "href=\"http"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count() + 1);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn every_chart_has_a_description_and_a_table() {
    let out = written();
    let page = read(out, "report.html");
    let count = |what: &str| page.matches(what).count();
    let figures = count("<figure ");
    assert!(figures > 20, "{figures}");
    for part in ["<desc ", "<details><summary>Table: "] {
        assert_eq!(count(part), figures, "{part}");
    }
    // The picture of a ranking is beside the table that it shows.
    let pictures = count("as in the table\"");
    assert!(pictures > 0);
    for part in ["role=\"img\"", "</svg>"] {
        assert_eq!(count(part), figures + pictures, "{part}");
    }
    // Names come from suite files and must be escaped everywhere.
    assert!(!page.contains("<b>") && page.contains("a &lt;b&gt; &amp; &quot;c&quot;"));
}

#[test]
fn the_verdict_comes_first_and_each_warning_once() {
    let out = written();
    let page = read(out, "report.html");
    assert!(page.contains(
        "9 cases: 8 measured (usable: CPU in 6, rate in 6, latency in 6), 1 not served, 0 failed."
    ));
    let places = [
        "class=\"verdict\"",
        "id=\"ranking\"",
        "id=\"warnings\"",
        "id=\"charts\"",
        "id=\"results\"",
    ]
    .map(|part| page.find(part).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    // The same CPU time in all cases.
    assert!(
        page.contains("Can&#39;t tell which target has the least CPU time per request: "),
        "no verdict"
    );
    assert_eq!(page.matches("not served: the target can&#39;t transform").count(), 1);
    assert_eq!(page.matches("10 % of the requests failed").count(), 2, "once for each case");
    assert!(page.contains("(warning: errors)"));
}

#[test]
fn a_target_has_the_same_colour_in_every_chart() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let mut views = views(folder.path());
    // A target without figures has no colour, although its name is the first.
    let mut unserved = views.iter().find(|view| !view.is_valid()).unwrap().clone();
    unserved.found.result.state = State::NotServed;
    unserved.found.result.case.target = "A target".to_owned();
    views.insert(0, unserved);
    let page = report::page(&views, &report::charts(&views));
    // Targets are numbered by name; this one is the second.
    let (mut marks, mut bars, mut heats) = (0, 0, 0);
    for figure in page.split("<figure id=\"").skip(1) {
        let (figure, _) = figure.split_once("</figure>").unwrap();
        let is_second = |part: &&str| {
            assert!(part.starts_with('1'), "{part} in {figure}");
            true
        };
        let named = |part: &&str| {
            part.contains("<title>penstock</title>") || part.contains("<title>penstock, ")
        };
        let colours = |kind: &'static str| figure.split(kind).skip(1);
        marks += colours("<path class=\"s").filter(named).filter(is_second).count();
        bars += colours("<rect class=\"s").filter(named).filter(is_second).count();
        if figure.contains("<title id=\"heat-") && figure.contains(">Over time: penstock, ") {
            heats += colours("<rect class=\"h s").filter(is_second).count();
        }
    }
    assert!(marks > 0 && bars > 0 && heats > 0, "{marks} {bars} {heats}");
}

#[test]
fn figures_of_a_single_cell_are_bars() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let of_cell = |view: &CaseView| {
        let case = &view.result().case;
        (case.users, case.payload_bytes) == (50, 1_024)
    };
    let views: Vec<CaseView> = views(folder.path()).into_iter().filter(of_cell).collect();
    let charts = report::charts(&views);
    let ids: Vec<&str> = charts.drawn.iter().map(|chart| chart.id.as_str()).collect();
    assert!(ids.contains(&"throughput-50-1024-0") && ids.contains(&"cpu-50-1024-0"), "{ids:?}");
    assert!(!ids.iter().any(|id| id.contains("-by-users-") || id.contains("-by-size-")), "{ids:?}");
}

#[test]
fn the_contents_link_to_all_headings() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let views = views(folder.path());
    let page = report::page(&views, &report::charts(&views));
    let (_, contents) = page.split_once("<nav aria-label=\"Contents\">").unwrap();
    let (contents, rest) = contents.split_once("</nav>").unwrap();
    let links: Vec<&str> =
        contents.split("href=\"#").skip(1).map(|link| link.split('"').next().unwrap()).collect();
    for id in ["ranking", "warnings", "charts", "charts-0", "results", "environment"] {
        assert!(links.contains(&id), "{id}: {links:?}");
    }
    for id in &links {
        assert_eq!(rest.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(contents.contains(">CPU per request</a>"), "{contents}");
}

#[test]
fn the_output_of_lab_load_has_a_report_too() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("load.json");
    let load = serde_json::json!({
        "requests": 1_000, "errors": 0, "error_percent": 0.0, "seconds": 10.0, "throughput_per_s": 100.0,
        "target_cpu_us_per_request": 12.5,
        "mean_ms": 10.0, "p50_ms": 9.0, "p99_ms": 20.0, "measured_from_ms": 1_800_000_000_000_u64,
        "options": {"url": "http://127.0.0.1:1/", "method": "GET", "users": 1, "seed": 1},
        "warnings": [],
    });
    fs::write(&file, load.to_string()).unwrap();
    let views = views(&file);
    let page = report::page(&views, &report::charts(&views));
    assert!(
        page.contains("<strong>http://127.0.0.1:1/: 100 requests/s, p50 9 ms, p99 20 ms"),
        "{page}"
    );
    assert!(page.contains(", 12.5 us CPU per request ("), "{page}");
    fs::write(&file, "{}").unwrap();
    assert!(results::read(&file).unwrap_err().contains("neither a result.json"));
}

#[test]
fn requests_of_scenarios_and_all_series_over_time_are_drawn() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("load.json");
    let request = |name: &str, p99: f64| serde_json::json!({"name": name, "requests": 4, "errors": 1, "p99_ms": p99});
    let second = |errors: u64| serde_json::json!({"rate_per_s": 9.0, "p50_ms": 1.0, "p99_ms": 2.0, "max_ms": 3.0, "errors": errors, "target_cpus": 0.5});
    let stall = serde_json::json!({"rate_per_s": 0.0, "p50_ms": null, "p99_ms": null, "errors": 0, "target_cpus": 0.0});
    let load = serde_json::json!({
        "requests": 8, "errors": 2, "error_percent": 25.0, "throughput_per_s": 2.0,
        "measured_from_ms": 1_800_000_000_000_u64,
        "machine": {"cpu": "a CPU", "cores": 2, "kernel": "a kernel", "memory_bytes": 1 << 30, "limits": []},
        "thresholds": [
            {"condition": "p99 > 20ms", "value": 20.5, "broken": true},
            {"condition": "rate < 1/s", "value": 2.0, "broken": false},
        ],
        "by_request": [request("create <order>", 20.5), request("read", 3.25)],
        "series": [second(0), second(3), stall, second(0)],
        "options": {"url": "http://127.0.0.1:1/", "method": null, "scenario": "orders", "users": 1, "seed": 1},
        "warnings": [],
    });
    fs::write(&file, load.to_string()).unwrap();
    let views = views(&file);
    let charts = report::charts(&views);
    let ids: Vec<&str> = charts.drawn.iter().map(|chart| chart.id.as_str()).collect();
    for figure in ["rate", "latency", "errors", "cpu"] {
        let start = format!("{figure}-over-time-");
        assert!(ids.iter().any(|id| id.starts_with(&start)), "{figure}: {ids:?}");
    }
    let found = |id: &str| charts.drawn.iter().find(|chart| chart.id.starts_with(id)).unwrap();
    // The percentiles of a single target are in one picture. A stall is a gap in them.
    let (header, latency) = found("latency-over-time-").table();
    assert_eq!(header[1..], ["p50", "p99", "max"]);
    let gaps = latency.iter().map(|row| row[2] == "no figure");
    assert_eq!(gaps.collect::<Vec<_>>(), [false, false, true, false]);
    let by_request = found("p99-by-request-");
    let rows = by_request.table().1;
    assert_eq!(
        rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
        ["create <order>", "read"]
    );
    assert!(rows[0][1].starts_with("20.5"), "{rows:?}");
    let page = report::page(&views, &charts);
    assert!(by_request.title.ends_with(": orders, 1 users, 0B"), "{}", by_request.title);
    let (before, after) = page.split_once("id=\"thresholds\"").unwrap();
    assert!(before.contains("class=\"verdict\"") && after.contains("id=\"charts\""));
    assert!(after.contains("<strong>p99 &gt; 20ms: failed</strong>"), "{page}");
    assert!(after.contains("<li>rate &lt; 1/s: passed</li>"), "{page}");
    assert!(page.contains("<li>a CPU, 2 CPUs, 1GiB, a kernel</li>"), "{page}");
    assert!(page.contains("id=\"requests\"") && page.contains("create &lt;order&gt;"), "{page}");
}

#[test]
fn published_results_are_drawn_behind_ours_with_their_hardware() {
    let out = written();
    let svg = read(out, "charts/throughput-by-users-passthrough-1024-0.svg");
    let (published, ours) =
        (svg.find("class=\"l p\"").unwrap(), svg.find("class=\"l s0\"").unwrap());
    assert!(published < ours, "published results must be drawn first");
    assert!(svg.contains("published: API Manager 2.6, m5.large 2 vCPU"));
    assert!(svg.contains("prefers-color-scheme:dark"));
}

#[test]
fn each_kind_of_chart_is_written_as_svg() {
    let out = written();
    let files = fs::read_dir(out.join("charts")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.iter().all(|file| file.extension().unwrap() == "svg"), "{files:?}");
    for kind in [
        "throughput",
        "mean",
        "p99",
        "percentiles",
        "cpu",
        "memory",
        "errors",
        "histogram",
        "heat",
        "distribution",
        "rate-over-time",
        "p99-over-time",
    ] {
        let is = |name: &PathBuf| name.file_name().unwrap().to_string_lossy().starts_with(kind);
        assert!(files.iter().any(is), "{kind}");
    }
}

#[test]
fn the_heat_map_shows_a_slow_request() {
    let out = written();
    let page = read(out, "report.html");
    let (_, figure) = page.split_once("<figure id=\"heat-0\">").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    let row = |second: &str| {
        let (_, row) = figure.split_once(&format!(">{second} s</th>")).unwrap();
        row.split_once("</tr>").unwrap().0.to_owned()
    };
    assert!(row("0").starts_with("<td>1000</td>"), "{}", row("0"));
    assert!(row("1").starts_with("<td>1001</td>") && row("1").contains("<td>200"), "{}", row("1"));
}

#[test]
fn charts_that_do_not_fit_the_page_are_listed() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let with_log = views(folder.path()).into_iter().find(|view| view.is_valid()).unwrap();
    let many: Vec<CaseView> = (0..26).map(|_| with_log.clone()).collect();
    let charts = report::charts(&many);
    let page = report::page(&many, &charts);
    for (place, is_on_page) in [(0, true), (23, true), (24, false), (25, false)] {
        for kind in ["histogram", "heat"] {
            let id = format!("{kind}-{place}");
            assert!(charts.drawn.iter().any(|chart| chart.id == id), "{id}");
            assert_eq!(page.contains(&format!("<figure id=\"{id}\">")), is_on_page, "{id}");
            assert_eq!(page.contains(&format!("charts/{id}.svg")), !is_on_page, "{id}");
        }
    }
    assert!(page.contains("4 charts of single cases") && page.contains("--only"));
    assert!(!read(written(), "report.html").contains("Not on this page"));
}

#[test]
fn histogram_logs_that_are_not_drawn_are_among_the_warnings() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    // A single case, whose log was the only source of charts.
    let mut view = views(folder.path()).into_iter().find(|view| view.is_valid()).unwrap();
    view.found.result.load["series"] = serde_json::json!([]);
    let broken = folder.path().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("histogram.hlog"), "no log").unwrap();
    view.found.file = broken.join("result.json");
    let page = report::page(&[view.clone()], &report::charts(&[view]));
    let (_, warnings) = page.split_once("id=\"warnings\"").unwrap();
    let (warnings, _) = warnings.split_once("</section>").unwrap();
    assert!(warnings.contains("broken/histogram.hlog: not a histogram log: "), "{warnings}");
}

#[test]
fn cases_can_be_selected() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let all = || results::read(folder.path()).unwrap();
    assert_eq!(results::chosen(all(), None).unwrap().len(), all().len());
    let first = all().first().unwrap().result.case.id.clone();
    assert_eq!(results::chosen(all(), Some(&format!("^{first}/1$"))).unwrap().len(), 1);
    assert!(results::chosen(all(), Some("nowhere")).unwrap_err().contains(&first));
    assert!(results::chosen(all(), Some("(")).is_err());
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    report_support::results(folder.path());
    let views = views(folder.path());
    let again = report::page(&views, &report::charts(&views));
    assert!(again == read(written(), "report.html"));
}

#[test]
fn reports_never_overwrite() {
    assert!(matches!(report::write(&[], written()), Err(ReportError::Exists(_))));
}

#[test]
fn leftovers_of_a_killed_report_are_neither_used_nor_removed() {
    let folder = TempDir::new().unwrap();
    let leftover = folder.path().join("new.partial").join("charts");
    fs::create_dir_all(&leftover).unwrap();
    fs::write(leftover.join("old.svg"), "old").unwrap();
    // With a final slash, as completed by a shell; the folder above does not exist either.
    for out in ["new", "sub/folder/"].map(|out| folder.path().join(out)) {
        report::write(&[], &out).unwrap();
        assert!(out.join("report.html").is_file() && !out.join("charts/old.svg").exists());
    }
    assert!(leftover.join("old.svg").exists(), "a folder of the user was removed");
    let entries = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(entries, 3, "only new, new.partial and sub are left");
}

#[test]
fn folders_without_results_are_rejected() {
    let folder = TempDir::new().unwrap();
    assert!(results::read(folder.path()).unwrap_err().contains("no result.json"));
    fs::write(folder.path().join("result.json"), "{}").unwrap();
    assert!(results::read(folder.path()).unwrap_err().contains("result.json: missing field"));
}

/// The report, written once for all tests because rendering is slow.
fn written() -> &'static Path {
    static WRITTEN: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = TempDir::new().unwrap();
        report_support::results(folder.path());
        let out = folder.path().join("report");
        report::write(&views(folder.path()), &out).unwrap();
        (folder, out)
    });
    &WRITTEN.1
}

fn views(folder: &Path) -> Vec<CaseView> {
    results::read(folder).unwrap().into_iter().map(CaseView::new).collect()
}

fn read(out: &Path, file: &str) -> String {
    fs::read_to_string(out.join(file)).unwrap()
}
