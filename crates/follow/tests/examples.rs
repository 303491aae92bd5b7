//! examples/micro-integrator is read without a warning, as a folder and as an archive, and the configurations in
//! suites/targets/synapse.toml and penstock-integration.toml agree with it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::openapi::Defaults;
use model::{Artefact, ArtefactKind, ArtefactSet};
use penstock_follow::Fetch;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const NAMESPACE: &str = " xmlns=\"http://ws.apache.org/ns/synapse\"";

#[test]
fn every_example_is_read_without_a_diagnostic() {
    let set = read(&[examples()]);
    let count = |kind| set.artefacts.iter().filter(|one| one.kind == kind).count();
    assert_eq!((count(ArtefactKind::Proxy), count(ArtefactKind::Api)), (18, 2));
    assert!(set.resource("gov:/datamapper/orders.xslt").is_some());
}

#[test]
fn the_examples_are_the_same_as_an_archive() {
    let (folder, set) = (tempfile::tempdir().unwrap(), read(&[examples()]));
    let car = folder.path().join("examples.car");
    fs::write(&car, archive(&set)).unwrap();
    let packed = read(&[car]);
    assert_eq!(named(&packed), named(&set));
    assert_eq!(bytes(&packed), bytes(&set));
    assert!(packed.artefacts.iter().all(|one| one.application.is_some()));
}

#[test]
fn two_versions_of_an_api_are_two_artefacts_in_files_and_in_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["1.0.0", "2.0.0"] {
        let api = format!(
            "<api{NAMESPACE} name=\"Orders\" context=\"/orders\" version=\"{version}\" version-type=\"url\">\
             <resource methods=\"GET\"><inSequence><respond/></inSequence></resource></api>"
        );
        fs::write(folder.path().join(format!("{version}.xml")), api).unwrap();
    }
    let set = read(&[folder.path().to_owned()]);
    let car = folder.path().join("orders.car");
    fs::write(&car, archive(&set)).unwrap();
    for set in [set, read(&[car])] {
        let names: Vec<_> = named(&set).into_keys().map(|(_, name)| name).collect();
        assert_eq!(names, ["Orders:v1.0.0", "Orders:v2.0.0"]);
    }
}

#[test]
fn the_target_synapse_has_the_same_artefacts() {
    let definitions = definitions(&read(&[examples()]));
    target_ends_with("synapse", "\"synapse.xml\" = '''\n", &format!("{definitions}'''\n"));
}

#[test]
fn the_target_penstock_integration_has_the_same_artefacts() {
    let set = read(&[examples()]);
    let artefacts = set.artefacts.iter().map(|one| (one.file.as_path(), &one.bytes));
    let resources = set.resources.values().map(|one| (one.file.as_path(), &one.bytes));
    let files = artefacts.chain(resources).map(|(file, bytes)| {
        let text =
            String::from_utf8(bytes.to_vec()).unwrap().replace(":8688/", ":{{backend_port}}/");
        let file = file.strip_prefix(examples()).unwrap().display();
        format!("\"artifacts/{file}\" = '''\n{text}'''\n")
    });
    let marker = "# Copied from examples/micro-integrator.\n";
    target_ends_with("penstock-integration", marker, &files.collect::<String>());
}

/// Checks the text after `marker` in a target's file. `PENSTOCK_BLESS=1` writes it.
#[track_caller]
fn target_ends_with(target: &str, marker: &str, end: &str) {
    let file = root().join(format!("suites/targets/{target}.toml"));
    let text = fs::read_to_string(&file).unwrap();
    let (before, _) = text.split_once(marker).unwrap();
    let expect = format!("{before}{marker}{end}");
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        fs::write(&file, &expect).unwrap();
    }
    assert!(fs::read_to_string(&file).unwrap() == expect, "run it with PENSTOCK_BLESS=1");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> PathBuf {
    root().join("examples/micro-integrator")
}

fn nothing_is_fetched() -> Fetch {
    Arc::new(|_| Err("is not fetched".to_owned()))
}

#[track_caller]
fn read(artefacts: &[PathBuf]) -> ArtefactSet {
    let defaults = Defaults::default();
    let checked = penstock_follow::check(&[], artefacts, &[], &defaults, &nothing_is_fetched());
    let shown: Vec<_> = checked.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(shown, Vec::<String>::new());
    checked.artefacts
}

fn named(set: &ArtefactSet) -> BTreeMap<(ArtefactKind, &str), &[u8]> {
    set.artefacts.iter().map(|one| ((one.kind, &*one.name), &*one.bytes)).collect()
}

fn bytes(set: &ArtefactSet) -> BTreeMap<&str, &[u8]> {
    set.resources.iter().map(|(path, one)| (&**path, &*one.bytes)).collect()
}

