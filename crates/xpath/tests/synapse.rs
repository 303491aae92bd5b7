//! The extensions of Synapse.

use xml::Document;
use xpath::synapse::{Message, PropertyScope, SynapseXPath};
use xpath::{Budget, BudgetExceeded, Error, Pool, Value};

const SOAP: &[u8] = b"<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Header>\
<routing xmlns='http://someuri'>xadmin</routing></e:Header><e:Body><order><symbol>IBM</symbol></order></e:Body></e:Envelope>";

struct Soap<'d>(&'d Document, &'d Pool);

impl<'d> Message<'d> for Soap<'d> {
    fn property(&mut self, scope: PropertyScope, name: &str) -> Option<Value<'d>> {
        match (scope, name) {
            (PropertyScope::Synapse, "uri.var.id") => Some(Value::String("42".to_owned())),
            (PropertyScope::Synapse, "limit") => Some(Value::Number(3.0)),
            (PropertyScope::Synapse, "node") => Some(Value::NodeSet(self.0.element()?.into())),
            (PropertyScope::Transport, "Content-Type") => {
                Some(Value::String("text/xml".to_owned()))
            }
            (PropertyScope::Axis2, "HTTP_METHOD") => Some(Value::String("POST".to_owned())),
            (PropertyScope::Url, "q") => Some(Value::String("a b".to_owned())),
            (PropertyScope::Function, "p") => Some(Value::Boolean(true)),
            (PropertyScope::System, "home") => Some(Value::String("/opt".to_owned())),
            _ => None,
        }
    }

    fn document(&mut self) -> Option<&'d Document> {
        Some(self.0)
    }

    fn keep(&mut self, document: Document) -> Option<&'d Document> {
        self.1.add(document)
    }

    /// 14 November 2023, 22:13:20.789 UTC.
    fn unix_ms(&self) -> Option<i64> {
        Some(1_700_000_000_789)
    }
}

fn string(text: &str, bytes: &[u8]) -> String {
    evaluate(text, bytes).unwrap()
}

fn evaluate(text: &str, bytes: &[u8]) -> Result<String, String> {
    let namespaces = [("t".to_owned(), "http://someuri".to_owned())];
    let expression = SynapseXPath::compile(text, &namespaces).map_err(|error| error.message())?;
    let document = Document::parse(bytes).unwrap();
    let pool = Pool::default();
    let value = expression.evaluate(&document, &mut Soap(&document, &pool), &Budget::default());
    value.map(Value::into_string).map_err(|error| error.to_string())
}

