//! `penstock xml`, `json` and `expression`: results on stdout, diagnostics with a caret on stderr.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use expression::limits;
use harness::{Files, penstock};

const ORDERS: &str = "<?xml version=\"1.0\"?>\n<s:orders xmlns:s=\"urn:shop\"><order id=\"1\"><symbol>IBM</symbol></order>\
                      <!--c--><s:order id=\"2\"><symbol>a &lt; b</symbol></s:order><?p d?></s:orders>\n";

/// Arguments, stdout, a pattern that stderr contains (`…` matches any text; empty: stderr is empty), exit code.
type Row = (&'static [&'static str], &'static str, &'static str, i32);

/// A folder with the input files.
fn folder() -> Files {
    let files = Files::new();
    files.write("orders.xml", ORDERS);
    files.write("broken.xml", "<a>\n\t<b>é</c>\n</a>\n");
    files.write("returns.xml", "<a>\r<b>\r\n<c&/></b></a>");
    files.write("doctype.xml", "<!DOCTYPE a [<!ENTITY e 'in'>]><a>&e;</a>");
    files.write("outside.xml", "<!DOCTYPE a [<!ENTITY e SYSTEM 'orders.xml'>]><a>&e;</a>");
    files.write(
        "order.json",
        "{\"items\":[{\"sku\":\"a\",\"price\":1.50},\n {\"sku\":\"b\",\"price\":20}]}\n",
    );
    files.write("broken.json", "{\"a\":\n  [1,,2]}");
    files.write("headers.txt", "X-Tenant: other\r\n\r\nx-tenant:  acme \r\nHost: me:80\r\n");
    files.write("headers.json", "{\"X-Tenant\": \"acme\", \"Age\": 7}");
    files.write("bad-headers.txt", "Host: me\nGET / HTTP/1.1\n");
    files.write("deep-headers.json", "{\"Host\":\n [1]}");
    files.write("vars.json", "{\"suffix\": \"-eu\", \"n\": 3, \"of\": {\"a\": [1]}}");
    files.write("list.json", "\n [1]");
    files
}