/// Packs the set like Micro Integrator's Maven plugin.
fn archive(set: &ArtefactSet) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: String, bytes: &[u8]| {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    };
    let mut index = String::new();
    let mut manifest = |name: &str, kind: &str, file: &str| {
        index.push_str(&format!("<dependency artifact=\"{name}\" version=\"1.0.0\"/>"));
        format!(
            "<artifact name=\"{name}\" version=\"1.0.0\" type=\"{kind}\"><file>{file}</file></artifact>"
        )
    };
    for artefact in &set.artefacts {
        // The name of an API with a version contains a colon.
        let name = artefact.name.replace(':', "-");
        let (folder, file) = (format!("{name}_1.0.0"), "artefact.xml");
        let text = manifest(&name, kind(artefact), file);
        add(format!("{folder}/artifact.xml"), text.as_bytes());
        add(format!("{folder}/{file}"), &artefact.bytes);
    }
    let mut items = String::new();
    for (path, resource) in &set.resources {
        let (folder, name) = path.trim_start_matches("gov:").rsplit_once('/').unwrap();
        items.push_str(&format!(
            "<item><file>{name}</file><path>/_system/governance{folder}</path></item>"
        ));
        add(format!("resources_1.0.0/resources/{name}"), &resource.bytes);
    }
    let text = manifest("resources", "registry/resource", "registry-info.xml");
    add("resources_1.0.0/artifact.xml".to_owned(), text.as_bytes());
    let items = format!("<resources>{items}</resources>");
    add("resources_1.0.0/registry-info.xml".to_owned(), items.as_bytes());
    let index = format!(
        "<artifacts><artifact name=\"examples\" version=\"1.0.0\" type=\"carbon/application\">{index}\
         </artifact></artifacts>"
    );
    add("artifacts.xml".to_owned(), index.as_bytes());
    writer.finish().unwrap().into_inner()
}

fn kind(artefact: &Artefact) -> &'static str {
    match artefact.kind {
        ArtefactKind::Api => "synapse/api",
        ArtefactKind::Proxy => "synapse/proxy-service",
        ArtefactKind::Sequence => "synapse/sequence",
        ArtefactKind::Endpoint => "synapse/endpoint",
        ArtefactKind::LocalEntry => "synapse/local-entry",
        ArtefactKind::Template => "synapse/template",
        ArtefactKind::InboundEndpoint => "synapse/inbound-endpoint",
        ArtefactKind::Definitions => "synapse/configuration",
    }
}

/// One file for Apache Synapse, with a main sequence that forwards requests that match no proxy and no API.
fn definitions(set: &ArtefactSet) -> String {
    let mut parts: Vec<String> = set.artefacts.iter().filter_map(for_synapse).collect();
    let sheet = set.resource("gov:/datamapper/orders.xslt").unwrap();
    let sheet = String::from_utf8(sheet.bytes.to_vec()).unwrap();
    parts.push(format!("<localEntry key=\"datamapper_orders\">\n{sheet}</localEntry>\n"));
    parts.push(
        "<sequence name=\"main\">\n  <in>\n    <send>\n      <endpoint key=\"RealService\"/>\n    </send>\n  </in>\n  \
         <out>\n    <send/>\n  </out>\n</sequence>\n\
         <sequence name=\"fault\">\n  <log level=\"full\"/>\n  <drop/>\n</sequence>\n"
            .to_owned(),
    );
    format!("<definitions{NAMESPACE}>\n{}</definitions>\n", parts.concat())
}

/// Converts an artefact for Apache Synapse 3.0.1, which lacks `call`, `fastXSLT` and `datamapper`, does not parse JSON,
/// and cannot replace or join bodies that have not been read.
fn for_synapse(artefact: &Artefact) -> Option<String> {
    let text = String::from_utf8(artefact.bytes.to_vec()).unwrap().replacen(NAMESPACE, "", 1);
    if text.contains("evaluator=\"json\"") {
        return None;
    }
    let text = text.replace("<fastXSLT ", "<xslt ").replace(":8688/", ":{{backend_port}}/");
    let is_fixed = text.contains("<payloadFactory ") && !text.contains("expression=");
    let is_fixed = is_fixed && !text.contains("<enrich>");
    let text = if text.contains("<aggregate>") {
        reading(&text, "<outSequence>\n")
    } else if is_fixed {
        reading(&text, "<inSequence>\n")
    } else {
        text
    };
    Some(without_call(&without_datamapper(&text)))
}

/// Reads the body at the start of a sequence.
fn reading(text: &str, start: &str) -> String {
    let read = "      <property name=\"read\" expression=\"count(//*)\"/>\n";
    text.replacen(start, &format!("{start}{read}"), 1)
}

fn without_datamapper(text: &str) -> String {
    let Some((before, rest)) = text.split_once("<datamapper ") else { return text.to_owned() };
    let (_, after) = rest.split_once("/>").unwrap();
    format!("{before}<xslt key=\"datamapper_orders\"/>{after}")
}

/// Sends to the endpoint, and continues in the out sequence.
fn without_call(text: &str) -> String {
    let Some((before, rest)) = text.split_once("<call>") else { return text.to_owned() };
    let (endpoint, rest) = rest.split_once("</call>").unwrap();
    let (then, after) = rest.split_once("</inSequence>").unwrap();
    let then = then.replace("<respond/>", "<send/>");
    format!(
        "{before}<send>{endpoint}</send>\n    </inSequence>\n    <outSequence>{then}</outSequence>{after}"
    )
}
