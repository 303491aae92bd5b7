//! `penstock test`: Micro Integrator's unit tests, without a server or a network.

use harness::{Files, Process};

const ORDERS: &str = r#"<api xmlns="http://ws.apache.org/ns/synapse" name="Orders" context="/orders">
  <resource methods="POST" uri-template="/{shop}">
    <inSequence>
      <sequence key="Price"/>
      <call><endpoint key="Stock"/></call>
      <filter xpath="$axis2:HTTP_SC = '200'">
        <then><property name="HTTP_SC" scope="axis2" value="201"/></then>
        <else><property name="HTTP_SC" scope="axis2" value="409"/></else>
      </filter>
      <header name="X-Shop" scope="transport" expression="$ctx:uri.var.shop"/>
      <respond/>
    </inSequence>
  </resource>
</api>
"#;

const PRICE: &str = r#"<sequence xmlns="http://ws.apache.org/ns/synapse" name="Price">
  <property name="symbol" expression="json-eval($.symbol)"/>
  <payloadFactory media-type="json">
    <format>{"symbol":"$1","price":$2}</format>
    <args>
      <arg evaluator="json" expression="$.symbol"/>
      <arg expression="$ctx:price"/>
    </args>
  </payloadFactory>
</sequence>
"#;

const STOCK: &str = r#"<endpoint xmlns="http://ws.apache.org/ns/synapse" name="Stock">
  <http method="post" uri-template="https://stock.example/v1/{uri.var.shop}/orders"/>
</endpoint>
"#;

const STOCK_MOCK: &str = r#"<mock-service>
  <service-name>Stock</service-name>
  <port>9090</port>
  <context>/v1</context>
  <resources>
    <resource>
      <sub-context>/berlin/orders</sub-context>
      <method>POST</method>
      <request><payload><![CDATA[{"price": 5.0, "symbol": "IBM"}]]></payload></request>
      <response>
        <status-code>200</status-code>
        <headers><header name="Content-Type" value="application/json"/></headers>
        <payload><![CDATA[{"accepted": true}]]></payload>
      </response>
    </resource>
  </resources>
</mock-service>
"#;

/// A case of the API: its name, the path, the symbol, and the assertions.
fn api_case(name: &str, path: &str, symbol: &str, assertions: &str) -> String {
    format!(
        r#"<test-case name="{name}">
      <input>
        <request-path>{path}</request-path><request-method>POST</request-method>
        <payload><![CDATA[{{"symbol":"{symbol}"}}]]></payload>
      </input>
      <assertions>{assertions}</assertions>
    </test-case>"#
    )
}

fn equals(actual: &str, expected: &str) -> String {
    format!(
        "<assertEquals><actual>{actual}</actual><expected><![CDATA[{expected}]]></expected>\
         <message>wrong {actual}</message></assertEquals>"
    )
}

fn unit_test(subject: &str, supports: &str, cases: &str, mocks: &str) -> String {
    format!(
        "<unit-test><artifacts><test-artifact><artifact>{subject}</artifact></test-artifact>\
         <supportive-artifacts>{supports}</supportive-artifacts></artifacts>\n\
         <test-cases>{cases}</test-cases>\n<mock-services>{mocks}</mock-services></unit-test>"
    )
}

const SUPPORTS: &str = "<artifact>src/main/wso2mi/artifacts/sequences/Price.xml</artifact>\
                        <artifact>/shop/src/main/wso2mi/artifacts/endpoints/Stock.xml</artifact>";
const API: &str = "src/main/wso2mi/artifacts/apis/Orders.xml";
const SEQUENCE: &str = "src/main/wso2mi/artifacts/sequences/Price.xml";
const MOCK: &str = "<mock-service>src/test/resources/mock-services/Stock.xml</mock-service>";

/// A project of Micro Integrator in the folder `shop`, with this unit test of its API.
fn project(api_test: &str) -> Files {
    let files = Files::new();
    let artefacts =
        ["apis", "sequences", "endpoints"].map(|kind| format!("main/wso2mi/artifacts/{kind}"));
    for folder in
        artefacts.iter().map(String::as_str).chain(["test/resources/mock-services", "test/wso2mi"])
    {
        std::fs::create_dir_all(files.path(&format!("shop/src/{folder}"))).unwrap();
    }
    files.write("shop/src/main/wso2mi/artifacts/apis/Orders.xml", ORDERS);
    files.write("shop/src/main/wso2mi/artifacts/sequences/Price.xml", PRICE);
    files.write("shop/src/main/wso2mi/artifacts/endpoints/Stock.xml", STOCK);
    files.write("shop/src/test/resources/mock-services/Stock.xml", STOCK_MOCK);
    files.write("shop/src/test/wso2mi/OrdersTest.xml", api_test);
    files
}

