//! Inbound endpoints: listeners of artefacts.

use std::net::{SocketAddr, TcpListener, TcpStream};

use harness::{Client, Gateway, Upstream};

/// An inbound endpoint on any free port.
fn inbound(attributes: &str, parameters: &str) -> String {
    inbound_at(0, attributes, parameters)
}

fn inbound_at(port: u16, attributes: &str, parameters: &str) -> String {
    let attributes = match attributes.contains("protocol") {
        true => attributes.to_owned(),
        false => format!("{attributes} protocol=\"http\""),
    };
    format!(
        "<inboundEndpoint name=\"in{port}\" {attributes}><parameters>\
         <parameter name=\"inbound.http.port\">{port}</parameter>{parameters}</parameters>\
         </inboundEndpoint>"
    )
}

/// A sequence, or another artefact by `kind`, that responds with its name and its input.
fn sequence(name: &str) -> String {
    format!("<sequence name=\"{name}\">{}</sequence>", says(name))
}

fn says(name: &str) -> String {
    format!(
        "<payloadFactory media-type=\"text\"><format>{name} $1</format><args>\
         <arg expression=\"$axis2:REST_URL_POSTFIX\"/></args></payloadFactory><respond/>"
    )
}

fn api(name: &str) -> String {
    format!(
        "<api name=\"{name}\" context=\"/{name}\"><resource methods=\"GET\" uri-template=\"/a\">\
         <inSequence>{}</inSequence></resource></api>",
        says(name)
    )
}

fn pattern(pattern: &str) -> String {
    format!("<parameter name=\"dispatch.filter.pattern\">{pattern}</parameter>")
}

fn get(address: SocketAddr, target: &str) -> String {
    let response = Client::connect(address).fetch(&format!("GET {target}"), "");
    format!("{} {}", response.status, response.text())
}

/// A gateway with an inbound endpoint on a port that was free, and the port.
fn on_a_port(artefacts: impl Fn(u16) -> String) -> (Gateway, u16) {
    for _ in 0..5 {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let gateway = Gateway::mediating(&artefacts(free)).start();
        // Another process may have it by now.
        if gateway.inbound(free).is_some() {
            return (gateway, free);
        }
    }
    panic!("each port that was free was taken at once")
}

#[test]
fn without_a_pattern_the_sequence_of_the_endpoint_gets_everything() {
    let all = [inbound("sequence=\"own\"", ""), sequence("own"), sequence("main"), api("api")];
    let gateway = Gateway::mediating(&all.concat()).start();
    let address = gateway.inbound(0).unwrap();
    assert_eq!(gateway.diagnostics(), "");
    assert_eq!(get(address, "/api/a?b=c"), "200 own /api/a?b=c");
    assert_eq!(get(address, "/"), "200 own /");
    assert_eq!(get(gateway.http(), "/api/a"), "200 api /a");
    assert_eq!(get(gateway.http(), "/elsewhere"), "200 main /elsewhere");
    let labels = "api=\"in0\",status=\"200\"";
    assert_eq!(gateway.metric("penstock_requests_total", labels), 2);
}

#[test]
fn with_a_pattern_services_and_the_main_sequence_get_requests() {
    let all = [
        inbound("sequence=\"own\"", &pattern("^(/api/.*|/none|/services/it)$")),
        sequence("own"),
        sequence("main"),
        api("api"),
        api("other"),
        "<proxy name=\"it\"><target><inSequence><respond/></inSequence></target></proxy>"
            .to_owned(),
    ];
    let gateway = Gateway::mediating(&all.concat()).start();
    let address = gateway.inbound(0).unwrap();
    assert_eq!(get(address, "/api/a"), "200 api /a");
    assert_eq!(get(address, "/api/b").split(' ').next(), Some("404"));
    assert_eq!(get(address, "/services/it"), "200 ");
    for target in ["/none", "/other/a", "/services/it?query"] {
        assert_eq!(get(address, target), format!("200 main {target}"));
    }
    assert_eq!(get(address, "/api/../other/a"), "200 main /other/a", "what is routed must match");
    assert_eq!(get(address, "/other/../api/a"), "200 api /a");
    assert_eq!(get(address, "http://gateway/api/a"), "200 api /a");
    let without_main =
        [inbound("sequence=\"own\"", &pattern("/api/.*")), sequence("own"), api("api")];
    let gateway = Gateway::mediating(&without_main.concat()).start();
    let address = gateway.inbound(0).unwrap();
    assert_eq!(get(address, "/api/a"), "200 api /a");
    assert_eq!(get(address, "/x").split(' ').next(), Some("404"));
}