/// The context node is the envelope. A message that isn't SOAP counts as the body of a SOAP 1.1 envelope.
#[test]
fn paths_begin_at_the_envelope_or_at_what_stands_for_its_body() {
    let soap = b"<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Header><h>x</h></e:Header>\
        <e:Body><o><i>1</i><i>2</i></o></e:Body></e:Envelope>";
    let soap_12 = b"<e:Envelope xmlns:e='http://www.w3.org/2003/05/soap-envelope'><e:Body><o><i>1</i><i>2</i></o>\
        </e:Body></e:Envelope>";
    let plain = b"<o><i>1</i><i>2</i></o>";
    let namespaces = [
        ("s11", "http://schemas.xmlsoap.org/soap/envelope/"),
        ("s12", "http://www.w3.org/2003/05/soap-envelope"),
    ];
    let namespaces = namespaces.map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned()));
    let check = |text: &str, document: &[u8], expected: &str| {
        let expression = SynapseXPath::compile(text, &namespaces).unwrap();
        let document = Document::parse(document).unwrap();
        let pool = Pool::default();
        let mut message = Soap(&document, &pool);
        let value = expression.evaluate(&document, &mut message, &Budget::default()).unwrap();
        assert_eq!(value.into_string(), expected, "{text}");
    };
    #[rustfmt::skip]
    let cases = [
        //                                             SOAP 1.1  SOAP 1.2  another
        ("s11:Body/*/i",                               "1",      "",       "1"),
        ("name(s11:Body/child::*[position()=1] | s12:Body/child::*[position()=1])",
                                                       "o",      "o",      "o"),
        ("count(s11:Body/o/i)",                        "2",      "0",      "2"),
        ("s11:Body[1]/o/i[2]",                         "2",      "",       "2"),
        ("./s11:Body/o/i[2]",                          "2",      "",       "2"),
        (".//s11:Body//i[2]",                          "2",      "",       "2"),
        ("/s11:Envelope/s11:Body/o/i[2]",              "2",      "",       "2"),
        ("/s11:Envelope//i[2]",                        "2",      "",       "2"),
        ("//s11:Body/o/i[2]",                          "2",      "",       "2"),
        ("//s11:Envelope/s11:Body/o/i[2]",             "2",      "",       "2"),
        ("boolean(//s11:Body)",                        "true",   "false",  "true"),
        ("count(//s11:Body//i)",                       "2",      "0",      "2"),
        ("count(//s11:Body/i)",                        "0",      "0",      "0"),
        ("count(//s11:Body/*/*)",                      "2",      "0",      "2"),
        ("$env/s11:Body/o/i[2]",                       "2",      "",       "2"),
        ("//*[local-name()='Body']/o/i[2]",            "2",      "2",      "2"),
        ("/*[local-name()='Envelope']/*[local-name()='Body' and \
          namespace-uri()='http://schemas.xmlsoap.org/soap/envelope/']/o/i[2]",
                                                       "2",      "",       "2"),
        ("//i[. = /s11:Envelope/s11:Body/o/i[2]]",     "2",      "",       "2"),
        ("count(//o[s11:Body])",                       "0",      "0",      "0"),
        ("/s11:Envelope/s11:Header/h",                 "x",      "",       ""),
        ("s11:Header/h",                               "x",      "",       ""),
        ("s11:Envelope/s11:Body/o/i",                  "",       "",       ""),
        ("/o/i",                                       "",       "",       "1"),
        ("o/i",                                        "",       "",       "1"),
        ("//i",                                        "1",      "1",      "1"),
        ("name(/*)",                                   "e:Envelope", "e:Envelope", "o"),
        ("name()",                                     "e:Envelope", "e:Envelope", ""),
        ("count(*)",                                   "2",      "1",      "1"),
    ];
    for (text, in_soap, in_soap_12, in_other) in cases {
        check(text, soap, in_soap);
        check(text, soap_12, in_soap_12);
        check(text, plain, in_other);
    }
    // A message that contains such elements nonetheless.
    let nested =
        b"<log><e:Body xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><o>3</o></e:Body></log>";
    check("//s11:Body/o", nested, "3");
    check("//*[local-name()='Body']/o", nested, "3");
}

#[test]
fn it_is_known_what_reads_the_header_alone() {
    let soap = ("e".to_owned(), "http://schemas.xmlsoap.org/soap/envelope/".to_owned());
    let namespaces = [soap, ("t".to_owned(), "http://someuri".to_owned())];
    for (text, is_it) in [
        ("/e:Envelope/e:Header/t:routing", true),
        ("/e:Envelope/e:Header//t:routing[2]/@id = 'x'", true),
        ("$header/t:routing", true),
        ("concat($header/t:routing, $trp:x)", true),
        ("$trp:x", false),
        ("/e:Envelope/e:Header", false),
        ("/e:Envelope/e:Header[2]/t:routing", false),
        ("/e:Envelope//e:Header/t:routing", false),
        ("//e:Header/t:routing", false),
        ("/e:Envelope/e:Body/t:routing", false),
        ("/e:Envelope/e:Header/t:routing/ancestor::*", false),
        ("/e:Envelope/e:Header/t:routing[//t:x]", false),
        ("$header/t:routing[../../e:Body]", false),
        ("$header/t:routing | $body/t:routing", false),
        ("concat($header/t:routing, name())", false),
        ("get-property('FAULT') or $header/t:routing", false),
    ] {
        let expression = SynapseXPath::compile(text, &namespaces).unwrap();
        assert_eq!(expression.reads_header_alone(), is_it, "{text}");
    }
}

#[test]
fn it_is_known_what_a_beginning_may_decide() {
    let soap = ("e".to_owned(), "http://schemas.xmlsoap.org/soap/envelope/".to_owned());
    for (text, is_it) in [
        ("//symbol = 'IBM'", true),
        ("//e:Body//symbol = 'IBM'", true),
        ("/e:Envelope/e:Body/order", true),
        ("$body/order[1]/@id != '1'", true),
        ("$trp:x = 'a'", false),
        ("$header/routing = 'x'", false),
        ("not($body/order)", false),
        ("get-property('x') = 'a' or //order", false),
    ] {
        let expression = SynapseXPath::compile(text, std::slice::from_ref(&soap)).unwrap();
        assert_eq!(expression.may_end_early(), is_it, "{text}");
    }
}

