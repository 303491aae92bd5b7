//! Problems of artefacts, and their remedies.

use crate::host::{ENDPOINTS, compile, diagnostics, echo, proxy};

#[test]
fn a_rejected_expression_says_what_to_write() {
    for (expression, help) in [
        (
            "concat('a', json-eval($.b))",
            "set a property to `json-eval($.b)` first, and write `$ctx:NAME` here",
        ),
        ("json-eval($.a) + 1", "write `${payload.a + 1}`"),
        ("json-eval($.a", "close the parenthesis"),
        ("json-eval($.a b)", "paths are like `$.a.b`, `$.a[0]`, `$['a b'].c`"),
        ("json-eval($.a[?(@.b = 1)])", "`$.a[?(@.b == 1)]`"),
        ("$.a.b", "write a JSONPath as `json-eval($.a.b)`"),
        ("concat('a', ${payload.b})", "must be the whole value: write `${...}` around it"),
        ("substring-befor('a', 'b')", "did you mean `substring-before`?"),
        ("matches('a', 'b')", "did you mean `fn:matches`?"),
        ("get-property()", "give it another number of arguments"),
        ("frobnicate('a')", "use functions of XPath 1.0"),
        ("//p:a", "xmlns:p=\"...\""),
        ("$total", "write `$ctx:total` for a property"),
        ("//a == 'b'", "write `=` instead of `==` in XPath"),
        ("//a &amp;&amp; //b", "write `and` instead of `&&` in XPath"),
    ] {
        let property = format!("<property name=\"p\" expression=\"{expression}\"/>");
        let found = diagnostics(&format!("<sequence name=\"s\">{property}</sequence>")).concat();
        let (_, shown) = found.split_once("help: ").unwrap_or_default();
        assert!(shown.contains(help), "{expression}: {found}");
    }
}

#[test]
fn what_is_not_served_of_expressions_and_endpoints_says_what_to_write() {
    let lookup = "<sequence name=\"s\"><property name=\"p\" expression=\"wso2:vault-lookup('a')\" xmlns:wso2=\"urn:v\"/></sequence>";
    let found = diagnostics(lookup).concat();
    assert!(found.contains("write `${configs.NAME}`"), "{found}");
    let address = |attribute: &str, child: &str| {
        let endpoint = format!("<address uri=\"http://a/\"{attribute}>{child}</address>");
        diagnostics(&format!("<endpoint name=\"e\">{endpoint}</endpoint>")).concat()
    };
    let found = address(" optimize=\"mtom\"", "");
    assert!(found.contains("warning: `optimize=\"mtom\"` has no effect"), "{found}");
    assert!(found.contains("an envelope without any is sent as it is"), "{found}");
    assert_eq!(address(" optimize=\"none\"", ""), "");
    let found = address("", "<enableAddressing version=\"1.0\"/>");
    assert!(found.contains("write `final` or `submission`"), "{found}");
    let found = address("", "<timeout>1</timeout>");
    assert!(found.contains("write `<duration>1</duration>` in it"), "{found}");
    let found = address("", "<enableAddressing separateListener=\"true\"/>");
    assert!(found.contains("warning: `separateListener` has no effect"), "{found}");
    let found =
        diagnostics("<proxy name=\"P\"><target><inSequence/></target><enableAddressing/></proxy>")
            .concat();
    assert!(found.contains("warning: `enableAddressing` of `proxy` has no effect"), "{found}");
    assert!(!found.contains("error"), "{found}");
}

