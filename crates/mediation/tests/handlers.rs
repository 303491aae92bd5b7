//! Failures, and who handles them.

use std::sync::Arc;

use crate::host;
use crate::host::{
    ENDPOINTS, Outcome, Ran, drive_run, echo, flow, program, proxy, refuse, request, response,
};
use penstock_mediation::{Answer, Code, Failure, Flow, PropertyScope, PropertyValue, Run};
use xpath::Budget;

/// A handler that logs the error and runs `then`.
fn handler(name: &str, then: &str) -> String {
    format!(
        "<sequence name=\"{name}\"><log level=\"custom\"><property name=\"{name}\" expression=\"$ctx:ERROR_CODE\"/>\
         <property name=\"m\" expression=\"$ctx:ERROR_MESSAGE\"/></log>{then}</sequence>"
    )
}

#[test]
fn the_code_of_a_thrown_error_is_its_type() {
    let target =
        "><inSequence><throwError type=\"STOCK\" errorMessage=\"none left\"/></inSequence>";
    let fault = handler("fault", "<respond/>");
    assert_eq!(proxy(&fault, target, &echo).log, ["fault = STOCK, m = none left"]);
}

#[test]
fn the_failure_of_an_endpoint_has_its_code_and_the_message_that_was_sent() {
    let fault = handler("f", "<respond/>");
    let target = " endpoint=\"a\" faultSequence=\"f\">";
    let returned = |_: &str, body: &str| {
        let failure = Failure::new(Code::NOT_CONNECTED, "refused");
        Some(Answer::Failed(failure, Some(request(body))))
    };
    let ran = proxy(&fault, target, &returned);
    assert_eq!(ran.log, ["f = 101503, m = refused"]);
    assert_eq!(ran.body(), "1");
}

/// The code of a call's failure, and its text, if the endpoint fails with `code`.
fn failed(call: &str, code: u32) -> String {
    let fault = handler("f", "<respond/>");
    let target = format!(" faultSequence=\"f\"><inSequence>{call}</inSequence>");
    let fails = move |_: &str, _: &str| {
        let failure = Failure::new(Code(code), "refused").with_detail("127.0.0.1:1".to_owned());
        Some(Answer::Failed(failure, None))
    };
    proxy(&fault, &target, &fails).log.join("; ")
}

#[test]
fn a_blocking_call_fails_with_a_code_of_its_own() {
    let call = |attributes: &str| format!("<call{attributes}><endpoint key=\"a\"/></call>");
    let (other, blocking) = (call(""), call(" blocking=\"true\""));
    assert_eq!(failed(&other, 101_503), "f = 101503, m = refused");
    for code in [101_503, 101_504, 303_001, 500_000] {
        assert_eq!(failed(&blocking, code), "f = 401001, m = refused", "{code}");
    }
    assert_eq!(failed(&blocking, 503_001), "f = 503001, m = refused", "a limit of the host");
    let stored = blocking.replace("</call>", "<target type=\"variable\">v</target></call>");
    assert_eq!(failed(&stored, 101_503), "f = 401001, m = refused");
}

#[test]
fn a_status_that_is_an_error_is_a_failure_of_what_blocks() {
    let fault = "<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"><soap:Body><soap:Fault>\
                 <faultcode>soap:Server</faultcode><faultstring>none left</faultstring></soap:Fault></soap:Body></soap:Envelope>";
    let endpoint = "<endpoint key=\"a\"/>";
    let call = format!("<call blocking=\"true\">{endpoint}</call>");
    let part =
        format!("<call blocking=\"true\">{endpoint}<target type=\"variable\">v</target></call>");
    let callout =
        format!("<callout>{endpoint}<source type=\"envelope\"/><target key=\"v\"/></callout>");
    let excluded =
        "<property name=\"non.error.http.status.codes\" value=\"400, 404\" scope=\"axis2\"/>";
    let rows = [
        (call.clone(), 404, "{}", "401001 Transport error: 404, 404"),
        (call.clone(), 500, fault, "401001 Transport error: 500, 500"),
        (call.clone(), 302, "{}", "401001 Transport error: 302, 302"),
        (call.clone(), 202, "{}", "none"),
        (part.clone(), 503, "{}", "401001 Transport error: 503, 503"),
        (part, 500, fault, "401001 none left, 500"),
        (callout.clone(), 503, "{}", "401000 Transport error: 503, 503"),
        (callout.clone(), 500, fault, "401000 none left, 500"),
        (callout.clone(), 200, "{}", "none"),
        (format!("{excluded}{call}"), 404, "{}", "none"),
        (format!("{excluded}{callout}"), 400, fault, "none"),
        (format!("{excluded}{call}"), 403, "{}", "401001 Transport error: 403, 403"),
        (format!("<call>{endpoint}</call>"), 500, fault, "none"),
    ];
    for (steps, status, body, expected) in rows {
        let returns = move |_: &str, _: &str| {
            let mut response = response(body);
            let status = PropertyValue::new(status.to_string());
            response.set(PropertyScope::Axis2, "HTTP_SC", status, &Budget::default()).unwrap();
            Some(Answer::Response(response))
        };
        let handler = "<sequence name=\"f\"><log level=\"custom\" separator=\"\"><property name=\"f\" \
            expression=\"fn:concat($ctx:ERROR_CODE, ' ', $ctx:ERROR_MESSAGE, ', ', $axis2:HTTP_SC)\"/></log><respond/></sequence>";
        let target = format!(
            " faultSequence=\"f\"><inSequence>{steps}<log level=\"custom\"><property name=\"f\" value=\"none\"/>\
             </log><respond/></inSequence>"
        );
        let ran = proxy(handler, &target, &returns);
        assert_eq!(ran.log, [format!("f = {expected}")], "{steps} {status}");
        // The error handler of a call has the response.
        if steps == call && expected != "none" {
            assert_eq!(ran.body(), body, "{status}");
        }
    }
}

