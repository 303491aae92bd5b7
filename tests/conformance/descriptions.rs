//! Descriptions of Synapse's services: `?wsdl` and `?swagger.json`.

use harness::{CannedResponse, Client, Files, Gateway, Response, Upstream};

const WSDL: &str = r#"<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/">
  <wsdl:service name="Orders">
    <wsdl:port name="soap11"><soap:address location="http://inside:9000/orders?a=1&amp;b=2"/></wsdl:port>
    <wsdl:port name="other"><soap:address location="http://inside:9000/other"/></wsdl:port>
  </wsdl:service>
</wsdl:definitions>"#;

const TARGET: &str = "<target><inSequence><payloadFactory media-type=\"text\"><format>mediated</format><args/>\
                      </payloadFactory><respond/></inSequence></target>";

#[track_caller]
fn check(response: &Response, content_type: &str, text: &str) {
    assert_eq!((response.status, response.text().as_str()), (200, text));
    let head = &response.head;
    assert!(head.contains(&format!("Content-Type: {content_type}\r\n")), "{head}");
}

#[test]
fn a_wsdl_is_published_with_the_address_of_its_proxy() {
    let entry = format!("<localEntry key=\"orders\">{WSDL}</localEntry>");
    let inline = format!("<proxy name=\"a\">{TARGET}<publishWSDL>{WSDL}</publishWSDL></proxy>");
    let by_key = format!("<proxy name=\"b\">{TARGET}<publishWSDL key=\"orders\"/></proxy>");
    let without = format!("<proxy name=\"c\">{TARGET}</proxy>");
    let gateway = Gateway::mediating(&[entry, inline, by_key, without].concat()).start();
    for name in ["a", "b"] {
        let response = gateway.fetch(&format!("GET /services/{name}?wsdl"), "");
        let own = format!("location=\"http://gateway/services/{name}\"");
        let text = response.text();
        assert_eq!(text.matches("location=").count(), 2, "{text}");
        assert_eq!(text.matches(&own).count(), 2, "{own} in {text}");
        assert!(!text.contains("inside"), "{text}");
        assert!(response.head.contains("Content-Type: text/xml; charset=UTF-8\r\n"), "{text}");
    }
    // Other requests are mediated.
    for request in [
        "GET /services/a",
        "POST /services/a?wsdl",
        "GET /services/a?wsdl=1",
        "GET /services/c?xsd=a.xsd",
    ] {
        assert_eq!(gateway.fetch(request, "").text(), "mediated", "{request}");
    }
    // A proxy that publishes none has the one of Axis2.
    let text = gateway.fetch("GET /services/c?wsdl", "").text();
    assert_eq!(text.matches("location=\"http://gateway/services/c\"").count(), 2, "{text}");
    assert!(text.contains("<wsdl:operation name=\"mediate\">"), "{text}");
}

#[test]
fn a_wsdl_has_the_documents_that_it_imports() {
    const XSD: &str = "xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"";
    let import = |location: &str| {
        format!("<xs:schema {XSD}><xs:include schemaLocation=\"{location}\"/></xs:schema>")
    };
    let wsdl = WSDL.replace(
        "<wsdl:service",
        &format!("<wsdl:types>{}</wsdl:types><wsdl:service", import("types/orders.xsd")),
    );
    let artefacts = format!(
        "<localEntry key=\"orders\">{}</localEntry><localEntry key=\"items\"><xs:schema {XSD}/></localEntry>\
         <proxy name=\"a\">{TARGET}<publishWSDL>{wsdl}<resource location=\"types/orders.xsd\" key=\"orders\"/>\
         <resource location=\"items.xsd\" key=\"items\"/></publishWSDL></proxy>",
        import("items.xsd")
    );
    let gateway = Gateway::mediating(&artefacts).start();
    // As a client follows them.
    let mut query = "wsdl".to_owned();
    for location in ["types%2Forders.xsd", "items.xsd"] {
        let text = gateway.fetch(&format!("GET /services/a?{query}"), "").text();
        let url = format!("http://gateway/services/a?xsd={location}");
        assert!(text.contains(&format!("<xs:include schemaLocation=\"{url}\"/>")), "{text}");
        query = format!("xsd={location}");
    }
    // Without the namespace of the artefacts, which it does not use.
    let last = gateway.fetch(&format!("GET /services/a?{query}"), "").text();
    assert!(last.ends_with(&format!("<xs:schema {XSD}/>")), "{last}");
    assert_eq!(gateway.fetch("GET /services/a?xsd=none.xsd", "").text(), "mediated");
}