#[track_caller]
fn run(files: &Files, arguments: &[&str], code: i32) -> String {
    let (status, output) = Process::run(files.folder(), arguments);
    assert_eq!(status, Some(code), "{output}");
    output
}

#[test]
fn the_unit_tests_of_a_project_run_with_its_mock_services() {
    let accepted = [
        equals("$body", "{ \"accepted\" : true }"),
        equals("$statusCode", "201"),
        equals("$trp:X-Shop", "berlin"),
        "<assertNotNull><actual>$trp:Content-Type</actual><message>no type</message></assertNotNull>"
            .to_owned(),
    ];
    // The price is not set outside the sequence's own test, so that the mock service takes no such body.
    let cases = api_case("refuses", "/berlin", "IBM", &equals("$statusCode", "409"));
    let files = project(&unit_test(API, SUPPORTS, &cases, MOCK));
    let property = "<property name=\"price\" value=\"5.0\"/>";
    files.write(
        "shop/src/main/wso2mi/artifacts/sequences/Price.xml",
        &PRICE.replace("  <payloadFactory", &format!("  {property}\n  <payloadFactory")),
    );
    let both =
        cases.replace("IBM", "SUN") + &api_case("accepts", "/berlin", "IBM", &accepted.concat());
    files.write("shop/src/test/wso2mi/OrdersTest.xml", &unit_test(API, SUPPORTS, &both, MOCK));
    let output = run(&files, &["test", "shop"], 0);
    assert!(output.contains("  ok    refuses\n  ok    accepts\n"), "{output}");
    assert!(output.ends_with("2 test cases in 1 file: 2 passed, 0 failed\n"), "{output}");
    let one = run(&files, &["test", "shop", "--only", "acc"], 0);
    assert!(one.contains("1 test case in 1 file: 1 passed"), "{one}");
}

#[test]
fn a_sequence_gets_properties_and_its_payload_and_properties_are_asserted() {
    let input = |price: &str| {
        format!(
            "<input><payload><![CDATA[{{\"symbol\":\"IBM\"}}]]></payload>\
             <properties><property name=\"price\" value=\"{price}\"/></properties></input>"
        )
    };
    let assertions = equals("$body", "{\"price\":1.50,\"symbol\":\"IBM\"}")
        + &equals("$ctx:symbol", "IBM")
        + &equals("${payload.symbol}", "IBM")
        + &equals("$axis2:messageType", "application/json");
    let case = format!(
        "<test-case name=\"prices\">{}<assertions>{assertions}</assertions></test-case>",
        input("1.5")
    );
    let files = project(&unit_test(SEQUENCE, "", &case, ""));
    let output = run(&files, &["test", "shop/src/test/wso2mi/OrdersTest.xml"], 0);
    assert!(output.contains("  ok    prices\n"), "{output}");
}

#[test]
fn a_failed_assertion_shows_the_difference_and_what_was_not_mocked() {
    let case =
        api_case("accepts", "/berlin", "IBM", &equals("$body", "{\"accepted\":true,\"n\":1}"));
    let files = project(&unit_test(API, SUPPORTS, &case, ""));
    let arguments = ["test", "shop", "--junit", "results.xml"];
    let output = run(&files, &arguments, 1);
    for part in [
        "  FAIL  accepts\n",
        "OrdersTest.xml:7:19: $body does not exist: wrong $body\n",
        "- {\n",
        "-   \"accepted\": true,\n",
        "nothing mocks POST https://stock.example/v1/berlin/orders (endpoint `Stock`): add a mock-service with the service-name `Stock`\n",
        "1 test case in 1 file: 0 passed, 1 failed\n",
    ] {
        assert!(output.contains(part), "{part}{output}");
    }
    let junit = std::fs::read_to_string(files.path("results.xml")).unwrap();
    let suite = "<testsuite name=\"shop/src/test/wso2mi/OrdersTest.xml\" tests=\"1\" failures=\"1\" errors=\"0\"";
    assert!(junit.contains(suite), "{junit}");
    assert!(
        junit.contains("<failure type=\"assertion\" message=\"$body does not exist\">"),
        "{junit}"
    );
}

