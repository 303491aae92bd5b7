//! Local entries and registry resources that are artefacts, or that artefacts read.

use std::sync::Arc;

use penstock_mediation::{Compiler, Program};

use crate::host::{diagnostics, drive, echo, flow, proxy, refuse, request};

#[test]
fn get_property_reads_a_local_entry_where_there_is_no_property() {
    let entries = "<localEntry key=\"host\">http://b</localEntry>\
        <localEntry key=\"tree\"><a xmlns=\"\"><b>7</b></a></localEntry>";
    let log = |name: &str, source: &str| {
        format!("<log level=\"custom\"><property name=\"{name}\" expression=\"{source}\"/></log>")
    };
    let target = format!(
        "><inSequence><property name=\"uri.var.host\" expression=\"get-property('host')\"/>{}{}{}\
         <call><endpoint><http uri-template=\"{{uri.var.host}}/x\"/></endpoint></call>\
         <property name=\"host\" value=\"own\"/>{}<respond/></inSequence>",
        log("nodes", "get-property('tree')//b"),
        log("text", "get-property( 'tree' )"),
        log("other", "get-property('axis2', 'host')"),
        log("property", "get-property('host')"),
    );
    let ran = proxy(entries, &target, &echo);
    assert_eq!(ran.sent, ["http://b/x 1"]);
    let expect = ["nodes = 7", "text = <a><b>7</b></a>", "other = null", "property = own"];
    assert_eq!(ran.log, expect);
}

#[test]
fn sequences_and_endpoints_in_local_entries_are_artefacts_where_they_are_named() {
    let entry =
        |key: &str, content: &str| format!("<localEntry key=\"{key}\">{content}</localEntry>");
    let log = "<log level=\"custom\"><property name=\"in\" value=\"inner\"/></log>";
    let entries = [
        entry("outer", "<sequence><sequence key=\"inner\"/></sequence>"),
        entry("inner", &format!("<sequence>{log}</sequence>")),
        entry("to", "<endpoint><address uri=\"http://to/\"/></endpoint>"),
        entry("unused", "<sequence><unknown/></sequence>"),
    ];
    let ran = proxy(&entries.concat(), " inSequence=\"outer\" endpoint=\"to\">", &echo);
    assert_eq!(
        (ran.sent, ran.log),
        (vec!["http://to/ 1".to_owned()], vec!["in = inner".to_owned()])
    );
    let broken = entry("bad", "<sequence><unknown/></sequence>");
    let found =
        diagnostics(&format!("{broken}<sequence name=\"s\"><sequence key=\"bad\"/></sequence>"));
    assert!(found.iter().any(|text| text.contains("uses the sequence `bad`")), "{found:?}");
}

#[test]
fn a_local_entry_may_be_a_sequence_of_another_file() {
    const NS: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";
    let text = format!(
        "<definitions {NS}><localEntry key=\"s\" src=\"file:s.xml\"/><proxy name=\"P\"><target inSequence=\"s\"/></proxy>\
         </definitions>"
    );
    let sequence = format!("<sequence {NS} name=\"any\"><respond/></sequence>");
    let artefact = model::Artefact {
        kind: model::ArtefactKind::Definitions,
        name: "a.xml".to_owned(),
        version: String::new(),
        file: "a.xml".into(),
        bytes: text.into_bytes().into(),
        configs: std::collections::BTreeMap::default(),
        documents: [("file:s.xml".to_owned(), sequence.into_bytes().into())].into(),
        contains: Vec::new(),
        problems: Vec::new(),
        application: None,
    };
    let mut set = model::ArtefactSet { artefacts: vec![artefact], ..model::ArtefactSet::default() };
    let (program, diagnostics) = Compiler::compile_set(&set);
    assert_eq!((program.proxies().len(), diagnostics), (1, Vec::new()));
    // A problem of the entry is a problem of its contents.
    set.artefacts[0].problems.push(model::Diagnostic {
        severity: model::Severity::Error,
        file: "a.xml".into(),
        place: Some(model::Place { line: 1, column: 70 }),
        message: "wrong".to_owned(),
        help: None,
    });
    let (program, diagnostics) = Compiler::compile_set(&set);
    assert_eq!(program.proxies().len(), 0, "{diagnostics:?}");
}

#[test]
fn a_local_entry_may_have_a_description() {
    let entry =
        "<localEntry key=\"t\"><![CDATA[{\"a\": 1}]]><description>of it</description></localEntry>";
    let target = "><inSequence><payloadFactory media-type=\"json\"><format key=\"t\"/></payloadFactory><respond/></inSequence>";
    assert_eq!(proxy(entry, target, &echo).body(), "{\"a\": 1}");
}

const NS: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";