#[test]
fn a_suspended_endpoint_of_a_wsdl_and_a_message_without_address_have_codes() {
    let wsdl = "<call><endpoint><wsdl service=\"S\" port=\"P\"><definitions xmlns=\"http://schemas.xmlsoap.org/wsdl/\">\
        <service name=\"S\"><port name=\"P\"><address xmlns=\"http://schemas.xmlsoap.org/wsdl/soap/\" \
        location=\"http://w/\"/></port></service></definitions></wsdl></endpoint></call>";
    assert_eq!(failed(wsdl, 303_001), "f = 303002, m = refused");
    assert_eq!(failed(wsdl, 101_503), "f = 101503, m = refused");
    let nowhere = failed("<call><endpoint><default/></endpoint></call>", 0);
    assert!(nowhere.starts_with("f = 401003, m = the message has no address"), "{nowhere}");
}

#[test]
fn the_message_of_an_error_does_not_name_addresses_and_its_detail_does() {
    let fault = "<sequence name=\"f\"><log level=\"custom\"><property name=\"d\" expression=\"$ctx:ERROR_DETAIL\"/>\
        <property name=\"e\" expression=\"$ctx:ERROR_EXCEPTION\"/></log><respond/></sequence>";
    let fails = |_: &str, _: &str| {
        let failure = Failure::new(Code::NOT_CONNECTED, "refused");
        Some(Answer::Failed(failure.with_detail("127.0.0.1:1".to_owned()), None))
    };
    let ran = proxy(fault, " endpoint=\"a\" faultSequence=\"f\">", &fails);
    assert_eq!(ran.log, ["d = 127.0.0.1:1, e = refused: 127.0.0.1:1"]);
}

#[test]
fn handlers_of_each_other_that_fail_do_not_do_so_for_ever() {
    let throwing = |name: &str, handler: &str| {
        format!(
            "<sequence name=\"{name}\" onError=\"{handler}\"><log level=\"custom\"/>\
             <throwError type=\"AGAIN\" errorMessage=\"again\"/></sequence>"
        )
    };
    for (first, second) in [("a", "a"), ("a", "b")] {
        let artefacts = throwing("a", second) + &throwing("b", first);
        let ran = proxy(&artefacts, " inSequence=\"a\">", &echo);
        assert_eq!(ran.failure().message, "again", "{first} {second}");
        assert_eq!(ran.log.len(), 65, "{first} {second}");
    }
}

#[test]
fn a_failure_in_a_handler_goes_to_the_next_one_outside() {
    let throw = |name: &str| format!("<throwError type=\"{name}\" errorMessage=\"{name}\"/>");
    let artefacts = format!(
        "<sequence name=\"outer\" onError=\"second\"><sequence key=\"inner\"/></sequence>\
         <sequence name=\"inner\" onError=\"first\">{}</sequence>{}{}{}",
        throw("ONE"),
        handler("first", &throw("TWO")),
        handler("second", &throw("THREE")),
        handler("last", "<respond/>"),
    );
    let target = " inSequence=\"outer\" faultSequence=\"last\">";
    let ran = proxy(&artefacts, target, &echo);
    assert_eq!(
        ran.log,
        ["first = ONE, m = ONE", "second = TWO, m = TWO", "last = THREE, m = THREE"]
    );
    assert_eq!(ran.body(), "1");
}

