//! Files and archives, valid and invalid.

use std::io::{Cursor, Write};
use std::path::Path;

use base::limits;
use model::ArtefactKind;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;

const NS: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";

/// An application with a proxy, a sequence and a stylesheet in the registry.
const ORDERS: &[(&str, &str)] = &[
    (
        "artifacts.xml",
        "<artifacts><artifact name=\"orders\" version=\"1.2.0\" type=\"carbon/application\">\n\
         <dependency artifact=\"Orders\" version=\"1.2.0\" include=\"true\" serverRole=\"EnterpriseIntegrator\"/>\n\
         <dependency artifact=\"log\" version=\"1.0.0\"/><dependency artifact=\"sheet\" version=\"1.0.0\"/>\n\
         <dependency artifact=\"Orders_metadata\" version=\"1.0.0\"/>\n\
         </artifact></artifacts>",
    ),
    (
        "Orders_1.2.0/artifact.xml",
        "<artifact name=\"Orders\" version=\"1.2.0\" type=\"synapse/proxy-service\" serverRole=\"EnterpriseIntegrator\">\n\
         <file>Orders-1.2.0.xml</file></artifact>",
    ),
    (
        "Orders_1.2.0/Orders-1.2.0.xml",
        "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"Orders\"><target><inSequence>\n\
         <xslt key=\"gov:xslt/order.xslt\"/></inSequence></target></proxy>",
    ),
    (
        "log_1.0.0/artifact.xml",
        "<artifact name=\"log\" version=\"1.0.0\" type=\"synapse/sequence\"><file>log.xml</file></artifact>",
    ),
    ("log_1.0.0/log.xml", "<sequence xmlns=\"http://ws.apache.org/ns/synapse\" name=\"log\"/>"),
    (
        "sheet_1.0.0/artifact.xml",
        "<artifact name=\"sheet\" version=\"1.0.0\" type=\"registry/resource\"><file>registry-info.xml</file></artifact>",
    ),
    (
        "sheet_1.0.0/registry-info.xml",
        "<resources><item><file>order.xslt</file><path>/_system/governance/xslt</path>\
         <mediaType>application/xslt+xml</mediaType></item>\n\
         <collection><directory>schemas</directory><path>/_system/config/schemas</path></collection></resources>",
    ),
    ("sheet_1.0.0/resources/order.xslt", "<sheet/>"),
    ("sheet_1.0.0/resources/schemas/v1/order.json", "{}"),
    (
        "metadata/Orders_metadata_1.0.0/artifact.xml",
        "<artifact name=\"Orders_metadata\" version=\"1.0.0\" type=\"synapse/metadata\"><file>a.yaml</file></artifact>",
    ),
    ("metadata/Orders_metadata_1.0.0/a.yaml", "key: Orders"),
];

#[test]
fn an_application_is_read_whole() {
    let outcome = read_bytes("apps/orders.car", &archive(ORDERS));
    assert_eq!(outcome.diagnostics, []);
    let set = outcome.set.expect("it is valid");
    let shown: Vec<String> = set.artefacts.iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "proxy Orders 1.2.0 apps/orders.car!/Orders_1.2.0/Orders-1.2.0.xml of orders 1.2.0",
            "sequence log 1.0.0 apps/orders.car!/log_1.0.0/log.xml of orders 1.2.0",
        ]
    );
    let resources: Vec<_> =
        set.resources.iter().map(|(path, one)| (&**path, &*one.media_type)).collect();
    assert_eq!(
        resources,
        [
            ("conf:/schemas/v1/order.json", "application/json"),
            ("gov:/xslt/order.xslt", "application/xslt+xml")
        ]
    );
    assert_eq!(&*set.resource("gov:xslt/order.xslt").expect("it is there").bytes, b"<sheet/>");
}

#[test]
fn an_archive_with_an_error_is_rejected_whole_and_every_error_is_reported() {
    changed(
        &[
            ("log_1.0.0/log.xml", "<sequence xmlns=\"http://ws.apache.org/ns/synapse\"\n/>"),
            ("Orders_1.2.0/Orders-1.2.0.xml", "<proxy>\n  </prox>"),
        ],
        "Orders_1.2.0/Orders-1.2.0.xml:2:3: invalid XML; log_1.0.0/log.xml:1:1: `sequence` has no `name`",
    );
}