#[test]
fn documents_are_read_from_files_and_urls_when_artefacts_are_loaded() {
    let (published, upstream) = (Upstream::fixed(WSDL), Upstream::fixed("from the port"));
    let own = WSDL.replace("http://inside:9000/other", &upstream.url());
    let artefacts = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">\
         <localEntry key=\"orders\" src=\"file:orders.wsdl\"/>\
         <proxy name=\"a\">{TARGET}<publishWSDL key=\"orders\"/></proxy>\
         <proxy name=\"b\">{TARGET}<publishWSDL uri=\"{}/orders?wsdl\"/></proxy>\
         <proxy name=\"c\">{TARGET}<publishWSDL uri=\"file:../orders.wsdl\"/></proxy>\
         <proxy name=\"d\"><target><endpoint><wsdl uri=\"orders.wsdl\" service=\"Orders\" port=\"other\"/></endpoint>\
         </target></proxy></definitions>",
        published.url()
    );
    let files =
        Files::new().toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"synapse/\"]\n");
    std::fs::create_dir(files.path("synapse")).unwrap();
    files.write("synapse/orders.wsdl", &own);
    files.write("synapse/all.xml", &artefacts);
    let gateway = files.start();
    let mut client = Client::connect(gateway.integration_http());
    let mut get = |target: &str| client.fetch(&format!("GET {target}"), "").text();
    for name in ["a", "b"] {
        let text = get(&format!("/services/{name}?wsdl"));
        let own = format!("location=\"http://gateway/services/{name}\"");
        assert_eq!(text.matches(&own).count(), 2, "{text}");
    }
    assert_eq!(published.requests()[0].line(), "GET /orders?wsdl HTTP/1.1");
    let text = get("/services/c?wsdl");
    assert!(
        text.contains("\"mediate\"") && !text.contains("Orders"),
        "no file outside the folder is read: {text}"
    );
    assert_eq!(get("/services/d"), "from the port");
}