#[test]
fn a_difference_is_shown_line_by_line() {
    let expected = "{\"accepted\":false,\"x\":[1]}";
    let case = api_case("accepts", "/berlin", "IBM", &equals("$body", expected));
    let files = project(&unit_test(API, SUPPORTS, &case, MOCK));
    files.write(
        "shop/src/test/resources/mock-services/Stock.xml",
        &STOCK_MOCK.replace(
            r#"<request><payload><![CDATA[{"price": 5.0, "symbol": "IBM"}]]></payload></request>"#,
            "",
        ),
    );
    let output = run(&files, &["test", "shop"], 1);
    let difference = "            {\n          -   \"accepted\": false,\n          -   \"x\": [\n          \
                      -     1\n          -   ]\n          +   \"accepted\": true\n            }\n";
    assert!(output.contains(difference), "{output}");
}

#[test]
fn a_request_may_come_by_https() {
    let case = api_case("a", "/berlin", "IBM", &equals("$statusCode", "200"));
    let secure =
        case.replace("<request-path>", "<request-protocol>https</request-protocol><request-path>");
    let api = ORDERS.replace("methods=\"POST\"", "methods=\"POST\" protocol=\"https\"");
    let other = secure.replace("https</", "ftp</");
    let wrong = "unknown protocol `ftp`";
    for (case, code, end) in [(secure, 0, "1 passed"), (case, 1, "1 failed"), (other, 1, wrong)] {
        let files = project(&unit_test(API, SUPPORTS, &case, MOCK));
        files
            .write(&format!("shop/{API}"), &api.replace("<sequence key=\"Price\"/>", "<respond/>"));
        let output = run(&files, &["test", "shop"], code);
        assert!(output.contains(end), "{output}");
    }
}