#[test]
fn an_api_is_reached_where_it_is_bound() {
    let bound =
        |name: &str, to: &str| api(name).replace("<api ", &format!("<api binds-to=\"{to}\" "));
    let all = [
        inbound("sequence=\"own\"", ""),
        sequence("own"),
        api("plain"),
        bound("inside", "in0"),
        bound("both", "default, in0"),
    ];
    let gateway = Gateway::mediating(&all.concat()).start();
    assert_eq!(gateway.diagnostics(), "");
    let (inbound, default) = (gateway.inbound(0).unwrap(), gateway.http());
    for (name, of_inbound, of_default) in [
        ("plain", "own /plain/a", "200"),
        ("inside", "inside /a", "404"),
        ("both", "both /a", "200"),
    ] {
        let target = format!("/{name}/a");
        assert_eq!(get(inbound, &target), format!("200 {of_inbound}"));
        assert_eq!(get(default, &target).split(' ').next(), Some(of_default), "{name}");
    }
    for (api, problem) in [
        (bound("api", "none"), "there is no inbound endpoint `none`"),
        (
            api("api").replace("<resource ", "<resource binds-to=\"in0\" "),
            "`binds-to` of a resource is not supported",
        ),
    ] {
        gateway.apply_artefacts(&[("test.xml", &[&*all[..2].concat(), &api].concat())]);
        assert!(gateway.diagnostics().contains(problem), "{}", gateway.diagnostics());
    }
}

#[test]
fn a_proxy_may_be_reached_through_an_inbound_endpoint_only() {
    let all = [
        inbound("sequence=\"own\"", &pattern(".*")),
        sequence("own"),
        format!(
            "<proxy name=\"it\"><target><inSequence>{}</inSequence></target>\
             <parameter name=\"inbound.only\">true</parameter></proxy>",
            says("it")
        ),
    ];
    let gateway = Gateway::mediating(&all.concat()).start();
    assert_eq!(gateway.diagnostics(), "");
    assert_eq!(get(gateway.inbound(0).unwrap(), "/services/it/a"), "200 it /a");
    assert_eq!(get(gateway.http(), "/services/it/a").split(' ').next(), Some("404"));
}

#[test]
fn errors_go_to_the_sequence_for_errors_and_responses_to_main() {
    let upstream = Upstream::fixed("from upstream");
    let refusing = Upstream::refusing();
    let own = |upstream: &Upstream| {
        let endpoint = format!("<endpoint><address uri=\"{}\"/></endpoint>", upstream.url());
        format!("<sequence name=\"own\"><send>{endpoint}</send></sequence>")
    };
    let failed = "<sequence name=\"failed\"><property name=\"HTTP_SC\" value=\"503\" scope=\"axis2\"/>\
        <payloadFactory media-type=\"text\"><format>failed</format><args/></payloadFactory><respond/>\
        </sequence>";
    let endpoint = inbound("sequence=\"own\" onError=\"failed\"", "");
    let all = [&*endpoint, &own(&refusing), failed].concat();
    let gateway = Gateway::mediating(&all).start();
    assert_eq!(get(gateway.inbound(0).unwrap(), "/"), "503 failed");
    let all = [&*endpoint, &own(&upstream), failed].concat();
    let gateway = Gateway::mediating(&all).start();
    assert_eq!(get(gateway.inbound(0).unwrap(), "/"), "200 from upstream");
    let main = "<sequence name=\"main\"><property name=\"HTTP_SC\" value=\"201\" scope=\"axis2\"/>\
        <send/></sequence>";
    let gateway = Gateway::mediating(&[&*all, main].concat()).start();
    assert_eq!(get(gateway.inbound(0).unwrap(), "/"), "201 from upstream");
}

#[test]
fn an_endpoint_with_tls_has_the_certificate_of_the_gateway() {
    let all = [inbound("protocol=\"https\" sequence=\"own\"", ""), sequence("own")].concat();
    let gateway = Gateway::mediating(&all).start();
    let config = gateway.identity().client(&["http/1.1"]);
    let address = gateway.inbound(0).unwrap();
    let mut client = Client::connect_tls(address, config, "localhost");
    assert_eq!(client.fetch("GET /a", "").text(), "own /a");
}