#[test]
fn a_handler_outlives_a_call_and_ends_with_its_sequence() {
    let artefacts = format!(
        "<sequence name=\"s\" onError=\"inner\"><call><endpoint key=\"a\"/></call></sequence>{}{}",
        handler("inner", "<respond/>"),
        handler("outer", "<respond/>")
    );
    let target = format!(
        " faultSequence=\"outer\"><inSequence><sequence key=\"s\"/>{}</inSequence>",
        "<call><endpoint key=\"b\"/></call>"
    );
    let only = |bad: &'static str| {
        move |url: &str, body: &str| if url == bad { refuse(url, body) } else { echo(url, body) }
    };
    let log = |bad| proxy(&artefacts, &target, &only(bad)).log;
    assert_eq!(log("http://a/"), ["inner = 101503, m = refused"]);
    assert_eq!(log("http://b/"), ["outer = 101503, m = refused"]);
}

#[test]
fn the_template_that_fails_has_the_handler_of_its_call() {
    let artefacts = format!(
        "<template name=\"t\"><sequence><throwError type=\"T\" errorMessage=\"t\"/></sequence></template>{}",
        handler("h", "<respond/>")
    );
    let target = "><inSequence><call-template target=\"t\" onError=\"h\"/></inSequence>";
    assert_eq!(proxy(&artefacts, target, &echo).log, ["h = T, m = t"]);
}

#[test]
fn the_handler_of_a_template_comes_before_that_of_its_call() {
    let artefacts = format!(
        "<template name=\"t\" onError=\"own\"><sequence><throwError type=\"T\" errorMessage=\"t\"/></sequence></template>{}{}",
        handler("own", "<throwError type=\"U\" errorMessage=\"u\"/>"),
        handler("f", "<respond/>")
    );
    let target = " faultSequence=\"f\"><inSequence><call-template target=\"t\"/></inSequence>";
    assert_eq!(proxy(&artefacts, target, &echo).log, ["own = T, m = t", "f = U, m = u"]);
    let called = target.replace("target=\"t\"", "target=\"t\" onError=\"f\"");
    assert_eq!(proxy(&artefacts, &called, &echo).log, ["own = T, m = t", "f = U, m = u"]);
}

#[test]
fn an_inline_sequence_has_its_handler() {
    let artefacts = handler("h", "<respond/>");
    let target =
        "><inSequence onError=\"h\"><throwError type=\"T\" errorMessage=\"t\"/></inSequence>";
    assert_eq!(proxy(&artefacts, target, &echo).log, ["h = T, m = t"]);
}

#[test]
fn the_client_gets_the_failure_whose_handler_does_not_respond() {
    let ran = |handler: &str, endpoint: &host::Endpoint| {
        let target = format!("><endpoint key=\"a\"/><faultSequence>{handler}</faultSequence>");
        proxy("", &target, endpoint)
    };
    let log = "<log level=\"custom\"><property name=\"a\" value=\"b\"/></log>";
    let call = "<call><endpoint key=\"b\"/></call>";
    let only_b = |url: &str, body: &str| {
        if url == "http://b/" { echo(url, body) } else { refuse(url, body) }
    };
    let again = format!("{log}<throwError type=\"AGAIN\" errorMessage=\"again\"/>");
    let called = format!("{call}<drop/>");
    for handler in ["", log, call, "<drop/>", &called] {
        assert_eq!(ran(handler, &only_b).failure().code, Code::NOT_CONNECTED, "{handler}");
    }
    assert_eq!(ran(&again, &only_b).failure().message, "again");
    let copy =
        "<property name=\"OUT_ONLY\" value=\"true\"/><send><endpoint key=\"b\"/></send><drop/>";
    let sent = ran(copy, &only_b);
    assert!(matches!(sent.outcome, Outcome::Accepted), "somebody else has it: {sent:?}");
    let responded = ran("<send><endpoint key=\"b\"/></send>", &only_b);
    assert!(responded.body().contains("http://b/"), "{responded:?}");
}

#[test]
fn a_failure_without_a_handler_has_its_place() {
    let target =
        "><inSequence><throwError type=\"T\" errorMessage=\"{concat('a', 'b')}\"/></inSequence>";
    let ran = proxy("", target, &echo);
    assert_eq!(ran.failure().message, "ab");
    assert!(ran.failure().place.as_ref().unwrap().starts_with("throwError at test.xml:1:"));
}