fn start(files: &Files, arguments: &[&str]) -> Child {
    Command::new(penstock())
        .args(arguments)
        .current_dir(files.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[track_caller]
fn check(rows: &[Row]) {
    check_with("", rows);
}

#[track_caller]
fn check_with(stdin: &str, rows: &[Row]) {
    let files = folder();
    for &(arguments, stdout, stderr, code) in rows {
        let mut child = start(&files, arguments);
        // A command that reads no stdin may have ended already.
        drop(child.stdin.take().unwrap().write_all(stdin.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let found = (String::from_utf8(output.stdout).unwrap(), output.status.code());
        assert_eq!((found.0.as_str(), found.1), (stdout, Some(code)), "{arguments:?}: {errors}");
        assert!(matches(&errors, stderr), "{arguments:?}: no {stderr:?} in\n{errors}");
        assert!(!stderr.is_empty() || errors.is_empty(), "{arguments:?}: {errors}");
    }
}

/// Whether `text` contains the parts of `pattern` between `…`, in their order.
fn matches(text: &str, pattern: &str) -> bool {
    let mut rest = Some(text);
    for part in pattern.split('…') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[test]
#[rustfmt::skip]
fn xml_check_reports_the_first_error_of_every_file() {
    check(&[
        (&["xml", "check", "orders.xml"], "1 file, 0 errors\n", "", 0),
        (&["xml", "check", "broken.xml"], "1 file, 1 error\n",
         "broken.xml:2:6: …\n\t<b>é</c>\n\t    ^\n", 1),
        (&["xml", "check", "returns.xml"], "1 file, 1 error\n", "\n<c&/></b></a>\n  ^\n", 1),
        (&["xml", "check", "doctype.xml"], "1 file, 0 errors\n", "", 0),
        (&["xml", "check", "outside.xml"], "1 file, 1 error\n", "outside.xml:1:…", 1),
        (&["xml", "check", "none.xml", "broken.xml", "orders.xml"], "3 files, 2 errors\n",
         "penstock: cannot read none.xml: No such file or directory (os error 2)\nbroken.xml:2:6: ", 1),
        (&["xml", "check", "apis"], "1 file, 1 error\n", "penstock: cannot read apis: Is a directory", 1),
        (&["xml", "check"], "", "Usage: penstock xml check", 2),
        (&["xml", "check", "-", "-"], "", "penstock: `-` (stdin)", 2),
    ]);
}

#[test]
#[rustfmt::skip]
fn xml_select_prints_one_node_per_line_and_other_values_as_text() {
    check(&[
        (&["xml", "select", "//symbol/..", "orders.xml"],
         "<order xmlns:s=\"urn:shop\" id=\"1\"><symbol>IBM</symbol></order>\n\
          <s:order xmlns:s=\"urn:shop\" id=\"2\"><symbol>a &lt; b</symbol></s:order>\n", "", 0),
        (&["xml", "select", "/", "doctype.xml"], "<a>in</a>\n", "", 0),
        (&["xml", "select", "//comment()|//processing-instruction()", "orders.xml"], "<!--c-->\n<?p d?>\n", "", 0),
        (&["xml", "select", "//@id|//text()", "orders.xml"], "1\nIBM\n2\na < b\n", "", 0),
        (&["xml", "select", "/*/namespace::s", "orders.xml"], "urn:shop\n", "", 0),
        (&["xml", "select", "//nothing", "orders.xml"], "", "", 0),
        (&["xml", "select", "string(//symbol[2])", "orders.xml"], "\n", "", 0),
        (&["xml", "select", "count(//symbol) div 4", "orders.xml"], "0.5\n", "", 0),
        (&["xml", "select", "--", "-count(//symbol)", "orders.xml"], "-2\n", "", 0),
        (&["xml", "select", "//symbol = 'IBM'", "orders.xml"], "true\n", "", 0),
        (&["xml", "select", "count(//p:order)", "orders.xml", "--ns", "p=urn:shop", "--ns", "q=u"], "1\n", "", 0),
        (&["xml", "select", "concat($a, $p:b, '!')", "orders.xml", "--var", "a=1=2", "--ns", "p=u", "--var", "p:b="],
         "1=2!\n", "", 0),
    ]);
}

#[test]
#[rustfmt::skip]
fn xml_select_reports_errors_of_expression_file_and_arguments() {
    check(&[
        (&["xml", "select", "//a[", "orders.xml"], "", "expression:1:5: …\n//a[\n    ^\n", 1),
        (&["xml", "select", "//é/p:a", "orders.xml"], "", "expression:1:5: …\n//é/p:a\n    ^\n", 1),
        (&["xml", "select", "1 + $no", "orders.xml"], "", "expression:1:5: …\n1 + $no\n    ^\n", 1),
        (&["xml", "select", "1 +\n $no", "orders.xml"], "", "expression:2:2: …\n $no\n ^\n", 1),
        (&["xml", "select", "//b", "broken.xml"], "", "broken.xml:2:6: ", 1),
        (&["xml", "select", "//b", "none.xml"], "", "penstock: cannot read none.xml: ", 1),
        (&["xml", "select", "//b"], "", "Usage: penstock xml select", 2),
        (&["xml", "select", "//b", "orders.xml", "--ns", "b"], "", "write prefix=URI", 2),
        (&["xml", "select", "//b", "orders.xml", "--ns", "b=u", "--ns", "b=v"], "", "--ns b is given twice", 2),
        (&["xml", "select", "//b", "orders.xml", "--var", "p:b=u"], "", "add --ns p=URI", 2),
    ]);
}

/// A stylesheet with these children.
fn sheet(inside: &str) -> String {
    let xsl = "http://www.w3.org/1999/XSL/Transform";
    format!("<xsl:stylesheet version='1.0' xmlns:xsl='{xsl}'>\n{inside}\n</xsl:stylesheet>\n")
}

/// The example's files, and stylesheets that read other files or fail.
fn sheets() -> Files {
    let files = folder();
    fs::create_dir_all(files.path("example/in")).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/xslt");
    for file in ["orders.xml", "money.xslt", "positions.xslt"] {
        let text = fs::read_to_string(Path::new(example).join(file)).unwrap();
        files.write(&format!("example/{file}"), &text);
    }
    let read = |what: &str| {
        let root = "<xsl:template match='/'>";
        sheet(&format!("{root}<o><xsl:value-of select=\"document('{what}')\"/></o></xsl:template>"))
    };
    files.write("example/in/data.xml", "<d>in</d>");
    files.write("example/in/data.xslt", &read("data.xml"));
    files.write("example/down.xslt", &sheet("<xsl:import href='in/data.xslt'/>"));
    files.write("example/up.xslt", &read("../orders.xml"));
    files.write("example/url.xslt", &read("http://127.0.0.1:1/"));
    files.write("example/absolute.xslt", &read("/etc/hostname"));
    files.write("example/in/wrong.xslt", &sheet("<xsl:template match='é['/>"));
    files.write("example/imports-wrong.xslt", &sheet("<xsl:import href='in/wrong.xslt'/>"));
    files.write("example/gone.xslt", &sheet("<xsl:include href='gone.xsl'/>"));
    files.write(
        "example/stop.xslt",
        &sheet(
            "<xsl:template match='/'>\n<xsl:message \
                 terminate='yes'>no\u{85}w</xsl:message></xsl:template>",
        ),
    );
    files.write(
        "example/says.xslt",
        &sheet(
            "<xsl:output omit-xml-declaration='yes'/>\
                 <xsl:template match='/'><xsl:message>hello</xsl:message><o/></xsl:template>",
        ),
    );
    files
}

fn transform(files: &Files, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut child = start(files, &[&["xml", "transform"], arguments].concat());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn xml_transform_produces_the_result_beside_the_example() {
    let files = sheets();
    let arguments = ["example/positions.xslt", "example/orders.xml", "--param", "currency=EUR"];
    let (out, errors, code) = transform(&files, &arguments);
    assert_eq!((out.trim_end(), errors.as_str(), code), (POSITIONS.trim_end(), "", Some(0)));
    let (out, errors, code) = transform(&files, &arguments[..2]);
    assert!(out.contains("currency=\"USD\"") && code == Some(0), "{errors}");
}

#[test]
fn xml_transform_has_a_clock() {
    let files = sheets();
    let sheet = "<o xsl:version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform' \
        xmlns:date='http://exslt.org/dates-and-times'><xsl:value-of select='date:year() > 2025'/></o>";
    files.write("example/now.xslt", sheet);
    let (out, errors, code) = transform(&files, &["example/now.xslt", "example/orders.xml"]);
    assert!(out.contains(">true</o>") && code == Some(0), "{out}{errors}");
}

const POSITIONS: &str = include_str!("../../examples/xslt/positions.xml");

#[test]
#[rustfmt::skip]
fn xml_transform_reads_only_files_below_the_sheet_and_reports_positions() {
    let files = sheets();
    let rows: &[Row] = &[
        (&["down.xslt"], "<o>in</o>", "", 0),
        (&["up.xslt"], "", "example/up.xslt:2:28: …`../orders.xml`…\n<xsl:template", 1),
        (&["url.xslt"], "", "`http://127.0.0.1:1/`", 1),
        (&["absolute.xslt"], "", "`/etc/hostname`", 1),
        (&["gone.xslt"], "", "example/gone.xslt:2:1: …`gone.xsl`…No such file", 1),
        (&["imports-wrong.xslt"], "", "example/in/wrong.xslt:2:", 1),
        (&["imports-wrong.xslt"], "", "<xsl:template match='é['/>\n                       ^\n", 1),
        (&["stop.xslt"], "", "no\u{fffd}w\nexample/stop.xslt:3:1: …no\u{fffd}w\n<xsl:message", 1),
        (&["none.xslt"], "", "penstock: cannot read example/none.xslt: ", 1),
        (&["orders.xml"], "", "example/orders.xml:2:1: ", 1),
        (&["positions.xslt", "--param", "rate=2"], "", "--param rate: …currency", 2),
        (&["positions.xslt", "--param", "currency=2", "--param", "currency=3"], "", "given twice", 2),
        (&["positions.xslt", "--param", "currency"], "", "write name=value", 2),
        (&["positions.xslt", "--repeat", "0"], "", "--repeat", 2),
    ];
    for &(arguments, stdout, stderr, code) in rows {
        let sheet = format!("example/{}", arguments[0]);
        let all = [&[sheet.as_str(), "example/orders.xml"], &arguments[1..]].concat();
        let (out, errors, status) = transform(&files, &all);
        let out = out.split_once("?>\n").map_or(out.as_str(), |(_, rest)| rest);
        assert_eq!((out, status), (stdout, Some(code)), "{arguments:?}: {errors}");
        assert!(matches(&errors, stderr), "{arguments:?}: no {stderr:?} in\n{errors}");
    }
    let (_, errors, code) = transform(&files, &["example/says.xslt", "broken.xml"]);
    assert!(errors.contains("broken.xml:2:6: ") && code == Some(1), "{errors}");
    let (_, errors, code) = transform(&files, &["example/says.xslt"]);
    assert!(errors.contains("Usage: penstock xml transform") && code == Some(2), "{errors}");
}

#[test]
fn xml_transform_repeats_the_work_and_prints_its_times_once() {
    let files = sheets();
    let arguments = ["example/says.xslt", "orders.xml", "--repeat", "3"];
    let (out, errors, code) = transform(&files, &arguments);
    assert_eq!((out.as_str(), code), ("<o/>", Some(0)), "{errors}");
    let (message, times) = errors.split_once('\n').unwrap();
    assert_eq!(message, "hello");
    let times: serde_json::Value = serde_json::from_str(times).unwrap();
    let time = |name: &str| times[name].as_f64().unwrap();
    assert!(time("parse_us") > 0.0 && time("transform_us") > 0.0, "{errors}");
    assert_eq!(time("serialise_us"), 0.0);
    assert!(time("total_us") >= time("parse_us"), "{errors}");
    assert_eq!(times.as_object().unwrap().len(), 4);
}

#[test]
#[rustfmt::skip]
fn json_select_prints_the_value_of_a_definite_path_and_a_list_of_any_other() {
    check(&[
        (&["json", "select", "$.items[0].price", "order.json"], "1.50\n", "", 0),
        (&["json", "select", "$.items[1].sku", "order.json"], "\"b\"\n", "", 0),
        (&["json", "select", "$..price", "order.json"], "[1.50,20]\n", "", 0),
        (&["json", "select", "$.items[?(@.price > 99)]", "order.json"], "[]\n", "", 0),
        (&["json", "select", "$.items.nope", "order.json"], "", "expression:1:1: ", 1),
        (&["json", "select", "$.items[", "order.json"], "", "\n$.items[\n        ^\n", 1),
        (&["json", "select", "$.a", "broken.json"], "", "broken.json:2:6: …\n  [1,,2]}\n     ^\n", 1),
        (&["json", "select", "$.a", "none.json"], "", "penstock: cannot read none.json: ", 1),
        (&["json", "select", "$.a"], "", "Usage: penstock json select", 2),
    ]);
}

#[test]
#[rustfmt::skip]
fn expression_evaluates_every_language_over_payload_headers_and_variables() {
    check(&[
        (&["expression", "${payload.items[0].price * 2}", "--payload", "order.json"], "3.0\n", "", 0),
        (&["expression", "${payload.items[1]}", "--payload", "order.json"], "{\"sku\":\"b\",\"price\":20}\n", "", 0),
        (&["expression", "json-eval($.items[?(@.price < 10)].sku)", "--payload", "order.json"], "[\"a\"]\n", "", 0),
        (&["expression", "//symbol[. = 'IBM']", "--payload", "orders.xml"], "IBM\n", "", 0),
        (&["expression", "string(//s:order/@id)", "--payload", "orders.xml", "--ns", "s=urn:shop"], "2\n", "", 0),
        (&["expression", "$trp:X-Tenant", "--headers", "headers.txt"], "acme\n", "", 0),
        (&["expression", "${headers.Host}", "--headers", "headers.txt"], "me:80\n", "", 0),
        (&["expression", "${headers[\"X-Tenant\"] + vars.suffix}", "--headers", "headers.json", "--vars", "vars.json"],
         "acme-eu\n", "", 0),
        (&["expression", "$trp:Age", "--headers", "headers.json"], "7\n", "", 0),
        (&["expression", "${vars.n + vars.of.a[0]}", "--vars", "vars.json"], "4\n", "", 0),
        (&["expression", "$ctx:nothing"], "\n", "", 0),
    ]);
}

#[test]
#[rustfmt::skip]
fn expression_reports_errors_of_the_expression_and_its_files() {
    check(&[
        (&["expression", "${1 +"], "", "expression:1:6: …\n${1 +\n     ^\n", 1),
        (&["expression", "json-eval($.é[)"], "", "\njson-eval($.é[)\n              ^\n", 1),
        (&["expression", "//a:b"], "", "expression:1:3: …\n//a:b\n  ^\n", 1),
        (&["expression", "json-eval($.nope)", "--payload", "order.json"], "", "expression:1:1: ", 1),
        (&["expression", "${payload.a}", "--payload", "broken.json"], "", "broken.json:2:6: ", 1),
        (&["expression", "//a", "--payload", "broken.xml"], "", "broken.xml:2:6: ", 1),
        // Payloads are read as message bodies are: unlike `xml select`, without a DTD.
        (&["expression", "//a", "--payload", "doctype.xml"], "", "doctype.xml:1:1: ", 1),
        (&["expression", "$trp:a", "--headers", "bad-headers.txt"], "",
         "bad-headers.txt:2:1: …\nGET / HTTP/1.1\n^\n", 1),
        (&["expression", "$trp:a", "--headers", "deep-headers.json"], "", "deep-headers.json:2:2: ", 1),
        (&["expression", "$var:a", "--vars", "list.json"], "", "list.json:2:2: ", 1),
        (&["expression", "1", "--payload", "none.json"], "", "penstock: cannot read none.json: ", 1),
        (&["expression", "1", "--payload", "-", "--vars", "-"], "", "`-` (stdin)", 2),
        (&["expression"], "", "Usage: penstock expression", 2),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_dash_is_stdin() {
    check_with(ORDERS, &[
        (&["xml", "check", "orders.xml", "-"], "2 files, 0 errors\n", "", 0),
        (&["xml", "select", "count(//symbol)", "-"], "2\n", "", 0),
        (&["expression", "count(//symbol)", "--payload", "-"], "2.0\n", "", 0),
        (&["json", "select", "$.a", "-"], "", "-:1:1: ", 1),
    ]);
    check_with("{\"a\": [1 ]}", &[
        (&["json", "select", "$.a", "-"], "[1 ]\n", "", 0),
        (&["expression", "${payload.a[0]}", "--payload", "-"], "1\n", "", 0),
        (&["expression", "${vars.a[0]}", "--vars", "-"], "1\n", "", 0),
        (&["xml", "check", "-"], "1 file, 1 error\n", "-:1:1: ", 1),
    ]);
}

#[test]
fn a_closed_pipe_is_not_an_error_but_a_full_disk_is() {
    let files = folder();
    files.write("long.xml", &format!("<a>{}</a>", "<b/>".repeat(50_000)));
    let mut child = start(&files, &["xml", "select", "//b", "long.xml"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    for arguments in [
        &["json", "select", "$.items", "order.json"][..],
        &["xml", "check", "orders.xml"],
        &["lab", "payload", "--bytes", "64", "--shape", "array"],
        &["check", "apis"],
    ] {
        let output = Command::new(penstock())
            .args(arguments)
            .current_dir(files.folder())
            .stdout(OpenOptions::new().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            errors.starts_with("penstock: cannot write to stdout: "),
            "{arguments:?}: {errors}"
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_file_above_the_limit_is_rejected_and_excerpts_are_decoded() {
    let files = folder();
    let body = u64::from(limits::JSON_BYTES_MAX);
    File::create(files.path("large.json")).unwrap().set_len(body + 1).unwrap();
    let utf16: Vec<u8> = "\u{FEFF}<a>é</b>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(files.path("wide.xml"), utf16).unwrap();
    let declaration = b"<?xml version=\"1.0\" encoding=\"windows-1252\"?>\r\n";
    fs::write(files.path("windows.xml"), [&declaration[..], b"<a>\x80\xE9</b>"].concat()).unwrap();
    for (arguments, stderr) in [
        (["json", "select", "$", "large.json"], "large.json is larger than…10485760"),
        (["xml", "select", "/", "wide.xml"], "\n<a>é</b>\n    ^\n"),
        (["xml", "select", "/", "windows.xml"], "windows.xml:2:6: …\n<a>€é</b>\n     ^\n"),
    ] {
        let output = start(&files, &arguments).wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(matches(&errors, stderr) && output.status.code() == Some(1), "{errors}");
    }
}

#[test]
fn the_help_of_each_command_has_an_example() {
    let files = folder();
    for arguments in [
        &["xml", "check"][..],
        &["xml", "select"],
        &["xml", "transform"],
        &["json", "select"],
        &["expression"],
    ] {
        let with_help: Vec<&str> = arguments.iter().copied().chain(["--help"]).collect();
        let output = start(&files, &with_help).wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let example = format!("Examples:\n  penstock {} ", arguments.join(" "));
        assert!(output.status.success() && text.contains(&example), "{text}");
    }
}