#[test]
fn an_endpoint_with_tls_needs_certificates() {
    let all = [inbound("protocol=\"https\" sequence=\"own\"", ""), sequence("own")].concat();
    let builder = Gateway::mediating(&all);
    let gateway = builder.settings(|settings| settings.integration.https = None).start();
    assert_eq!(gateway.inbound(0), None);
    let found = gateway.diagnostics();
    assert!(found.contains("neither `[integration]` nor `[gateway]` has `https`"), "{found}");
}

#[test]
fn listeners_follow_the_artefacts() {
    let with = |port, name| {
        [inbound_at(port, &format!("sequence=\"{name}\""), ""), sequence(name)].concat()
    };
    let (gateway, port) = on_a_port(|port| with(port, "first"));
    let address = gateway.inbound(port).unwrap();
    let mut client = Client::connect(address);
    assert_eq!(client.fetch("GET /a", "").text(), "first /a");
    gateway.apply_artefacts(&[("test.xml", &with(port, "second"))]);
    assert_eq!(client.fetch("GET /a", "").text(), "second /a", "the connection stays");
    let broken = with(port, "second").replace("<respond/>", "<nothing/>");
    gateway.apply_artefacts(&[("test.xml", &broken)]);
    assert_eq!(client.fetch("GET /a", "").text(), "second /a", "the last good version stays");
    gateway.apply_artefacts(&[("test.xml", &with(0, "third"))]);
    assert!(TcpStream::connect(address).is_err(), "the old listener is closed");
    assert_eq!(client.fetch("GET /a", "").status, 404, "no endpoint has its port");
    assert_eq!(get(gateway.inbound(0).unwrap(), "/a"), "200 third /a");
    gateway.apply_artefacts(&[]);
    assert_eq!(gateway.inbound(0), None);
    assert!(gateway.drain());
}

#[test]
fn a_listener_changes_between_clear_and_tls() {
    let with = |port, protocol: &str| {
        let attributes = format!("protocol=\"{protocol}\" sequence=\"own\"");
        [inbound_at(port, &attributes, ""), sequence("own")].concat()
    };
    let (gateway, port) = on_a_port(|port| with(port, "http"));
    assert_eq!(get(gateway.inbound(port).unwrap(), "/a"), "200 own /a");
    gateway.apply_artefacts(&[("test.xml", &with(port, "https"))]);
    assert_eq!(gateway.diagnostics(), "");
    let config = gateway.identity().client(&["http/1.1"]);
    let mut client = Client::connect_tls(gateway.inbound(port).unwrap(), config, "localhost");
    assert_eq!(client.fetch("GET /a", "").text(), "own /a");
}

#[test]
fn a_port_that_is_in_use_is_a_diagnostic_and_the_rest_is_served() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let all = [inbound_at(port, "sequence=\"own\"", ""), sequence("own"), api("api")].concat();
    let gateway = Gateway::mediating(&all).start();
    assert_eq!(gateway.inbound(port), None);
    let found = gateway.diagnostics();
    assert!(
        found.starts_with("test.xml:1:") && found.contains(&format!("port {port} is in use")),
        "{found}"
    );
    assert_eq!(get(gateway.http(), "/api/a"), "200 api /a");
    let own = gateway.http().port();
    let conflict = [inbound_at(own, "sequence=\"own\"", ""), sequence("own")].concat();
    gateway.apply_artefacts(&[("test.xml", &conflict)]);
    let found = gateway.diagnostics();
    assert!(found.contains(&format!("port {own} is in use")), "{found}");
    gateway.apply_artefacts(&[("test.xml", &all)]);
    drop(taken);
    // A connection of another test may have the port by now, for a while.
    assert_eq!(get(gateway.wait_for_inbound(port), "/a"), "200 own /a");
    assert_eq!(gateway.diagnostics(), "");
}

#[test]
fn the_request_in_progress_ends_when_its_endpoint_is_gone() {
    let upstream = Upstream::manual();
    let own = format!(
        "<sequence name=\"own\"><call><endpoint><address uri=\"{}\"/></endpoint></call><respond/></sequence>",
        upstream.url()
    );
    let all = [inbound("sequence=\"own\"", ""), own].concat();
    let gateway = Gateway::mediating(&all).start();
    let mut client = Client::connect(gateway.inbound(0).unwrap());
    client.send("GET / HTTP/1.1\r\nHost: me\r\n\r\n");
    let mut connection = upstream.accept();
    connection.request();
    gateway.apply_artefacts(&[]);
    connection.ok("late");
    assert_eq!(client.read().text(), "late");
}
