//! `penstock check`: every finding of every file at once.

use std::path::Path;

use harness::{CannedResponse, Files, Process, Upstream};

#[test]
fn every_error_of_every_file_is_listed_with_its_position() {
    let files = Files::new()
        .api(
            "one.yaml",
            "openapi: 3.0.3\ninfo: {title: One, version: '1'}\npaths: {}\nx-wso2-basePath: 7\n",
        )
        .api("two.json", "{\"openapi\": \"3.0.3\",\n \"info\": {\"title\": 5}, \"paths\": []}")
        .api("three.yaml", "openapi: 9.9.9\n")
        .api("four.yaml", "a: [\n");
    let (code, text) = Process::run(files.folder(), &["check", "apis"]);
    assert_eq!(code, Some(1), "{text}");
    for place in
        ["apis/one.yaml:4:18: error: ", "apis/two.json:2:", "apis/three.yaml:1:", "apis/four.yaml:"]
    {
        assert!(text.contains(place), "no {place:?} in\n{text}");
    }
    assert!(text.contains("    help: "), "{text}");
    assert!(text.trim_end().lines().last().unwrap().starts_with("4 files, "), "{text}");
}

#[test]
fn the_examples_have_no_diagnostics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let examples =
        ["check", "examples/echo.yaml", "examples/pets.yaml", "examples/micro-integrator"];
    let (code, text) = Process::run(root, &examples);
    assert!(code == Some(0) && text.ends_with(" files, 0 errors, 0 warnings\n"), "{text}");
}

#[test]
fn a_configuration_is_checked_with_the_files_that_it_names() {
    let files = Files::new()
        .api("broken.yaml", "openapi: 3.0.3\n")
        .toml("[[issuer]]\nname = \"x\"\niss = \"https://x\"\njwks = \"none.json\"\n");
    files.configure();
    let (code, text) = Process::run(files.folder(), &["check", "penstock.toml"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("broken.yaml") && text.contains("none.json"), "{text}");
}

#[test]
fn files_are_checked_without_words_about_what_is_served() {
    let files = Files::new();
    let artefact = |element: &str| format!("<{element} xmlns=\"http://ws.apache.org/ns/synapse\"");
    files.write("one.xml", &format!("{} name=\"s\"><log/></sequence>", artefact("sequence")));
    let two = format!("{}>\n <sequence name=\"s\"/></definitions>", artefact("definitions"));
    files.write("two.xml", &two);
    files.write(
        "entry.xml",
        &format!("{} key=\"d\" src=\"file:data.xml\"/>", artefact("localEntry")),
    );
    files.write("data.xml", "<a/>");
    files.write("other.xml", "<b/>");
    let all = ["check", "one.xml", "two.xml", "entry.xml", "data.xml", "other.xml", "none.xml"];
    let (code, text) = Process::run(files.folder(), &all);
    assert_eq!(code, Some(1), "{text}");
    let defined = "two.xml:2:2: error: the sequence `s` is already defined in one.xml";
    assert!(text.contains(defined) && text.contains("none.xml: error: "), "{text}");
    assert!(text.contains("other.xml:1:1: warning: ") && !text.contains("data.xml"), "{text}");
    assert!(!text.contains("stays in use"), "{text}");
}

#[test]
fn no_command_that_only_reads_files_opens_a_connection_unless_it_is_told_to() {
    let host = Upstream::responding(|_| CannedResponse::ok("<definitions/>"));
    let url = host.url();
    let files = Files::new();
    std::fs::create_dir(files.path("all")).unwrap();
    let artefact = |name: &str, xml: &str| {
        let namespace = "xmlns=\"http://ws.apache.org/ns/synapse\"";
        files.write(name, &xml.replacen(' ', &format!(" {namespace} "), 1).replace("URL", &url));
    };
    artefact("all/entry.xml", "<localEntry key=\"e\" src=\"URL/entry\"/>");
    let endpoint = "<wsdl uri=\"URL/endpoint\" service=\"s\" port=\"p\"/>";
    artefact("all/endpoint.xml", &format!("<endpoint name=\"w\">{endpoint}</endpoint>"));
    let target = "<target><inSequence><respond/></inSequence></target>";
    let proxy = format!("<proxy name=\"p\">{target}<publishWSDL uri=\"URL/proxy\"/></proxy>");
    artefact("all/proxy.xml", &proxy);
    let test = "<unit-test><unit-test-artifacts><test-artifact><artifact>/all/proxy.xml</artifact>\
        </test-artifact></unit-test-artifacts><test-cases><test-case name=\"t\"><input/>\
        <assertions/></test-case></test-cases></unit-test>";
    files.write("test.xml", test);
    files.write("apis/sample.yaml", "openapi: 3.0.3\ninfo: {title: T, version: '1'}\npaths: {}\n");

    for (arguments, expect) in [
        (&["check", "all"][..], Some(1)),
        (&["explain", "all"], Some(1)),
        (&["try", "all", "--run", "p"], Some(0)),
        (&["test", "test.xml"], None),
        (&["check", "apis"], None),
    ] {
        let (code, text) = Process::run(files.folder(), arguments);
        assert!(expect.is_none_or(|_| code == expect), "{arguments:?}: {text}");
        assert_eq!(host.connections(), 0, "{arguments:?}: {text}");
    }
    let (_, text) = Process::run(files.folder(), &["check", "all"]);
    for (place, kind) in [("endpoint", "error"), ("entry", "error"), ("proxy", "warning")] {
        let found = format!("{kind}: `{url}/{place}`: not fetched without `--fetch`");
        assert!(text.contains(&found), "no {found:?} in\n{text}");
    }

    for arguments in [&["check", "all"][..], &["explain", "all"], &["try", "all", "--run", "p"]] {
        let before = host.requests().len();
        let (_, text) = Process::run(files.folder(), &[arguments, &["--fetch"]].concat());
        assert_eq!(host.requests().len(), before + 3, "{arguments:?}: {text}");
    }
}

#[test]
fn errors_of_reading_do_not_hide_those_of_compiling() {
    let files = Files::new();
    files.write(
        "a.xml",
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">\n<task name=\"t\"/>\n\
         <endpoint name=\"e\"><address uri=\"$SYSTEM:ABSENT\"/></endpoint>\n\
         <proxy name=\"p\"><target><inSequence>\n<unknown/></inSequence></target></proxy></definitions>",
    );
    let (code, text) = Process::run(files.folder(), &["check", "a.xml"]);
    assert_eq!(code, Some(1), "{text}");
    for found in ["a.xml:2:1: error: `task`", "a.xml:3:34: error: ", "a.xml:5:1: error: "] {
        assert!(text.contains(found), "no {found:?} in\n{text}");
    }
    assert!(text.ends_with("1 file, 3 errors, 0 warnings\n"), "{text}");
}