#[test]
fn the_wsdl_of_an_endpoint_is_fetched_when_it_is_asked_for_and_once() {
    let proxy = |upstream: &Upstream| {
        let address = format!("<address uri=\"{}/orders?x=1\"/>", upstream.url());
        Gateway::mediating(&format!(
            "<endpoint name=\"E\">{address}</endpoint><proxy name=\"a\">{TARGET}<publishWSDL endpoint=\"E\"/></proxy>"
        ))
        .start()
    };
    let published = Upstream::fixed(WSDL);
    let gateway = proxy(&published);
    assert_eq!(published.requests().len(), 0);
    for host in ["gateway", "other"] {
        let mut client = gateway.connect();
        client.send(format!("GET /services/a?wsdl HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.read();
        assert!(response.head.contains("Content-Type: text/xml; charset=UTF-8\r\n"));
        let text = response.text();
        let own = format!("location=\"http://{host}/services/a\"");
        assert_eq!(text.matches(&own).count(), 2, "{text}");
        assert!(!text.contains("inside"), "{text}");
    }
    let requests = published.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].line(), "GET /orders?wsdl HTTP/1.1");
    assert_eq!(gateway.fetch("GET /services/a", "").text(), "mediated");
    for (upstream, expect) in [
        (Upstream::refusing(), "500 101503"),
        (Upstream::fixed("<html/>"), "500 0"),
        (
            Upstream::responding(|_| {
                CannedResponse::bytes("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
            }),
            "500 0",
        ),
    ] {
        let gateway = proxy(&upstream);
        // Nothing is kept of a failure.
        for _ in 0..2 {
            let response = gateway.fetch("GET /services/a?wsdl", "");
            assert_eq!(response.status_and_code(), expect);
        }
        assert_eq!(gateway.fetch("GET /services/a", "").text(), "mediated");
    }
}

#[test]
fn an_api_publishes_the_description_that_it_names() {
    let files =
        Files::new().toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"synapse/\"]\n");
    std::fs::create_dir_all(files.path("synapse/registry/config")).unwrap();
    let api = |name: &str, key: &str| {
        format!(
            "<api name=\"{name}\" context=\"/{name}\" publishSwagger=\"{key}\"><resource><inSequence><respond/></inSequence>\
             </resource></api>"
        )
    };
    let apis = [api("json", "conf:/a.json"), api("yaml", "conf:/a.yaml"), api("none", "conf:/b")];
    let all = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{}</definitions>",
        apis.concat()
    );
    files.write("synapse/all.xml", &all);
    files.write("synapse/registry/config/a.json", "{\"openapi\":\"own\"}");
    files.write("synapse/registry/config/a.yaml", "openapi: own\n");
    let gateway = files.start();
    let mut client = Client::connect(gateway.integration_http());
    let mut get = |target: &str| client.fetch(&format!("GET {target}"), "").text();
    for query in ["swagger.json", "swagger.yaml"] {
        assert_eq!(get(&format!("/json?{query}")), "{\"openapi\":\"own\"}");
        assert!(get(&format!("/none?{query}")).contains("\"title\":\"none\""));
    }
    assert_eq!(get("/yaml?swagger.yaml"), "openapi: own\n");
    assert!(get("/yaml?swagger.json").contains("\"title\":\"yaml\""));
}

#[test]
fn an_api_describes_its_resources() {
    let respond = "<inSequence><respond/></inSequence>";
    let api = format!(
        "<api name=\"Orders\" context=\"/orders\" version=\"2.0.0\" version-type=\"url\">\
         <resource methods=\"GET PUT\" uri-template=\"/{{id}}?fields={{fields}}\">{respond}</resource>\
         <resource methods=\"POST\" url-mapping=\"/new/*\">{respond}</resource>\
         <resource methods=\"DELETE\" uri-template=\"/{{id}}\">{respond}</resource></api>"
    );
    let gateway = Gateway::mediating(&api).start();
    // `fetch` asks for the host `gateway`.
    let url = "http://gateway/orders/2.0.0";
    let id =
        r#"{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"#;
    let answers = r#""responses":{"default":{"description":"Default response"}}}"#;
    let expect = format!(
        "{{\"openapi\":\"3.0.3\",\"info\":{{\"title\":\"Orders\",\"version\":\"2.0.0\"}},\
         \"servers\":[{{\"url\":\"{url}\"}}],\"paths\":{{\"/new/*\":{{\"post\":{{{answers}}},\
         \"/{{id}}\":{{\"delete\":{id}{answers},\"get\":{id}{answers},\"put\":{id}{answers}}}}}}}"
    );
    let fetch = |query: &str| gateway.fetch(&format!("GET /orders/2.0.0?{query}"), "");
    check(&fetch("swagger.json"), "application/json", &expect);
    check(&fetch("swagger.yaml"), "text/yaml", &expect);
    // Below the base path, the resources decide.
    assert_eq!(gateway.fetch("GET /orders/2.0.0/new/a?swagger.json", "").status, 405);
    let options = gateway.fetch("OPTIONS /orders/2.0.0/new/a", "");
    assert_eq!((options.status, options.header("Allow")), (200, Some("POST")));
}