#[test]
fn a_time_out_that_is_discarded_reaches_no_handler_and_the_client() {
    let artefacts = format!(
        "<endpoint name=\"slow\"><address uri=\"http://slow/\"><timeout><duration>10</duration>\
         <responseAction>discard</responseAction></timeout></address></endpoint>{}",
        handler("f", "<respond/>")
    );
    let late = |_: &str, _: &str| {
        Some(Answer::Failed(Failure::new(Code::TIMEOUT, "no response in time"), None))
    };
    let ran = proxy(&artefacts, " endpoint=\"slow\" faultSequence=\"f\">", &late);
    assert!(ran.log.is_empty() && ran.failure().code == Code::TIMEOUT, "{ran:?}");
}

#[test]
fn a_sequence_that_calls_itself_fails() {
    let main = "<sequence name=\"main\"><sequence key=\"main\"/></sequence>";
    let ran = proxy(main, " inSequence=\"main\">", &echo);
    assert!(ran.failure().message.contains("nested deeper"), "{ran:?}");
}

#[test]
fn a_loop_of_calls_ends_with_the_budget() {
    let again =
        "<sequence name=\"again\"><send receive=\"again\"><endpoint key=\"a\"/></send></sequence>";
    let program = program(&format!("{ENDPOINTS}{again}"));
    let flow = Flow { request: program.sequence("again"), ..Flow::default() };
    let budget = Budget::new(10_000, 1 << 20);
    let run = Run::new(Arc::clone(&program), flow, request("1"), budget);
    let ran = drive_run(run, &|_, _| Some(Answer::Response(response("1"))));
    assert!(ran.failure().message.contains("10000 steps"), "{:?}", ran.outcome);
    assert!(ran.sent.len() < 300, "{}", ran.sent.len());
}

/// Steps of an `inSequence` that make a property of twice the length, several times.
fn doubled(name: &str, times: usize) -> String {
    let double =
        format!("<property name=\"{name}\" expression=\"concat($ctx:{name}, $ctx:{name})\"/>");
    format!("<property name=\"{name}\" value=\"0123456789abcdef\"/>{}", double.repeat(times))
}

/// The response of a proxy with these steps, and these in its error handler, to a message that is larger than its
/// budget.
fn spent(steps: &str, handled: &str) -> Ran {
    let answers = "<payloadFactory media-type=\"json\"><format>{\"code\":\"$1\",\"why\":\"$2\"}</format>\
        <args><arg expression=\"$ctx:ERROR_CODE\"/><arg expression=\"$ctx:ERROR_MESSAGE\"/></args></payloadFactory>\
        <respond/>";
    let program = program(&format!(
        "{ENDPOINTS}<sequence name=\"again\">{}</sequence><proxy name=\"P\"><target><inSequence>{steps}</inSequence>\
         <faultSequence>{handled}{answers}</faultSequence></target></proxy>",
        "<send receive=\"again\"><endpoint key=\"a\"/></send>"
    ));
    let body = format!("[{}1]", "1,".repeat(20_000));
    let budget = Budget::new(100_000, 64 * 1024);
    let run = Run::new(Arc::clone(&program), flow(&program), request(&body), budget);
    drive_run(run, &|_, _| Some(Answer::Response(response("1"))))
}

#[test]
fn the_error_handler_of_a_message_that_used_up_its_budget_responds() {
    for (steps, why) in [
        ("<property name=\"a\" expression=\"json-eval($[0])\"/>", "more than 65536 bytes"),
        ("<property name=\"a\" expression=\"count(//*)\"/>", "more than 65536 bytes"),
        (&doubled("a", 20), "more than 65536 bytes"),
        (&["a", "b", "c", "d"].map(|name| doubled(name, 10)).concat(), "more than 65536 bytes"),
        ("<sequence key=\"again\"/>", "100000 steps"),
    ] {
        let body = spent(steps, "").body();
        assert!(body.starts_with("{\"code\":\"0\",\"why\":") && body.contains(why), "{body}");
    }
}

#[test]
fn what_error_handlers_get_beyond_the_budget_has_an_end() {
    let ran = spent(&doubled("a", 20), &doubled("b", 20));
    assert!(ran.failure().message.starts_with("evaluation stopped"), "{:?}", ran.outcome);
}

#[test]
fn a_detail_of_a_fault_keeps_its_elements() {
    let target = "><inSequence><makefault version=\"soap11\"><code value=\"x:Client\"/><reason value=\"r\"/>\
                  <detail><d xmlns=\"urn:d\">1</d></detail></makefault><respond/></inSequence>";
    let body = proxy("", target, &echo).body();
    assert!(body.contains("<detail><d xmlns=\"urn:d\">1</d></detail>"), "{body}");
}