#[test]
fn variables_and_functions_read_the_message() {
    #[rustfmt::skip]
    let cases = [
        ("$ctx:uri.var.id",                         "42"),
        ("$ctx:uri.var.id + 1",                     "43"),
        ("$ctx:limit > 2",                          "true"),
        ("$ctx:missing",                            ""),
        ("$ctx:node//symbol",                       "IBM"),
        ("$trp:Content-Type",                       "text/xml"),
        ("$axis2:HTTP_METHOD = 'POST'",             "true"),
        ("$url:q",                                  "a b"),
        ("$func:p",                                 "true"),
        ("$sys:home",                               "/opt"),
        ("$body/order/symbol",                      "IBM"),
        ("$body/*[1]/symbol",                       "IBM"),
        ("$header/t:routing",                       "xadmin"),
        ("name($env)",                              "e:Envelope"),
        ("get-property('limit')",                   "3"),
        ("get-property('transport', 'Content-Type')", "text/xml"),
        ("get-property('axis2', 'HTTP_METHOD')",    "POST"),
        ("get-property('default', 'limit')",        "3"),
        ("get-property('node')//symbol",            "IBM"),
        ("count(get-property('node')//*)",          "5"),
        ("get-property('default', 'node')//symbol", "IBM"),
        ("get-property('SYSTEM_TIME')",             "1700000000789"),
        ("get-property('SYSTEM_DATE')",             "11/14/23, 10:13 PM"),
        ("get-property('SYSTEM_DATE', 'yyyy-MM-dd')", "2023-11-14"),
        ("get-property('SYSTEM_DATE', \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")", "2023-11-14T22:13:20.789Z"),
        ("get-property('default', 'SYSTEM_DATE', 'EEE, d MMM yyyy HH:mm:ss Z')", "Tue, 14 Nov 2023 22:13:20 +0000"),
        ("base64Encode('Penstock')",                "UGVuc3RvY2s="),
        ("base64Encode('\u{e9}', 'ISO-8859-1')",     "6Q=="),
        ("base64Encode('\u{e9}', 'UTF-8')",          "w6k="),
        ("base64Decode('UGVuc3RvY2s=')",            "Penstock"),
        ("base64Decode('6Q==', 'ISO-8859-1')",      "\u{e9}"),
        ("url-encode('a b&c=\u{e9}*-_.~')",          "a+b%26c%3D%C3%A9*-_.%7E"),
        ("concat(get-property('limit'), '/', //symbol)", "3/IBM"),
    ];
    for (text, expected) in cases {
        assert_eq!(string(text, SOAP), expected, "{text}");
    }
}

#[test]
fn functions_of_synapse_may_be_called_in_its_namespace() {
    let namespaces = [("syn".to_owned(), "http://ws.apache.org/ns/synapse".to_owned())];
    let compiles = |text: &str| SynapseXPath::compile(text, &namespaces).is_ok();
    assert!(compiles("syn:get-property('axis2', 'HTTP_METHOD') = syn:base64Encode('a')"));
    assert!(!compiles("syn:concat('a', 'b')"));
    assert!(!compiles("syn:upper-case('a')"));
}

#[test]
fn functions_of_xpath_2_are_called_by_their_prefix() {
    let xml = b"<all><a>x</a><a>Y</a><n>-1.5</n></all>";
    for (text, expect) in [
        ("fn:concat('a', 'b')", "ab"),
        ("fn:substring-after(//a, '')", "x"),
        ("fn:upper-case(//a)", "X"),
        ("lower-case('A\u{c4}')", "a\u{e4}"),
        ("ends-with('order', 'der')", "true"),
        ("fn:ends-with('order', 'ord')", "false"),
        ("fn:matches('order 17', '[0-9]{2}')", "true"),
        ("fn:matches('ORDER', 'order')", "false"),
        ("fn:matches('ORDER', 'order', 'i')", "true"),
        ("fn:replace('a-b-c', '-', '+')", "a+b+c"),
        ("fn:replace('order 17', '([a-z]+) ([0-9]+)', '$2: $1$3')", "17: order"),
        ("fn:replace('abc', '[A-B]', '\\$', 'i')", "$$c"),
        ("fn:replace('abc', 'x', 'y')", "abc"),
        ("fn:tokenize('a1b22c', '[0-9]+')[3]", "c"),
        ("count(fn:tokenize(',a,,B,', ','))", "5"),
        ("fn:string-join(fn:tokenize(',aXb', '[,x]', 'i'), '-')", "-a-b"),
        ("count(fn:tokenize('', ','))", "0"),
        ("fn:tokenize('a', ',')", "a"),
        ("fn:string-join(//a, '-')", "x-Y"),
        ("fn:string-join(//none, '-')", ""),
        ("fn:abs(//n)", "1.5"),
        ("fn:exists(//n)", "true"),
        ("fn:empty(//n)", "false"),
        ("fn:empty(//none)", "true"),
        ("fn:current-dateTime()", "2023-11-14T22:13:20.789Z"),
    ] {
        assert_eq!(string(text, xml), expect, "{text}");
    }
    for (text, error) in [
        ("fn:tokenize('a')", "unknown function"),
        ("fn:tokenize('a', ',?')", "matches an empty text"),
        ("matches('a', 'b')", "unknown function"),
        ("fn:get-property('a')", "unknown function"),
        ("fn:concat('a')", "takes at least 2 arguments"),
        ("fn:matches('a', '(')", "fn:matches(): "),
        ("fn:replace('a', '(', '')", "fn:replace(): "),
        ("fn:replace('a', 'x*', '')", "matches an empty text"),
        ("fn:replace('a', 'a', '$x')", "`$` and"),
        ("fn:replace('a', 'a', '\\')", "`$` and"),
    ] {
        let found = evaluate(text, xml).unwrap_err();
        assert!(found.contains(error), "{text}: {found}");
    }
    let bound = [("fn".to_owned(), "urn:mine".to_owned())];
    assert!(SynapseXPath::compile("fn:concat('a', 'b')", &bound).is_err());
    let other = [("f".to_owned(), "http://www.w3.org/2005/xpath-functions".to_owned())];
    assert!(SynapseXPath::compile("f:concat('a', 'b')", &other).is_ok());
}