#[test]
fn what_an_archive_promises_it_has() {
    changed(&[("artifacts.xml", "")], "the archive has no artifacts.xml");
    changed(&[("log_1.0.0/artifact.xml", "")], "artifacts.xml:3:1: no artefact `log` 1.0.0");
    changed(
        &[("log_1.0.0/log.xml", "")],
        "log_1.0.0/artifact.xml:1:1: no file `log_1.0.0/log.xml`",
    );
    changed(
        &[("sheet_1.0.0/resources/order.xslt", "")],
        "sheet_1.0.0/registry-info.xml:1:12: no file `sheet_1.0.0/resources/order.xslt`",
    );
    changed(
        &[(
            "log_1.0.0/artifact.xml",
            "<artifact name=\"log\" version=\"1.0.0\" type=\"synapse/api\"><file>log.xml</file></artifact>",
        )],
        "log_1.0.0/log.xml:1:1: the document element is `sequence`",
    );
    changed(
        &[(
            "log_1.0.0/artifact.xml",
            "<artifact name=\"log\" version=\"2.0.0\" type=\"synapse/sequence\"><file>log.xml</file></artifact>",
        )],
        "artifacts.xml:3:1: no artefact `log` 1.0.0; log_1.0.0/artifact.xml:1:1: not named by artifacts.xml",
    );
}

#[test]
fn what_is_not_served_is_named_with_the_alternative() {
    for (kind, phrase) in [
        ("synapse/lib", "connectors"),
        ("service/dataservice", "data services"),
        ("lib/synapse/mediator", "Java libraries"),
        ("synapse/message-store", "message stores"),
        ("synapse/message-processors", "message stores and processors"),
        ("synapse/task", "scheduled tasks"),
        ("synapse/nonsense", "unknown type"),
    ] {
        let manifest = format!(
            "<artifact name=\"log\" version=\"1.0.0\" type=\"{kind}\"><file>log.xml</file></artifact>"
        );
        changed(
            &[("log_1.0.0/artifact.xml", &manifest)],
            &format!("log_1.0.0/artifact.xml:1:1: {phrase}"),
        );
    }
    for (xml, expect) in [
        ("<messageStore name=\"a\"/>", "1:1: message stores"),
        ("<task name=\"a\"/>", "1:1: scheduled tasks"),
        ("<localEntry key=\"a\" src=\"file:a.xml\"/>", "1:1: `file:a.xml`: cannot be read"),
        ("<endpoint name=\"a\"><wsdl uri=\"http://gone/\"/></endpoint>", "1:60: status 404"),
    ] {
        file("sequences/a.xml", &with_namespace(xml), expect);
    }
    file("a/email.zip", "", "connectors");
}

#[test]
fn documents_that_an_artefact_names_are_read_with_it() {
    let read = |xml: &str| read_bytes("sequences/a.xml", with_namespace(xml).as_bytes());
    let names = |xml: &str| -> Vec<String> {
        let set = read(xml).set.expect("it is valid");
        set.artefacts[0].documents.keys().cloned().collect()
    };
    assert_eq!(names("<localEntry key=\"a\" src=\"file:known.xslt\"/>"), ["file:known.xslt"]);
    let proxy = "<proxy name=\"a\"><publishWSDL uri=\"http://known/?wsdl\"/></proxy>";
    assert_eq!(names(proxy), ["http://known/?wsdl"]);
    // The proxy works without its description.
    let without = read(&proxy.replace("known", "gone"));
    let found = problems(&without);
    assert!(found.len() == 1 && found[0].contains(": warning: "), "{found:?}");
    let many: String =
        (0..20).map(|number| format!("<wsdl uri=\"known.xslt#{number}\"/>")).collect();
    let found = read(&format!("<endpoint name=\"a\"><x>{many}</x></endpoint>"));
    let found = problems(&found);
    assert!(found.iter().any(|one| one.contains("more than 16 documents")), "{found:?}");
}