/// A proxy and resources of the registry as a program, and their problems.
fn with_registry(proxy: &str, resources: &[(&str, String)]) -> (Program, String) {
    let bytes = |text: &str| Arc::<[u8]>::from(text.as_bytes());
    let artefact = model::Artefact {
        kind: model::ArtefactKind::Proxy,
        name: "P".to_owned(),
        version: String::new(),
        file: "p.xml".into(),
        bytes: bytes(proxy),
        configs: std::collections::BTreeMap::default(),
        documents: std::collections::BTreeMap::default(),
        contains: Vec::new(),
        problems: Vec::new(),
        application: None,
    };
    let resource = |(path, text): &(&str, String)| {
        let file = format!("{}.xml", path.replace([':', '/'], "_")).into();
        let resource = model::Resource { file, bytes: bytes(text), ..model::Resource::default() };
        ((*path).to_owned(), resource)
    };
    let resources = resources.iter().map(resource).collect();
    let set = model::ArtefactSet { artefacts: vec![artefact], resources };
    let (program, diagnostics) = Compiler::compile_set(&set);
    (program, diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn templates_of_the_registry_are_called_by_their_paths() {
    let proxy = format!(
        "<proxy {NS} name=\"P\"><target><inSequence><call-template target=\"conf:templates/t.xml\"><with-param name=\"p\" \
         value=\"1\"/></call-template><send><endpoint template=\"gov:e.xml\" uri=\"http://a/\"/></send></inSequence>\
         </target></proxy>"
    );
    let diagnostics = |steps: &str| {
        let template = format!(
            "<template {NS} name=\"any\"><parameter name=\"p\"/><sequence>{steps}</sequence></template>"
        );
        let endpoint = "<endpoint><address uri=\"$uri\"/></endpoint>";
        let endpoint = format!("<template {NS} name=\"any\">{endpoint}</template>");
        let resources = [("conf:/templates/t.xml", template), ("gov:/e.xml", endpoint)];
        let (program, diagnostics) = with_registry(&proxy, &resources);
        (program.proxies().len(), diagnostics)
    };
    assert_eq!(diagnostics("<log/>"), (1, String::new()));
    let (served, found) = diagnostics("<unknown/>");
    assert_eq!(served, 0, "{found}");
    assert!(found.contains("uses the template `conf:/templates/t.xml`"), "{found}");
}

#[test]
fn sequences_and_endpoints_of_the_registry_are_artefacts_where_they_are_named() {
    let proxy = format!(
        "<proxy {NS} name=\"P\"><target inSequence=\"conf:/in.xml\"><endpoint key=\"gov:e.xml\"/></target></proxy>"
    );
    let inner = "<sequence key=\"/_system/governance/inner.xml\"/>";
    let diagnostics = |inner_text: &str| {
        let resources = [
            ("conf:/in.xml", format!("<sequence {NS} name=\"any\">{inner}</sequence>")),
            ("gov:/inner.xml", format!("<sequence {NS} name=\"any\">{inner_text}</sequence>")),
            ("gov:/e.xml", format!("<endpoint {NS}><address uri=\"http://a/\"/></endpoint>")),
            ("gov:/unused.xml", format!("<sequence {NS}><unknown/></sequence>")),
        ];
        let (program, diagnostics) = with_registry(&proxy, &resources);
        (program.proxies().len(), diagnostics)
    };
    assert_eq!(diagnostics("<log/>"), (1, String::new()));
    let (served, found) = diagnostics("<unknown/>");
    assert_eq!(served, 0, "{found}");
    assert!(
        found.contains("gov__inner.xml.xml:1:") && found.contains("uses the sequence"),
        "{found}"
    );
}

#[cfg(feature = "validate")]
#[test]
fn schemas_of_the_registry_refer_to_others_by_key_or_from_where_they_are() {
    let proxy = format!(
        "<proxy {NS} name=\"P\"><target><inSequence><validate><schema key=\"gov:/schemas/order.json\"/>\
         <on-fail><log/></on-fail></validate><respond/></inSequence></target></proxy>"
    );
    let resources = |reference: &str, other: &'static str| {
        let order = format!("{{\"properties\":{{\"to\":{{\"$ref\":\"{reference}\"}}}}}}");
        let city = "{\"required\":[\"city\"]}".to_owned();
        [("gov:/schemas/order.json", order), ("gov:/schemas/a b.json", city.clone()), (other, city)]
    };
    for (reference, other) in [
        ("a%20b.json", "conf:/x"),
        ("/schemas/a%20b.json", "conf:/x"),
        ("conf:schemas/a.json#", "conf:/schemas/a.json"),
        ("resources:json/a.json", "gov:/mi-resources/json/a.json"),
    ] {
        let (program, found) = with_registry(&proxy, &resources(reference, other));
        assert_eq!(found, "", "{reference}");
        let program = Arc::new(program);
        let failures =
            |body: &str| drive(&program, flow(&program), request(body), &refuse).log.len();
        assert_eq!(failures("{\"to\":{\"city\":\"Oslo\"}}"), 0, "{reference}");
        assert_eq!(failures("{\"to\":{}}"), 1, "{reference}");
    }
    let (_, found) = with_registry(&proxy, &resources("none.json", "conf:/x"));
    assert!(found.contains("gov:/schemas/none.json"), "{found}");
    // Each refers to the next.
    let many: Vec<_> = (0..70)
        .map(|number| {
            let of = |number| format!("gov:/schemas/{number}.json");
            (of(number), format!("{{\"$ref\":\"{}\"}}", of(number + 1)))
        })
        .collect();
    let order = ("gov:/schemas/order.json", "{\"$ref\":\"0.json\"}".to_owned());
    let all: Vec<_> = std::iter::once(order)
        .chain(many.iter().map(|(path, text)| (&**path, text.clone())))
        .collect();
    let (_, found) = with_registry(&proxy, &all);
    assert!(found.contains("refers to more than 64 others"), "{found}");
}