#[test]
fn wrong_arguments_are_errors() {
    #[rustfmt::skip]
    let cases = [
        ("get-property('nowhere', 'x')",          "`nowhere`"),
        ("get-property('SYSTEM_DATE', 'J')",      "`J`"),
        ("base64Encode('x', 'EBCDIC')",           "`EBCDIC`"),
        ("base64Decode('*')",                     "base64Decode()"),
        ("$nowhere",                              "`$nowhere`"),
        ("$xyz:a",                                "`xyz`"),
        ("get-property()",                        "`get-property`"),
        ("get-property('limit')//x",              "node-set"),
    ];
    for (text, phrase) in cases {
        let error = evaluate(text, SOAP).unwrap_err();
        assert!(error.contains(phrase), "{text}: {error}");
    }
}

#[test]
fn a_message_without_an_envelope_is_a_body() {
    let plain = b"<order><symbol>SUN</symbol></order>";
    assert_eq!(string("$body/order/symbol", plain), "SUN");
    assert_eq!(string("count($header)", plain), "0");
    assert_eq!(string("count($env)", plain), "1");
}

#[test]
fn the_body_is_read_only_if_the_expression_needs_it() {
    #[rustfmt::skip]
    let cases = [
        ("$trp:routing",                      false),
        ("get-property('a') = 'b'",           false),
        ("concat($ctx:a, 'x')",               false),
        ("//order",                           true),
        ("$body/*",                           true),
        ("string()",                          true),
        ("$ctx:node/a",                       false),
        ("$ctx:node[../x = //y]",             true),
    ];
    for (text, reads) in cases {
        let expression = SynapseXPath::compile(text, &[]).unwrap();
        assert_eq!(expression.reads_body(), reads, "{text}");
    }
    let expression = SynapseXPath::compile("$trp:a = $ctx:b", &[]).unwrap();
    let properties: Vec<_> = expression.properties().collect();
    assert_eq!(properties, [(PropertyScope::Transport, "a"), (PropertyScope::Synapse, "b")]);
}

#[test]
fn parts_and_properties_are_charged_each_time() {
    let header = "<e:H/>".repeat(2_000);
    let envelope = format!(
        "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'>{header}<e:Body><a>1</a></e:Body></e:Envelope>"
    );
    let error = evaluate("count(//*[. = $body/a])", envelope.as_bytes()).unwrap_err();
    assert!(error.contains("steps"), "{error}");

    let items = format!("<r>{}</r>", "<i/>".repeat(1_000));
    let document = Document::parse(items.as_bytes()).unwrap();
    let expression = SynapseXPath::compile("count(//i[. = $ctx:uri.var.id])", &[]).unwrap();
    let pool = Pool::default();
    let budget = Budget::new(1_000_000, 1_000);
    let result = expression.evaluate(&document, &mut Soap(&document, &pool), &budget);
    assert!(matches!(result, Err(Error::Budget(BudgetExceeded::Bytes { .. }))), "{result:?}");
}
