//! What a client and an endpoint see of Synapse's properties, sequences and endpoints.

use harness::{CannedResponse, Gateway, Upstream};

/// A gateway with these artefacts; `HERE` is the address of `upstream`.
fn serving(upstream: &Upstream, artefacts: &str) -> Gateway {
    Gateway::mediating(&artefacts.replace("HERE", &format!("http://{}", upstream.address())))
        .start()
}

const SEND: &str = "<send><endpoint><address uri=\"HERE/\"/></endpoint></send>";

fn proxy(steps: &str) -> String {
    format!("<proxy name=\"it\"><target><inSequence>{steps}</inSequence></target></proxy>")
}

const POST: &str = "POST /services/it HTTP/1.1\r\nHost: me\r\n";

#[test]
fn a_client_whose_message_is_accepted_does_not_wait() {
    for property in ["name=\"OUT_ONLY\"", "name=\"FORCE_SC_ACCEPTED\" scope=\"axis2\""] {
        let upstream = Upstream::manual();
        let gateway =
            serving(&upstream, &proxy(&format!("<property {property} value=\"true\"/>{SEND}")));
        let mut client = gateway.connect();
        client.send(format!("{POST}Content-Length: 5\r\n\r\nhello"));
        let response = client.read();
        assert_eq!((response.status, response.text()), (202, String::new()), "{property}");
        let mut connection = upstream.accept();
        assert_eq!(connection.request().text(), "hello", "{property}");
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

#[test]
fn parts_meet_behind_their_splitter() {
    let upstream = Upstream::responding(|request| {
        let (body, length) = (request.text(), request.body.len());
        let head = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\n{head}{body}"))
    });
    let steps = "<iterate expression=\"json-eval($)\"><target><sequence>\
        <call><endpoint><address uri=\"HERE/\"/></endpoint></call></sequence></target></iterate>\
        <aggregate><onComplete expression=\"json-eval($)\"/></aggregate><respond/>";
    let gateway = serving(&upstream, &proxy(steps));
    let mut client = gateway.connect();
    let body = "[1, 2, 3]";
    client.send(format!(
        "{POST}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let response = client.read();
    assert_eq!((response.status, response.text()), (200, "[1,2,3]".to_owned()));
}

#[test]
fn the_sequence_main_gets_what_no_service_takes() {
    let upstream = Upstream::echo();
    let artefacts = "<api name=\"a\" context=\"/a\"><resource methods=\"GET\" uri-template=\"/x\"><inSequence>\
        <respond/></inSequence></resource></api><sequence name=\"main\"><payloadFactory media-type=\"text\">\
        <format>main got $1</format><args><arg expression=\"get-property('To')\"/></args></payloadFactory>\
        <property name=\"HTTP_SC\" value=\"404\" scope=\"axis2\"/><respond/></sequence>";
    let gateway = serving(&upstream, artefacts);
    let response = gateway.fetch("GET /elsewhere?x=1", "");
    assert_eq!((response.status, response.text()), (404, "main got /elsewhere?x=1".to_owned()));
    assert_eq!(gateway.fetch("GET /a/x", "").status, 200);
    assert_eq!(gateway.fetch("GET /a/y", "").status_and_code(), "404 404", "the API has the path");
}