/// `file.properties`, documents, the mapping of `[integration]`, and the state that mediators keep between messages.
#[test]
fn artefacts_have_what_the_gateway_gives_them() {
    let hit = |expected: &str, body: &str| {
        let hit = equals("$trp:X-Hit", expected);
        api_case(expected, "/berlin", "IBM", &(hit + body))
    };
    let body = equals("$body", r#"{"r":{"host":"stock.example","n":"1"}}"#);
    let entry = "<artifact>src/main/wso2mi/artifacts/local-entries/Form.xml</artifact>";
    let cases = hit("no", &body) + &hit("yes", "");
    let files = project(&unit_test(API, &format!("{SUPPORTS}{entry}"), &cases, MOCK));
    let api = r#"<api xmlns="http://ws.apache.org/ns/synapse" name="Orders" context="/orders">
  <resource methods="POST" uri-template="/{shop}">
    <inSequence>
      <cache timeout="100">
        <onCacheHit><header name="X-Hit" scope="transport" value="yes"/><respond/></onCacheHit>
      </cache>
      <payloadFactory media-type="json"><format>{"symbol":"IBM","price":5.0}</format><args/></payloadFactory>
      <send><endpoint key="Stock"/></send>
    </inSequence>
    <outSequence>
      <payloadFactory media-type="xml">
        <format key="form"/><args><arg expression="${configs.HOST}"/></args>
      </payloadFactory>
      <property name="messageType" value="application/json" scope="axis2"/>
      <header name="X-Hit" scope="transport" value="no"/>
      <cache collector="true"/>
      <send/>
    </outSequence>
  </resource>
</api>
"#;
    files.write(&format!("shop/{API}"), api);
    let folder = "shop/src/main/wso2mi/artifacts/local-entries";
    std::fs::create_dir_all(files.path(folder)).unwrap();
    let form = "<localEntry xmlns=\"http://ws.apache.org/ns/synapse\" key=\"form\" src=\"file:form.xml\"/>";
    files.write(&format!("{folder}/Form.xml"), form);
    files.write(&format!("{folder}/form.xml"), "<r xmlns=\"\"><host>$1</host><n>1</n></r>");
    files.write("shop/file.properties", "HOST=stock.example\n");
    files.write("shop/pom.xml", "<project/>");
    files.write(
        "penstock.toml",
        "[integration]\nhttp = \"127.0.0.1:0\"\njson_auto_primitive = false\n",
    );
    let output = run(&files, &["test", "shop", "--config", "penstock.toml"], 0);
    assert!(output.contains("2 passed"), "{output}");
}

#[test]
fn what_cannot_be_run_is_named_with_its_place() {
    let case = api_case("a", "/berlin", "IBM", &equals("$body", "1"));
    for (test, problem) in [
        (
            unit_test(API, "", &case, MOCK),
            "there is no endpoint `Stock`\n    help: name the file that has it as a `supportive-artifact`",
        ),
        (
            unit_test("src/main/Absent.xml", "", &case, ""),
            "there is no file `src/main/Absent.xml` in the project\n    help: paths begin at the project's folder, here `.`",
        ),
        (
            unit_test(SEQUENCE, "", &case, "").replace("test-cases", "testcases"),
            "unknown element `testcases`\n    help: did you mean `test-cases`?",
        ),
        (unit_test(SEQUENCE, "", "<test-case/>", ""), "`test case 1` has no assertions"),
        (
            unit_test(API, SUPPORTS, &case.replace("assertEquals", "assertEqual"), MOCK),
            "unknown assertion `assertEqual`",
        ),
        ("<unit-test>".to_owned(), "invalid XML"),
        (unit_test(SEQUENCE, "", "", ""), "the unit test has no test cases"),
        (
            unit_test("../secret.xml", "", &case, ""),
            "`../secret.xml` is not a path inside the project",
        ),
        (
            unit_test(API, SUPPORTS, &case, &STOCK_MOCK.replace("9090", "90900")),
            "invalid port `90900`",
        ),
    ] {
        let files = project(&test);
        let output = run(&files, &["test", "shop/src/test/wso2mi/OrdersTest.xml"], 1);
        assert!(output.contains(problem), "{problem}: {output}");
        assert!(output.contains(".xml:"), "{output}");
        assert!(
            output.contains("0 test cases in 1 file: 0 passed, 0 failed, 1 file cannot be run"),
            "{output}"
        );
    }
}

#[test]
fn a_mistake_is_reported_once_and_in_the_results() {
    let case = api_case("a", "/berlin", "IBM", &equals("$body", "1"));
    let files = project(&unit_test(SEQUENCE, "", &case, ""));
    files.write(&format!("shop/{SEQUENCE}"), &PRICE.replace("<property", "<proprty"));
    let output = run(&files, &["test", "shop", "--junit", "results.xml"], 1);
    // Both outputs are read at once, so lines of the other one may be between these.
    for expect in [
        "Price.xml:2:3: error: unknown mediator `proprty`\n",
        "    help: did you mean `property`?\n",
    ] {
        assert!(output.contains(expect), "{output}");
    }
    assert_eq!(output.matches("error:").count(), 1, "{output}");
    let junit = std::fs::read_to_string(files.path("results.xml")).unwrap();
    assert!(junit.contains("<error type=\"unreadable\" message=\"cannot be run\">"), "{junit}");
    assert!(junit.contains("Price.xml:2:3: error: unknown mediator"), "{junit}");
    run(&files, &["xml", "check", "results.xml"], 0);

    let wrong = case.replace("<actual>$body", "<actual>$nothing:x(");
    let files = project(&unit_test(SEQUENCE, "", &wrong, ""));
    let output = run(&files, &["test", "shop"], 1);
    assert_eq!(output.matches("error:").count(), 1, "{output}");
}

#[test]
fn a_unit_test_that_cannot_be_parsed_is_found_in_its_folder() {
    let files = project("<unit-test>");
    let output = run(&files, &["test", "shop"], 1);
    assert!(output.contains("invalid XML") && output.contains("1 file cannot be run"), "{output}");
}

#[test]
fn a_proxy_that_drops_the_message_accepts_it_and_a_failure_is_not_overlooked() {
    let proxy = |mediator: &str| {
        format!(
            "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"P\"><target><inSequence>{mediator}\
             </inSequence></target></proxy>"
        )
    };
    let case = |assertion: &str| {
        format!("<test-case name=\"a\"><assertions>{assertion}</assertions></test-case>")
    };
    let dropped = unit_test(&proxy("<drop/>"), "", &case(&equals("$statusCode", "202")), "");
    run(&project(&dropped), &["test", "shop"], 0);
    let throws = proxy("<throwError type=\"T\" errorMessage=\"m\"/>");
    let version = case(&equals("$httpVersion", "HTTP/1.1"));
    let output = run(&project(&unit_test(&throws, "", &version, "")), &["test", "shop"], 1);
    assert!(output.contains("no error handler responds to"), "{output}");
    let status = case(&equals("$statusCode", "500"));
    run(&project(&unit_test(&throws, "", &status, "")), &["test", "shop"], 0);
}

#[test]
fn files_above_the_project_are_not_read() {
    let case = api_case("a", "/berlin", "IBM", &equals("$body", "1"));
    let files = project(&unit_test("Price.xml", "", &case, ""));
    files.write("Price.xml", PRICE);
    files.write("shop/pom.xml", "<project/>");
    let output = run(&files, &["test", "."], 1);
    assert!(output.contains("there is no file `Price.xml` in the project"), "{output}");
}

#[test]
fn a_folder_without_unit_tests_is_a_usage_error() {
    let files = project("<a/>");
    assert!(run(&files, &["test", "."], 2).contains("there is no unit test"));
    assert!(run(&files, &["test", "absent"], 1).contains("absent"));
    assert!(run(&files, &["test"], 2).contains("PATH"));
}
