//! Synapse artefacts: deployed, changed and undeployed while the follower runs.

use std::io::Cursor;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

#[test]
fn an_archive_is_deployed_and_undeployed_as_a_whole() {
    let mut scene = Scene::with_artefacts();
    scene.copy("orders.car", &car(&[proxy("one"), proxy("two")]));
    scene.until("proxy:one proxy:two");
    scene.copy("orders.car", &car(&[proxy("two"), proxy("three")]));
    scene.until("proxy:three proxy:two");
    fs::remove_file(scene.path("artifacts/orders.car")).unwrap();
    scene.until("");
    assert!(!scene.history.iter().any(|served| served == "proxy:one"), "{:?}", scene.history);
}

#[test]
fn an_archive_with_one_wrong_artefact_changes_nothing() {
    let mut scene = Scene::with_artefacts();
    scene.copy("orders.car", &car(&[proxy("one")]));
    scene.until("proxy:one");
    scene.copy("orders.car", &car(&[proxy("two"), ("broken".to_owned(), "<proxy".to_owned())]));
    scene.until_diagnostic("orders.car!/broken_1.0.0/broken.xml:1:7: error: invalid XML");
    scene.replace("artifacts/fence.xml", &proxy("fence").1);
    scene.until("proxy:fence proxy:one");
}

#[test]
fn an_archive_whose_copy_is_slow_is_deployed_when_it_is_complete() {
    let mut scene = Scene::with_artefacts();
    let bytes = car(&[proxy("one")]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut file = File::create(scene.path("artifacts/orders.car")).unwrap();
    file.write_all(first).unwrap();
    file.flush().unwrap();
    file.write_all(second).unwrap();
    drop(file);
    scene.until("proxy:one");
}

#[test]
fn of_two_files_with_one_name_the_served_one_stays() {
    let mut scene = Scene::with_artefacts();
    scene.copy("b.car", &car(&[proxy("one")]));
    scene.until("proxy:one");
    scene.copy("a.car", &car(&[proxy("one"), proxy("two")]));
    scene.until_diagnostic("the proxy `one` is already defined in");
    fs::remove_file(scene.path("artifacts/b.car")).unwrap();
    scene.until("proxy:one proxy:two");
}

#[test]
fn files_of_a_project_are_followed_but_not_its_builds() {
    let mut scene = Scene::with_artefacts();
    let project = scene.path("artifacts/orders");
    let of_proxies = project.join("src/main/wso2mi/artifacts/proxy-services");
    let of_sheets = project.join("src/main/wso2mi/resources/xslt");
    for folder in [&of_proxies, &of_sheets, &project.join("target")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(project.join("pom.xml"), "<project/>").unwrap();
    fs::write(project.join("target/orders.car"), car(&[proxy("built")])).unwrap();
    fs::write(of_sheets.join("a.xslt"), "<sheet/>").unwrap();
    fs::write(of_proxies.join("one.xml"), proxy("one").1).unwrap();
    scene.until("gov:/mi-resources/xslt/a.xslt proxy:one");
    let before = Arc::clone(&scene.snapshot.artefacts);
    scene.replace("apis/a.yaml", &api("/a"));
    scene.until("/a gov:/mi-resources/xslt/a.xslt proxy:one");
    assert!(Arc::ptr_eq(&before, &scene.snapshot.artefacts), "an API does not change artefacts");
    fs::remove_file(of_proxies.join("one.xml")).unwrap();
    scene.until("/a gov:/mi-resources/xslt/a.xslt");
}

/// Whether an artefact of the snapshot has a problem that contains `text`.
fn has_problem(snapshot: &Snapshot, text: &str) -> bool {
    let mut problems = snapshot.artefacts.artefacts.iter().flat_map(|one| &one.problems);
    problems.any(|problem| problem.to_string().contains(text))
}

#[test]
fn a_changed_property_changes_the_artefacts_that_use_it() {
    let mut scene = Scene::with_artefacts();
    let endpoint = "<endpoint xmlns=\"http://ws.apache.org/ns/synapse\" name=\"a\">\
                    <address uri=\"$FILE:PENSTOCK_TEST_URL\"/></endpoint>";
    scene.replace("artifacts/a.xml", endpoint);
    scene.until_that(|snapshot| has_problem(snapshot, "`$FILE:PENSTOCK_TEST_URL` has no value"));
    let holds = |snapshot: &Snapshot, text: &str| {
        let first = snapshot.artefacts.artefacts.first();
        first.is_some_and(|one| String::from_utf8_lossy(&one.bytes).contains(text))
    };
    scene.replace("artifacts/file.properties", "PENSTOCK_TEST_URL = http://one\n");
    scene.until_that(|snapshot| holds(snapshot, "uri=\"http://one\""));
    scene.replace("artifacts/file.properties", "PENSTOCK_TEST_URL = http://two\n");
    scene.until_that(|snapshot| holds(snapshot, "uri=\"http://two\""));
    scene.until_no_diagnostics();
}

#[test]
fn a_changed_property_changes_what_expressions_read() {
    let mut scene = Scene::with_artefacts();
    let sequence = "<sequence xmlns=\"http://ws.apache.org/ns/synapse\" name=\"a\">\
                    <log><message>${configs.PENSTOCK_TEST_REGION}</message></log></sequence>";
    scene.replace("artifacts/a.xml", sequence);
    scene.until_that(|snapshot| {
        has_problem(snapshot, "`configs.PENSTOCK_TEST_REGION` has no value")
    });
    let reads = |snapshot: &Snapshot, expect: &str| {
        let first = snapshot.artefacts.artefacts.first();
        let value = first.and_then(|one| one.configs.get("PENSTOCK_TEST_REGION"));
        value.is_some_and(|value| value == expect)
    };
    scene.replace("artifacts/file.properties", "PENSTOCK_TEST_REGION = north\n");
    scene.until_that(|snapshot| reads(snapshot, "north"));
    scene.replace("artifacts/file.properties", "PENSTOCK_TEST_REGION = south\n");
    scene.until_that(|snapshot| reads(snapshot, "south"));
    scene.until_no_diagnostics();
}

impl Scene {
    fn with_artefacts() -> Self {
        let mut scene = Self::unstarted();
        fs::create_dir(scene.path("artifacts")).unwrap();
        scene.settings.integration.artefacts = vec![scene.path("artifacts")];
        scene.start();
        scene
    }

    fn copy(&self, file: &str, bytes: &[u8]) {
        fs::write(self.path("artifacts").join(file), bytes).unwrap();
    }
}

/// Name and XML of a proxy.
fn proxy(name: &str) -> (String, String) {
    let xml = format!(
        "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"{name}\"><target><inSequence/></target></proxy>"
    );
    (name.to_owned(), xml)
}

fn car(proxies: &[(String, String)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, text: &str| {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    };
    let mut index = String::new();
    for (name, xml) in proxies {
        index.push_str(&format!("<dependency artifact=\"{name}\" version=\"1.0.0\"/>"));
        let manifest = format!(
            "<artifact name=\"{name}\" version=\"1.0.0\" type=\"synapse/proxy-service\">\
             <file>{name}.xml</file></artifact>"
        );
        add(&format!("{name}_1.0.0/artifact.xml"), &manifest);
        add(&format!("{name}_1.0.0/{name}.xml"), xml);
    }
    let index = format!(
        "<artifacts><artifact name=\"orders\" version=\"1.0.0\" type=\"carbon/application\">{index}\
         </artifact></artifacts>"
    );
    add("artifacts.xml", &index);
    writer.finish().unwrap().into_inner()
}