#[test]
fn what_synapse_ignores_is_ignored_with_a_warning() {
    for (artefact, expect) in [
        ("<sequence name=\"s\"><call sorce=\"x\"/></sequence>", "`call` has no attribute `sorce`"),
        (
            "<sequence name=\"s\"><log><foo/></log><log levl=\"full\"/></sequence>",
            "`log` has no attribute `levl`: it is ignored, as in Micro Integrator\n    help: did you mean `level`?",
        ),
        (
            "<sequence name=\"s\"><switch source=\"$ctx:a\"><comment/><cases/></switch></sequence>",
            "`switch` has no child `cases`: it is ignored, as in Micro Integrator\n    help: did you mean `case`?",
        ),
        (
            "<sequence name=\"s\"><send><endpont key=\"a\"/></send></sequence>",
            "`send` has no child `endpont`",
        ),
        (
            "<sequence name=\"s\"><respond><log/></respond></sequence>",
            "`respond` has no child `log`",
        ),
        (
            "<proxy name=\"p\"><target endpoint=\"e\"><inSequnce/></target></proxy><endpoint name=\"e\"><default/></endpoint>",
            "`target` has no child `inSequnce`",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resource method=\"GET\"/></api>",
            "`resource` has no attribute `method`",
        ),
        (
            "<endpoint name=\"e\"><address uri=\"http://a/\" encodign=\"x\"/></endpoint>",
            "`address` has no attribute `encodign`",
        ),
        (
            "<endpoint name=\"e\"><address uri=\"http://a/\"><timeout><duraton>1</duraton></timeout></address></endpoint>",
            "`timeout` has no child `duraton`",
        ),
        (
            "<endpoint name=\"e\"><address uri=\"http://a/\"><authentication/></address></endpoint>",
            "`address` has no child `authentication`",
        ),
        (
            "<endpoint name=\"e\"><default/><propery name=\"a\" value=\"b\"/></endpoint>",
            "`endpoint` has no child `propery`",
        ),
        (
            "<sequence name=\"s\"><enrich><source type=\"inline\">{\"v\": \"${vars.v}\"}</source><target type=\"body\"/></enrich></sequence>",
            "`${...}` is not evaluated here",
        ),
        (
            "<endpoint name=\"e\"><http uri-template=\"http://a/${vars.v}\"/></endpoint>",
            "`${...}` is not evaluated here\n    help: set the property `uri.var.NAME` before",
        ),
        (
            "<api name=\"a\" context=\"/a\" version=\"1\" version-type=\"context\"><resource methods=\"GET\"/></api>",
            "`context` `/a` has no `{version}`",
        ),
    ] {
        let (program, found) = compile(artefact);
        let is_served = program.sequence("s").is_some()
            || program.endpoint("e").is_some()
            || !program.proxies().is_empty()
            || !program.apis().is_empty();
        assert!(is_served, "{artefact}");
        let is_warning =
            |text: &String| text.starts_with("test.xml:1:") && text.contains(": warning: ");
        assert!(found.iter().all(is_warning), "{found:#?}");
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

/// Synapse reads them, or cannot go on without knowing them.
#[test]
fn what_synapse_does_not_ignore_stays_an_error() {
    for (artefact, expect) in [
        ("<sequence name=\"s\"><lgo/></sequence>", "unknown mediator `lgo`"),
        ("<sequence name=\"s\"><log level=\"ful\"/></sequence>", "unknown value `ful` of `level`"),
        (
            "<endpoint name=\"e\"><adress uri=\"http://a/\"/></endpoint>",
            "the endpoint `adress` is not supported",
        ),
        (
            "<endpoint name=\"e\"><default/><http uri-template=\"http://a/\"/></endpoint>",
            "an endpoint has one kind; `http` is a second one",
        ),
        (
            "<proxy name=\"p\"><target><inSequnce/></target></proxy>",
            "`target` needs an `inSequence` or an `endpoint`",
        ),
        ("<proxy name=\"p\"/>", "`proxy` needs a `target`"),
        ("<api name=\"a\" context=\"/a\"><resurce/></api>", "`api` needs a `resource`"),
        (
            "<sequence name=\"s\"><foreach expression=\"//a\" continueLoopOnFailure=\"true\"><sequence/></foreach></sequence>",
            "`continueLoopOnFailure` is not supported",
        ),
        (
            "<sequence name=\"s\"><rewrite><rewriterule><condition><eqal/></condition><action type=\"remove\"/></rewriterule></rewrite></sequence>",
            "`condition` has no child `eqal`",
        ),
    ] {
        let (program, found) = compile(artefact);
        assert!(program.sequence("s").is_none(), "{artefact}");
        assert!(program.proxies().is_empty() && program.apis().is_empty(), "{artefact}");
        assert!(program.endpoint("e").is_none(), "{artefact}");
        let is_error = |text: &String| text.contains(": error: ") && text.contains(expect);
        assert!(found.iter().any(is_error), "{expect}\n{found:#?}");
    }
}

#[test]
fn what_is_not_known_is_reported_once() {
    let rules = "xmlns=\"http://wso2.org/carbon/rules\"";
    for (artefact, expect) in [
        (
            "<endpoint name=\"e\" template=\"t\" uri=\"http://e/\"><parameter name=\"p\" value=\"v\"/></endpoint>",
            "there is no endpoint template `t`",
        ),
        (
            "<sequence name=\"s\"><rewrite><rule><action fragment=\"host\" value=\"h\"/></rule></rewrite></sequence>",
            "`rewrite` has no child `rule`: it is ignored",
        ),
        (
            &format!("<sequence name=\"s\"><rule {rules}><source/></rule></sequence>"),
            "the mediator `rule` is not supported (use `switch`",
        ),
        (
            &format!("<sequence name=\"s\"><log {rules}/></sequence>"),
            "`log` is not in Synapse's namespace",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resource/><resurce methods=\"GET\"/></api>",
            "`api` has no child `resurce`",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resource/><handlers/></api>",
            "`handlers` of `api` is not supported (put an OpenAPI",
        ),
        (
            "<proxy name=\"p\"><target><inSequence/></target><enableSec/></proxy>",
            "`enableSec` of `proxy` is not supported",
        ),
        (
            "<proxy name=\"p\"><target><inSequence/></target><secure/></proxy>",
            "`proxy` has no child `secure`",
        ),
        (
            "<sequence name=\"s\"><log><property name=\"p\" expression=\"${properties.uri.var.a}\"/></log></sequence>",
            "`properties` needs a scope, `synapse` or `axis2`: write `properties.synapse.NAME`",
        ),
    ] {
        let found = diagnostics(artefact);
        let [one] = &found[..] else { panic!("{artefact}: {found:#?}") };
        assert!(one.replace("\n    help: ", " (").contains(expect), "{one}");
    }
}

#[test]
fn no_file_has_many_diagnostics() {
    let steps =
        |count: usize| format!("<sequence name=\"s\">{}</sequence>", "<lgo/>".repeat(count));
    let found = diagnostics(&steps(1_000));
    assert_eq!(found.len(), 1_000);
    let found = diagnostics(&steps(1_500));
    let [shown @ .., last] = &found[..] else { panic!("none") };
    assert_eq!(shown.len(), 999);
    assert!(last.contains("501 more diagnostics are not shown"), "{last}");
}

#[test]
fn attributes_without_a_meaning_there_are_no_errors() {
    let steps = "<property name=\"x\" action=\"remove\" type=\"STRING\" value=\"v\" expression=\"$ctx:a\"/>\
        <header name=\"To\" action=\"remove\" value=\"\" expression=\"$ctx:a\"/>\
        <log><property name=\"x\" value=\"v\" scope=\"default\" type=\"STRING\" action=\"set\"/></log>\
        <switch source=\"$ctx:a\"><case regex=\"a\" description=\"d\"/></switch>\
        <throwError/>";
    let api = format!(
        "<api name=\"a\" context=\"/a\" description=\"d\"><resource methods=\"GET\" description=\"d\">\
         <inSequence>{steps}</inSequence></resource></api>"
    );
    assert_eq!(diagnostics(&api), [""; 0]);
    let notes = "<description>d</description><comment>c</comment>";
    for template in ["<sequence/>", "<endpoint><default/></endpoint>"] {
        let template =
            format!("<template name=\"t\">{notes}<parameter name=\"p\"/>{template}</template>");
        assert_eq!(diagnostics(&template), [""; 0]);
    }
}

#[test]
fn what_older_endpoints_have_is_served_or_explained() {
    let of = |attribute: &str, part: &str| {
        format!(
            "<endpoint name=\"e\" {attribute}><address uri=\"http://a/\">{part}</address></endpoint>"
        )
    };
    let old = of("", "<suspendDurationOnFailure>60</suspendDurationOnFailure>");
    let (program, found) = compile(&old);
    let suspend = program.endpoint_at(program.endpoint("e").unwrap()).unwrap().suspend.clone();
    let suspend = suspend.unwrap();
    assert_eq!((suspend.initial_ms, suspend.factor), (Some(60_000), 1.0));
    assert!(found[0].contains("warning") && found[0].contains("60000"), "{found:?}");
    let found = diagnostics(&of("onError=\"h\"", ""));
    assert!(found[0].contains("`onError` of an endpoint is not supported"), "{found:?}");
    for (kind, help) in [("class", "key-expression"), ("serviceDynamicLoadbalance", "loadbalance")]
    {
        let found = diagnostics(&format!("<endpoint name=\"e\"><{kind}/></endpoint>"));
        assert!(found[0].contains("not supported") && found[0].contains(help), "{found:?}");
    }
}

#[test]
fn what_an_endpoint_cannot_do_is_said_by_name() {
    for (endpoint, expect) in [
        (
            "<loadbalance><endpoint key=\"a\"/></loadbalance><session type=\"soap\"/>",
            "sessions of endpoints",
        ),
        ("<dynamicLoadbalance/>", "members of a cluster are not discovered"),
        (
            "<http uri-template=\"http://h\"><authentication><oauth/></authentication></http>",
            "`oauth` has no grant",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials><clientId>a</clientId>\
             <tokenUrl>http://t/</tokenUrl></clientCredentials></oauth></authentication></http>",
            "`clientCredentials` needs a `clientSecret`",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientId>{$ctx:id}</clientId></clientCredentials></oauth></authentication></http>",
            "`clientId` is an expression: tokens are shared by all messages",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientSecret>of-${configs.none}</clientSecret></clientCredentials></oauth></authentication></http>",
            "`configs.none` has no value",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientSecret>of-${vars.a}</clientSecret></clientCredentials></oauth></authentication></http>",
            "`clientSecret` is an expression",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <proxyConfigs/></clientCredentials></oauth></authentication></http>",
            "`proxyConfigs` of `oauth` is not supported",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><basicAuth><username>u</username></basicAuth></authentication></http>",
            "`basicAuth` needs a `password`",
        ),
        (
            "<address uri=\"http://h\"/><property name=\"a\" expression=\"$body//a\"/>",
            "expressions of an endpoint cannot read the body",
        ),
        (
            "<failover><endpoint><address uri=\"http://h\"/><property name=\"a\" value=\"1\"/></endpoint></failover>",
            "properties of members are not supported",
        ),
        (
            "<loadbalance algorithm=\"WeightedRoundRobin\"><endpoint><address uri=\"http://h\"/>\
             <property name=\"loadbalance.weight\" value=\"0\"/></endpoint></loadbalance>",
            "`loadbalance.weight` is `0`, not a number above zero",
        ),
        (
            "<loadbalance><endpoint><address uri=\"http://h\"/><property name=\"loadbalance.weight\" value=\"2\"/>\
             </endpoint></loadbalance>",
            "warning: the weights of the members have no effect",
        ),
        (
            "<address uri=\"http://h\"><suspendOnFailure><progressionFactor>inf</progressionFactor></suspendOnFailure></address>",
            "`progressionFactor` is `inf`",
        ),
        (
            "<address uri=\"http://h\"><retryConfig><codes/></retryConfig></address>",
            "`retryConfig` has no child",
        ),
    ] {
        let found = diagnostics(&format!("{ENDPOINTS}<endpoint name=\"e\">{endpoint}</endpoint>"));
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

#[test]
fn endpoint_templates_and_groups_that_multiply_are_rejected() {
    let template = |name: &str, endpoint: &str| {
        format!("<template name=\"{name}\"><endpoint{endpoint}</endpoint></template>")
    };
    let address = format!("><!--{}--><address uri=\"$uri\"/>", "x".repeat(4_096));
    let compiled = |templates: &str, uri: &str| {
        let first = format!("<endpoint name=\"e\" template=\"t0\" uri=\"{uri}\"/>");
        diagnostics(&format!("{templates}{}{first}", template("last", &address))).join("\n")
    };
    // Each level has 64 times as many endpoints as the one before.
    let wide = |name: &str, next: &str| {
        let member = format!("<endpoint template=\"{next}\" uri=\"http://h/\"/>");
        template(name, &format!("><failover>{}</failover>", member.repeat(64)))
    };
    let levels = [wide("t0", "t1"), wide("t1", "t2"), wide("t2", "last")].concat();
    let found = compiled(&levels, "http://h/");
    assert!(found.contains("too much memory"), "{found}");
    // Each level writes its address 64 times into the next one.
    let long = |name: &str, next: &str| {
        template(name, &format!(" template=\"{next}\" uri=\"{}\">", "$uri".repeat(64)))
    };
    let levels = [long("t0", "t1"), long("t1", "t2"), long("t2", "last")].concat();
    let found = compiled(&levels, &format!("http://h/{}", "x".repeat(100)));
    assert!(found.contains("too much memory"), "{found}");
    let found = compiled(&template("t0", " template=\"t0\" uri=\"u\">"), "http://h/");
    assert!(found.contains("nested deeper than 8"), "{found}");
    let group = |name: &str, next: &str| {
        let member = format!("<endpoint key=\"{next}\"/>");
        format!(
            "<endpoint name=\"{name}\"><loadbalance>{}</loadbalance></endpoint>",
            member.repeat(64)
        )
    };
    let groups = [group("g0", "g1"), group("g1", "g2"), group("g2", "a")].concat();
    let ran = proxy(&groups, " endpoint=\"g0\">", &echo);
    assert!(ran.failure().message.contains("more than 256 endpoints"), "{:?}", ran.failure());
}

#[test]
fn an_address_that_no_message_can_be_sent_to_is_reported() {
    for (endpoint, expected) in [
        ("address uri=\"jms:/q?a=b\"", "the transport `jms` is not supported"),
        ("address uri=\"local:///services/x\"", "call the sequence of the service"),
        ("address uri=\"vfs:file:///x\"", "the transport `vfs` is not supported"),
        ("address uri=\"mailto:a@b\"", "the transport `mailto` is not supported"),
        ("http uri-template=\"ftp://{uri.var.a}\"", "the transport `ftp` is not supported"),
        ("address uri=\"localhost:1\"", "write `http://host/path`"),
        ("address uri=\"/x\"", "`/x` is not an absolute URL"),
        ("address uri=\"http://localhost:99999/\"", "has a malformed host or port"),
        ("http uri-template=\"http://loc alhost/{uri.var.a}\"", "has a malformed host or port"),
        ("address uri=\"http:///x\"", "has a malformed host or port"),
        ("address uri=\"http://a:b@c/\"", "configure `authentication`"),
        ("address uri=\"HTTPS://a:1/x?y\"", ""),
        ("address uri=\"http://[::1]/x\"", ""),
        ("address uri=\"http://[::1]:8080\"", ""),
        ("http uri-template=\"http://a:8{uri.var.a}/x\"", ""),
        ("http uri-template=\"{uri.var.a}/x\"", ""),
        ("http uri-template=\"http{uri.var.a}://x\"", ""),
        ("http uri-template=\"legacy-encoding:http://a/{uri.var.a}\"", ""),
    ] {
        let found = diagnostics(&format!("<endpoint name=\"e\"><{endpoint}/></endpoint>")).concat();
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{endpoint}: {found}"
        );
    }
}