#[test]
fn an_xml_file_is_what_its_document_element_says() {
    for kind in ArtefactKind::ALL {
        let name = if kind == ArtefactKind::LocalEntry { "key" } else { "name" };
        let text = format!("<{0} {NS} {name}=\"one\" protocol=\"http\"></{0}>", kind.element());
        let set = read_bytes("a/b.xml", text.as_bytes()).set.expect("it is valid");
        let found: Vec<_> = set.artefacts.iter().map(|one| (one.kind, &*one.name)).collect();
        let name = if kind == ArtefactKind::Definitions { "b.xml" } else { "one" };
        assert_eq!(found, [(kind, name)]);
    }
    file("sequences/a.xml", "<sequence name=\"a\"/>", "1:1: not in Synapse's namespace");
    file(
        "sequences/a.xml",
        &with_namespace("<sequenc name=\"a\"/>"),
        "1:1: unknown artefact `sequenc`",
    );
    file("data/a.xml", "<orders/>", "1:1: warning");
    file("sequences/a.xml", "<orders/>", "1:1: unknown artefact `orders`");
    file("a/a.xml", "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"/>", "");
    file("a/a.xml", "<unit-test/>", "");
}

#[test]
fn definitions_hold_several_artefacts() {
    let text = format!(
        "<definitions {NS}>\n<registry provider=\"x\"/><sequence name=\"main\"/><proxy name=\"p\"/></definitions>"
    );
    let set = read_bytes("synapse.xml", text.as_bytes()).set.expect("it is valid");
    let held = set.artefacts.first().map(|one| one.contains.clone());
    let expect = [(ArtefactKind::Sequence, "main"), (ArtefactKind::Proxy, "p")];
    assert_eq!(held, Some(expect.map(|(kind, name)| (kind, name.to_owned())).to_vec()));
    file("registry.xml", &format!("<registry {NS} provider=\"x\"/>"), "");
    let task = format!("<definitions {NS}>\n<task name=\"p\"/></definitions>");
    file("synapse.xml", &task, "2:1: scheduled tasks");
}

#[test]
fn an_error_in_definitions_leaves_the_other_artefacts() {
    let text = format!(
        "<definitions {NS}>\n<task name=\"t\"/>\n<endpoint name=\"e\"><address uri=\"$SYSTEM:ABSENT\"/></endpoint>\n\
         <nonsense/>\n<proxy/>\n<proxy name=\"p\"/></definitions>"
    );
    let outcome = read_bytes("synapse.xml", text.as_bytes());
    assert_eq!(outcome.diagnostics, []);
    let found = problems(&outcome);
    let expect = [
        "2:1: error: `task`: scheduled",
        "3:34: error: the parameter",
        "4:1: error: unknown",
        "5:1: error: `proxy` has no",
    ];
    let is_it = |(line, expect): (&String, &&str)| line.contains(expect);
    assert!(found.len() == expect.len() && found.iter().zip(&expect).all(is_it), "{found:#?}");
    let set = outcome.set.expect("what is left is served");
    let held = [(ArtefactKind::Endpoint, "e".to_owned()), (ArtefactKind::Proxy, "p".to_owned())];
    assert_eq!(set.artefacts[0].contains, held);
}

#[test]
fn a_parameter_is_replaced_by_its_value_and_lines_stay() {
    let endpoint =
        |uri: &str| format!("<endpoint {NS} name=\"a\">\r\n <address uri='{uri}'/>\r\n</endpoint>");
    for (written, value) in [
        ("$SYSTEM:HOST", "http://system/?a&#38;b"),
        ("$FILE:HOST", "http://file/?a&#38;b"),
        ("$config:HOST", "http://config/?a&#38;b"),
        ("http://$SYSTEM:HOST", "http://$SYSTEM:HOST"),
    ] {
        let set = read_bytes("a.xml", endpoint(written).as_bytes()).set.expect("it is valid");
        let bytes = set.artefacts.first().map(|one| one.bytes.to_vec()).unwrap_or_default();
        assert_eq!(String::from_utf8(bytes).expect("UTF-8"), endpoint(value));
    }
    file("a.xml", &endpoint("$SYSTEM:ABSENT"), "2:16: `$SYSTEM:ABSENT` has no value");
    file("a.xml", &endpoint("$SYSTEM:HOST/orders"), "2:16: more than a parameter");
    file("a.xml", &endpoint("&#36;SYSTEM:HOST"), "2:16: not written as it is read");
    let inbound = format!(
        "<inboundEndpoint {NS} name=\"a\" protocol=\"http\"><parameters><parameter name=\"p\"> $SYSTEM:HOST\n\
         </parameter></parameters></inboundEndpoint>"
    );
    let set = read_bytes("a.xml", inbound.as_bytes()).set.expect("it is valid");
    let bytes = set.artefacts.first().map(|one| one.bytes.to_vec()).unwrap_or_default();
    assert!(String::from_utf8_lossy(&bytes).contains("> http://system/?a&#38;b\n"));
}

#[test]
fn what_expressions_read_as_configs_is_resolved() {
    let sequence = |inside: &str| format!("<sequence {NS} name=\"a\">\n{inside}</sequence>");
    for (inside, known) in [
        ("<log><message>to ${configs.HOST}</message></log>", true),
        ("<variable name=\"x\" expression=\"${1 + length(config['HOST'])}\"/>", true),
        ("<variable name=\"x\" expression='${vars.a == configs[\"HOST\"]}'/>", true),
        (
            "<property name=\"x\" expression=\"concat(get-property( 'file' , 'HOST'), get-property('a'))\"/>",
            true,
        ),
        ("<property name=\"x\" expression=\"get-property('system', 'HOST')\"/>", false),
        (
            "<log><message>configs.HOST ${vars.configs.HOST} ${\"configs.HOST\"}</message></log>",
            false,
        ),
    ] {
        let outcome = read_bytes("a.xml", sequence(inside).as_bytes());
        assert_eq!(problems(&outcome), [""; 0], "{inside}");
        let found = outcome.set.expect("it is valid").artefacts[0].configs.get("HOST").cloned();
        assert_eq!(found, known.then(|| "http://file/?a&b".to_owned()), "{inside}");
    }
    let absent = sequence("<log><message>${configs.ABSENT}</message></log>");
    let outcome = read_bytes("a.xml", absent.as_bytes());
    let found = &problems(&outcome)[0];
    assert!(found.starts_with("a.xml:2:15: warning: `configs.ABSENT` has no value"), "{found}");
    assert!(outcome.set.is_some());
}

#[test]
fn parameters_on_one_line_and_on_several_are_each_replaced() {
    let two = format!(
        "\u{FEFF}<endpoint {NS} name=\"ä\"><address uri=\"$SYSTEM:HOST\"/><http uri-template=\"$FILE:HOST\"/></endpoint>"
    );
    let set = read_bytes("a.xml", two.as_bytes()).set.expect("it is valid");
    let bytes = set.artefacts.first().map(|one| one.bytes.to_vec()).unwrap_or_default();
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(
        text.contains("\"http://system/?a&#38;b\"") && text.contains("\"http://file/?a&#38;b\"")
    );
    // All are replaced in one pass, since a pass for each would take too long.
    let many = "<address uri=\"$SYSTEM:HOST\"/>".repeat(50_000);
    let many = format!("<definitions {NS}><endpoint name=\"a\">{many}</endpoint></definitions>");
    let set = read_bytes("a.xml", many.as_bytes()).set.expect("it is valid");
    let bytes = set.artefacts.first().map_or(0, |one| one.bytes.len());
    assert!(bytes > many.len());
}

#[test]
fn items_that_name_one_file_share_its_bytes_and_are_limited() {
    let items = |paths: &mut dyn Iterator<Item = String>| -> String {
        let item = |path| {
            format!("<item><file>order.xslt</file><path>/_system/governance/{path}</path></item>")
        };
        format!("<resources>{}</resources>", paths.map(item).collect::<String>())
    };
    let with = |info: &str| {
        let entries = ORDERS.iter().map(|(name, text)| {
            (*name, if name.ends_with("registry-info.xml") { info } else { text })
        });
        read_bytes("orders.car", &archive(&entries.collect::<Vec<_>>()))
    };
    let set =
        with(&items(&mut ["a", "b"].map(str::to_owned).into_iter())).set.expect("it is valid");
    let bytes = |path| &set.resource(path).expect("it is there").bytes;
    assert!(std::sync::Arc::ptr_eq(bytes("gov:a/order.xslt"), bytes("gov:b/order.xslt")));
    let many = items(&mut (0..=limits::ARCHIVE_ENTRIES_MAX).map(|number| number.to_string()));
    let messages = with(&many).diagnostics;
    assert!(messages.iter().any(|one| one.message.contains("more than 10000 resources")));
}

#[test]
fn a_manifest_gives_resources_their_paths() {
    let manifest = "<artifacts><artifact name=\"a\" type=\"registry/resource\">\n\
        <item><file>known.xslt</file><path>/_system/governance/xslt/</path></item></artifact></artifacts>";
    let set = read_bytes("XRegistryResources/artifact.xml", manifest.as_bytes()).set;
    let set = set.expect("it is valid");
    let resource = set.resource("gov:xslt/known.xslt").expect("it is there");
    assert_eq!(resource.file, Path::new("XRegistryResources/known.xslt"));
    let listed = manifest.replace(
        "</item>",
        "<properties><property key=\"owner\" value=\"me\"/></properties></item>",
    );
    let set = read_bytes("XRegistryResources/artifact.xml", listed.as_bytes()).set;
    let set = set.expect("it is valid");
    let resource = set.resource("gov:xslt/known.xslt").expect("it is there");
    let all = ["owner", "mediaType", "none"].map(|name| resource.text(Some(name)));
    assert_eq!(
        all.map(|it| it.unwrap_or_default().into_owned()),
        ["me", "application/xslt+xml", ""]
    );
    let absent = manifest.replace("known", "absent");
    file("artifact.xml", &absent, "2:1: `absent.xslt` cannot be read");
    file("artifact.xml", &manifest.replace("known", "../known"), "2:1: is not a resource");
    file("artifact.xml", &manifest.replace("/_system/governance", ""), "2:1: is not a resource");
}

#[test]
fn a_resource_of_a_folder_has_its_properties_in_a_file_beside_it() {
    let set = read_bytes("registry/governance/limits.json", b"{}").set.expect("it is valid");
    let resource = set.resource("gov:limits.json").expect("it is there");
    let all = ["most", "other", "# of a test"].map(|name| resource.text(Some(name)));
    assert_eq!(all, [Some("7".into()), Some("b=c".into()), None]);
}

#[test]
fn hostile_archives_are_rejected() {
    let one = |name: &str| archive(&[(name, "x")]);
    rejected(b"PK", "not a valid archive");
    rejected(&one("../a"), "leads out");
    rejected(&one("a/../../b"), "leads out");
    rejected(&one("/a"), "absolute");
    rejected(&one("C:a"), "absolute");
    rejected(&one("a\\b"), "absolute");
    rejected(&one("a\nb"), "control character");
    let zeros = "0".repeat(20 * 1024 * 1024);
    rejected(&archive(&[("a", &zeros)]), "the content is larger than");
    let names: Vec<String> = (0..=limits::ARCHIVE_ENTRIES_MAX).map(|n| n.to_string()).collect();
    let many: Vec<_> = names.iter().map(|name| (&**name, "")).collect();
    rejected(&archive(&many), "10001 entries");
    // The true number may be in a record of a larger format, even if this record has a small one.
    for (at, bytes) in [(8, 4), (12, 4), (16, 4)] {
        let mut larger = one("a");
        let field = larger.len().saturating_sub(22).saturating_add(at);
        larger[field..field.saturating_add(bytes)].fill(0xff);
        rejected(&larger, "65535 entries; the limit is 10000");
    }
    // Both names have the same length, so that one can replace the other.
    let mut twice = archive(&[("one", "x"), ("two", "y")]);
    while let Some(at) = twice.windows(3).position(|window| window == b"two") {
        twice.splice(at..at.saturating_add(3), *b"one");
    }
    rejected(&twice, "occurs twice");
    let mut cut = archive(ORDERS);
    cut.truncate(cut.len() / 2);
    rejected(&cut, "not a valid archive");
}

#[test]
fn many_missing_artefacts_are_reported_at_once() {
    let index = format!(
        "<artifacts><artifact name=\"a\" version=\"1\" type=\"carbon/application\">{}</artifact></artifacts>",
        (0..20_000)
            .map(|n| format!("<dependency artifact=\"missing{n}\" version=\"1\"/>"))
            .collect::<String>()
    );
    let manifests: Vec<(String, String)> = (0..3_000)
        .map(|n| {
            let manifest =
                format!("<artifact name=\"present{n}\" version=\"1\" type=\"synapse/sequence\"/>");
            (format!("{n}/artifact.xml"), manifest)
        })
        .collect();
    let mut entries = vec![("artifacts.xml", &*index)];
    entries.extend(manifests.iter().map(|(name, text)| (&**name, &**text)));
    let bytes = archive(&entries);
    let begun = std::time::Instant::now();
    let outcome = read_bytes("a.car", &bytes);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    let last = outcome.diagnostics.last().map(ToString::to_string).unwrap_or_default();
    assert!(last.contains("more diagnostics are not shown"), "{last}");
}

fn rejected(bytes: &[u8], phrase: &str) {
    let outcome = read_bytes("a.car", bytes);
    assert_eq!(outcome.set, None);
    let messages: Vec<_> = outcome.diagnostics.iter().map(ToString::to_string).collect();
    assert!(messages.iter().any(|one| one.contains(phrase)), "{phrase}: {messages:?}");
}

/// Checks `ORDERS` with other entries; an empty one is left out. `expect` has phrases of the diagnostics, separated by
/// `; `.
#[track_caller]
fn changed(changes: &[(&str, &str)], expect: &str) {
    let entries = ORDERS.iter().map(|(name, text)| {
        let change = changes.iter().find(|(changed, _)| changed == name);
        (*name, change.map_or(*text, |(_, text)| *text))
    });
    let entries: Vec<_> = entries.filter(|(_, text)| !text.is_empty()).collect();
    let outcome = read_bytes("orders.car", &archive(&entries));
    let lines: Vec<_> = outcome.diagnostics.iter().map(ToString::to_string).collect();
    for (line, expect) in lines.iter().zip(expect.split("; ")) {
        let (place, phrase) = expect.rsplit_once(": ").unwrap_or(("orders.car", expect));
        assert!(line.contains(place) && line.contains(phrase), "{line}\nexpected: {expect}");
    }
    assert_eq!(lines.len(), expect.split("; ").count(), "{lines:#?}");
    assert!(outcome.set.is_none() && outcome.rest.is_some(), "{outcome:?}");
}

/// `expect` is empty, or `line:column: phrase`; the phrase `warning` stands for any warning.
#[track_caller]
fn file(name: &str, text: &str, expect: &str) {
    let outcome = read_bytes(name, text.as_bytes());
    let lines = problems(&outcome);
    let matches = |line: &String| {
        let (place, phrase) = expect.split_once(": ").unwrap_or(("", expect));
        line.starts_with(&format!("{name}:{place}")) && line.contains(phrase)
    };
    if expect.is_empty() {
        assert_eq!(lines, Vec::<String>::new());
    } else {
        assert!(lines.len() == 1 && lines.iter().all(matches), "{lines:#?}\nexpected: {expect}");
    }
    let rejected = outcome.diagnostics.iter().any(|one| one.severity == model::Severity::Error);
    assert_eq!(outcome.set.is_none(), rejected);
}

/// The problems of the file and of its artefact.
fn problems(outcome: &Outcome) -> Vec<String> {
    let artefacts = outcome.set.iter().flat_map(|set| &set.artefacts);
    let own = artefacts.flat_map(|artefact| &artefact.problems);
    outcome.diagnostics.iter().chain(own).map(ToString::to_string).collect()
}

fn read_bytes(name: &str, bytes: &[u8]) -> Outcome {
    let parameter = |kind: Parameter, name: &str| {
        let kind = match kind {
            Parameter::System => "system",
            Parameter::File => "file",
            Parameter::Config => "config",
        };
        (name == "HOST").then(|| format!("http://{kind}/?a&b"))
    };
    let known = |file: &str| match file {
        "known.xslt" => Ok(b"<sheet/>".to_vec()),
        "limits.json.properties" => Ok(b"# of a test\nmost = 7\nother:b=c\n".to_vec()),
        _ => Err("cannot be read".to_owned()),
    };
    let fetch = |url: &str| match url {
        "http://known/?wsdl" => Ok(b"<definitions/>".to_vec()),
        _ => Err("the server responded with status 404".to_owned()),
    };
    read(Path::new(name), bytes, Outside { parameter: &parameter, file: &known, fetch: &fetch })
}

/// `<a b/>` with Synapse's namespace as its first attribute.
fn with_namespace(xml: &str) -> String {
    xml.replacen(' ', &format!(" {NS} "), 1)
}

fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, text) in entries {
        writer.start_file(*name, options).expect("a new entry");
        writer.write_all(text.as_bytes()).expect("in memory");
    }
    writer.finish().expect("in memory").into_inner()
}

fn shown(artefact: &model::Artefact) -> String {
    let application = artefact.application.as_ref();
    let of = application.map(|of| format!(" of {} {}", of.name, of.version)).unwrap_or_default();
    let (kind, file) = (artefact.kind.element(), artefact.file.display());
    format!("{kind} {} {} {file}{of}", artefact.name, artefact.version)
}
