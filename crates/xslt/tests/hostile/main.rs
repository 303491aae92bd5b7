//! Invalid and hostile stylesheets and documents, on a stack of 2 MiB.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
mod cases;

use cases::{all, sheet, transform};
use xslt::ErrorKind::{self, Invalid, Limit, Resource, Transform, Unsupported};
use xslt::{Budget, Error, NoResolver, Options, Params, Stylesheet};

const STACK_BYTES: usize = 2 << 20;

fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

/// The error of a stylesheet with the source `<a><b/></a>`.
fn error_of(text: &str) -> Error {
    let text = sheet(text);
    on_a_small_stack(move || transform(&text, "<a><b/></a>").unwrap_err())
}

/// Stylesheets with the kind of their error and a phrase of its message.
#[track_caller]
fn check(rows: &[(&str, ErrorKind, &str)]) {
    for (text, kind, phrase) in rows {
        let error = error_of(text);
        assert_eq!(error.kind, *kind, "{text}\n  {error}");
        assert!(error.to_string().contains(phrase), "{text}\n  wanted {phrase}\n  got {error}");
    }
}

/// Runs a stylesheet with a budget.
fn run(inside: &str, source: &str, budget: &Budget) -> Result<String, Error> {
    let compiled = Stylesheet::compile(sheet(inside).as_bytes(), &NoResolver).unwrap();
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    let mut out = Vec::new();
    compiled.transform_with(&source, &Options::new(), budget, &mut out)?;
    Ok(cases::bare(&String::from_utf8(out).unwrap()))
}

const STEPS: u64 = 2_000_000;
const BYTES: u64 = 64 << 20;

#[test]
fn invalid_stylesheets_are_rejected() {
    check(&[
        (
            "<xsl:stylesheet xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            Invalid,
            "`version` is missing",
        ),
        ("<xsl:output method='xhtml'/>", Unsupported, "xhtml"),
        ("<xsl:output method='html' version='9'/>", Unsupported, "version 9"),
        (
            "<xsl:template match='/'><xsl:for-each-group select='a'/></xsl:template>",
            Unsupported,
            "xsl:for-each-group",
        ),
        ("<xsl:function name='f'/>", Unsupported, "xsl:function"),
        ("<xsl:template match='/' as='x'/>", Unsupported, "`as`"),
        ("<xsl:template match='/'><xsl:value-of select='a[' /></xsl:template>", Invalid, "line 1"),
        ("<xsl:template match='/'><xsl:value-of select='$no'/></xsl:template>", Invalid, "no"),
        (
            "<xsl:template match='/'><xsl:value-of select='upper-case(a)'/></xsl:template>",
            Invalid,
            "upper-case",
        ),
        (
            "<xsl:template match='/'><xsl:call-template name='no'/></xsl:template>",
            Invalid,
            "template `no`",
        ),
        (
            "<xsl:template match='/'><xsl:for-each select='a'><xsl:sort lang='?'/></xsl:for-each></xsl:template>",
            Invalid,
            "line 1, column 129: ",
        ),
        (
            "<xsl:template match='/'><xsl:for-each select='a'><xsl:sort lang='{name()}!'/></xsl:for-each></xsl:template>",
            Transform,
            "`!`",
        ),
        ("<xsl:import href='other.xslt'/>", Resource, "`other.xslt`"),
        ("<xsl:template match='/'><a b='{c'/></xsl:template>", Invalid, "no matching"),
        (
            "<xsl:stylesheet version=\"1.0\" default-mode=\"m\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            Unsupported,
            "`default-mode`",
        ),
        (
            "<xsl:stylesheet version=\"1.0\" exclude-result-prefixes=\"no\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"/>",
            Invalid,
            "`no` in `exclude-result-prefixes`",
        ),
        (
            "<xsl:template match='/'><o xsl:extension-element-prefixes='#default no'/></xsl:template>",
            Invalid,
            "`no` in `extension-element-prefixes`",
        ),
        ("<xsl:variable name='v'/><xsl:key name='k' match='a[$v]' use='b'/>", Invalid, "$v"),
        ("<xsl:variable name='v'/><xsl:key name='k' match='a' use='$v'/>", Invalid, "$v"),
    ]);
}

#[test]
fn nothing_outside_is_read() {
    check(&[(
        "<xsl:template match='/'><xsl:copy-of select=\"document('file:///etc/passwd')\"/></xsl:template>",
        Resource,
        "`file:///etc/passwd`",
    )]);
}

#[test]
fn endless_and_exponential_sheets_are_stopped() {
    check(&[
        (
            "<xsl:key name='k' match='b' use=\"key('k', 'x')\"/><xsl:template match='/'><xsl:value-of select=\"key('k', 'x')\"/></xsl:template>",
            Limit,
            "depends on itself",
        ),
        (
            "<xsl:template match='*'><xsl:apply-templates select='.'/></xsl:template>",
            Limit,
            "recursion",
        ),
        (
            "<xsl:template name='t' match='/'><xsl:call-template name='t'/></xsl:template>",
            Limit,
            "recursion",
        ),
        (
            "<xsl:template name='t' match='/'><x><xsl:if test='1'><xsl:for-each select='.'><xsl:call-template name='t'/></xsl:for-each></xsl:if></x></xsl:template>",
            Limit,
            "recursion",
        ),
        (
            "<xsl:template name='t' match='/'><xsl:variable name='v'><xsl:call-template name='t'/></xsl:variable></xsl:template>",
            Limit,
            "recursion",
        ),
        (
            "<xsl:variable name='a' select='$b'/><xsl:variable name='b' select='$a'/><xsl:template match='/'><xsl:value-of select='$a'/></xsl:template>",
            Invalid,
            "depends on itself",
        ),
        (
            "<xsl:variable name='a'><xsl:call-template name='t'/></xsl:variable><xsl:template name='t'><xsl:value-of select='$a'/></xsl:template><xsl:template match='/'><xsl:value-of select='$a'/></xsl:template>",
            Transform,
            "depends on itself",
        ),
        (
            "<xsl:template name='t' match='/'><xsl:param name='s' select=\"'0123456789'\"/><xsl:call-template name='t'><xsl:with-param name='s' select='concat($s, $s)'/></xsl:call-template></xsl:template>",
            Limit,
            "bytes",
        ),
        (
            "<xsl:variable name='l' select=\"'0123456789'\"/><xsl:variable name='ll' select='concat($l, $l, $l, $l, $l, $l, $l, $l, $l, $l)'/><xsl:variable name='lll' select='concat($ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll, $ll)'/><xsl:variable name='long' select='concat($lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll, $lll)'/>\
             <xsl:template match='/'><xsl:call-template name='t'><xsl:with-param name='n' select='60'/></xsl:call-template></xsl:template><xsl:template name='t'><xsl:param name='n'/><xsl:if test='$n &gt; 0'><xsl:value-of select='$long'/><xsl:call-template name='t'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template><xsl:call-template name='t'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template></xsl:if></xsl:template>",
            Limit,
            "stopped",
        ),
    ]);
}

#[test]
fn a_run_ends_at_the_limits_of_its_budget() {
    let text = "<xsl:template match='/'><xsl:variable name='v' select=\"'0123456789'\"/><o><xsl:for-each select='//b'>\
         <xsl:value-of select='count(//*)'/></xsl:for-each><xsl:value-of select='$v'/></o></xsl:template>";
    let source = "<a><b/><b/></a>";
    let compiled = Stylesheet::compile(sheet(text).as_bytes(), &NoResolver).unwrap();
    let document = xml::Document::parse(source.as_bytes()).unwrap();
    let kind = |budget: Budget| {
        let mut out = b"kept".to_vec();
        let done = compiled.transform_with(&document, &Options::new(), &budget, &mut out);
        assert!(done.is_ok() || out == b"kept");
        done.map_err(|error| error.kind)
    };
    assert_eq!(kind(Budget::default()), Ok(()));
    for steps in [0, 1, 5, 20] {
        assert_eq!(kind(Budget::new(steps, BYTES)), Err(Limit), "{steps}");
    }
    for bytes in [0, 10, 30] {
        assert_eq!(kind(Budget::new(STEPS, bytes)), Err(Limit), "{bytes}");
    }
    // One budget may serve several runs.
    let shared = Budget::new(60, BYTES);
    let mut out = Vec::new();
    let runs =
        (0..10).map(|_| compiled.transform_with(&document, &Options::new(), &shared, &mut out));
    let done: Vec<bool> = runs.map(|done| done.is_ok()).collect();
    assert_eq!((done.first(), done.last()), (Some(&true), Some(&false)), "{done:?}");
}

#[test]
fn keys_of_sorts_and_of_indexes_are_charged_and_those_of_sorts_are_released() {
    let source = format!("<r><t>{}</t>{}</r>", "x".repeat(10_000), "<i/>".repeat(200));
    let kind = |inside: &str, bytes: u64| {
        run(inside, &source, &Budget::new(STEPS, bytes)).map(drop).map_err(|error| error.kind)
    };
    let sort =
        "<xsl:for-each select='//i'><xsl:sort select='concat(/r/t,position())'/></xsl:for-each>";
    let key = "<xsl:key name='k' match='i' use='concat(/r/t,generate-id())'/>";
    let uses = "<o><xsl:value-of select=\"count(key('k','x'))\"/></o>";
    let template = |inside: &str| format!("<xsl:template match='/'>{inside}</xsl:template>");
    for inside in [template(sort), format!("{key}{}", template(uses))] {
        assert_eq!(kind(&inside, 1_900_000), Err(Limit), "{inside}");
        assert_eq!(kind(&inside, 6_400_000), Ok(()), "{inside}");
    }
}

#[test]
fn work_on_text_is_charged() {
    let source = format!("<r><t>{}</t>{}</r>", "x".repeat(100_000), "<i/>".repeat(300));
    for test in [
        "translate($s,'a','b')='x'",
        "substring($s,99999)='x'",
        "contains($s,'y')",
        "count($n)=1",
        "normalize-space($s)='x'",
        "string-length(s:concat(/r/t))",
        "count(s:tokenize(/r/t, 'x'))",
        "count(s:split(/r/t, 'x'))",
        "s:replace(/r/t, 'y', 'z')='y'",
        "s:encode-uri(/r/t, true())='y'",
        "s:decode-uri(/r/t)='y'",
        "m:max(/r)",
        "count(m:lowest(/r))",
        "count(set:distinct(/r))",
        "r:test(/r/t, 'y')",
        "generate-id(key('k', /r/t))",
    ] {
        let text = format!(
            "<xsl:key name='k' match='i' use='@k'/>\
             <xsl:template match='/' xmlns:s='http://exslt.org/strings' xmlns:m='http://exslt.org/math' \
             xmlns:set='http://exslt.org/sets' xmlns:r='http://exslt.org/regular-expressions'>\
             <xsl:variable name='s' select='string(/r/t)'/><xsl:variable name='n' select='//i'/>\
             <xsl:for-each select='//i'><xsl:if test=\"{test}\"/></xsl:for-each></xsl:template>"
        );
        let error = run(&text, &source, &Budget::new(20_000, BYTES)).unwrap_err();
        assert_eq!(error.kind, Limit, "{test}: {error}");
    }
}

#[test]
fn a_key_with_a_node_set_collects_each_node_once() {
    // 2,000 values that all select the same 2,000 nodes.
    let source = format!("<r>{}</r>", "<i k='1'/>".repeat(2_000));
    let text = "<xsl:output method='text'/><xsl:key name='k' match='i' use='@k'/><xsl:template match='/'>\
                <xsl:value-of select=\"count(key('k', //@k))\"/></xsl:template>";
    let budget = Budget::new(100_000, 1_000_000);
    assert_eq!(run(text, &source, &budget).as_deref(), Ok("2000"));
}

#[test]
fn grouping_by_keys_fits_the_default_budget_whatever_the_size_of_the_groups() {
    let text = "<xsl:output method='text'/><xsl:key name='k' match='i' use='@k'/><xsl:template match='/'>\
                <xsl:value-of select=\"count(//i[generate-id() = generate-id(key('k', @k)[1])])\"/></xsl:template>";
    let source = |groups: usize, count: usize| {
        let items: String = (0..count).map(|at| format!("<i k='{}'/>", at % groups)).collect();
        format!("<r>{items}</r>")
    };
    let result = |groups, count| run(text, &source(groups, count), &Budget::default());
    assert_eq!(result(100, 5_000).as_deref(), Ok("100"));
    assert_eq!(result(1, 20_000).as_deref(), Ok("1"));
}

#[test]
fn splitting_text_is_charged_before_tokens_are_collected() {
    for call in ["s:split(., 'x')", "s:tokenize(., 'x')", "s:split(., '')", "r:match(., 'y', 'g')"]
    {
        let text = format!(
            "<xsl:template match='/' xmlns:s='http://exslt.org/strings' xmlns:r='http://exslt.org/regular-expressions'>\
             <o><xsl:value-of select=\"count({call})\"/></o></xsl:template>"
        );
        let source = format!("<r>{}</r>", "yx".repeat(10_000));
        let budget = Budget::new(STEPS, 500_000);
        assert_eq!(run(&text, &source, &budget).unwrap_err().kind, Limit, "{call}");
        assert_eq!(run(&text, &source, &Budget::default()).map(drop), Ok(()), "{call}");
    }
}

#[test]
fn many_attributes_of_one_element_are_charged() {
    let text = "<xsl:template match='/'><o><xsl:for-each select='//i'><xsl:attribute name='a{position()}'/>\
                </xsl:for-each></o></xsl:template>";
    let source = format!("<r>{}</r>", "<i/>".repeat(20_000));
    assert_eq!(run(text, &source, &Budget::default()).unwrap_err().kind, Limit);
}

#[test]
fn what_a_copy_repeats_is_charged_before_it_is_written() {
    let long = "n".repeat(100_000);
    let items = "<i/>".repeat(5_000);
    let declared = format!("<r xmlns:p='{long}'>{items}</r>");
    let attribute = format!("<r><h a='{long}'/>{items}</r>");
    let default = format!("<r xmlns='{long}'>{items}</r>");
    for (inside, source) in [
        ("<xsl:copy-of select='//i'/>", &declared),
        ("<xsl:copy-of select='//*[1]/@*'/><xsl:copy-of select=\"//*[name()='i']\"/>", &default),
        ("<xsl:for-each select='//i'><xsl:copy/></xsl:for-each>", &declared),
        ("<xsl:for-each select='//i'><xsl:copy-of select='/r/h'/></xsl:for-each>", &attribute),
        (
            "<xsl:for-each select='//*'><xsl:element name='e' namespace='{namespace-uri()}'/></xsl:for-each>",
            &default,
        ),
    ] {
        let text = format!("<xsl:template match='/'><o>{inside}</o></xsl:template>");
        let result = run(&text, source, &Budget::default());
        assert_eq!(result.map(drop).map_err(|error| error.kind), Err(Limit), "{inside}");
    }
}

#[test]
fn text_that_grows_is_charged_before_it_is_made() {
    let source = format!(
        "<r><t>{}</t><n>{}</n></r>",
        "x".repeat(1_000_000),
        "<a>".repeat(900) + &"</a>".repeat(900)
    );
    let long = "$&amp;".repeat(10_000);
    for (name, inside) in [
        ("replace", format!("<xsl:value-of select=\"r:replace(/r/t, 'x+', 'g', '{long}')\"/>")),
        ("avt", format!("<o a='{}'/>", "{/r/t}".repeat(100))),
        (
            "number",
            "<xsl:for-each select='//a[not(*)]'>\
             <xsl:number level='multiple' format='1{/r/t}1{/r/t}1'/></xsl:for-each>"
                .to_owned(),
        ),
    ] {
        let text = format!(
            "<xsl:template match='/' xmlns:r='http://exslt.org/regular-expressions'>\
             <o>{inside}</o></xsl:template>"
        );
        let error = run(&text, &source, &Budget::default()).unwrap_err();
        assert_eq!(error.kind, Limit, "{name}: {error}");
    }
}

#[test]
fn a_long_key_is_compared_with_others_up_to_the_first_difference() {
    let source = format!("<r><i>{}</i>{}</r>", "z".repeat(4_000_000), "<i>y</i>".repeat(50_000));
    let text = "<xsl:output method='text'/><xsl:template match='/'><xsl:for-each select='//i'>\
                <xsl:sort case-order='upper-first'/><xsl:if test='position()=last()'>\
                <xsl:value-of select='string-length()'/></xsl:if></xsl:for-each></xsl:template>";
    assert_eq!(run(text, &source, &Budget::large()).as_deref(), Ok("4000000"));
}

#[test]
fn namespaces_in_the_scope_of_many_elements_are_limited_at_load() {
    let declared: String = (0..1_000).map(|at| format!(" xmlns:p{at}='urn:p{at}'")).collect();
    let sheet = |count: usize, inside: &str| {
        let templates: String = (0..count)
            .map(|at| format!("<xsl:template name='t{at}'>{inside}</xsl:template>"))
            .collect();
        format!(
            "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'{declared}>\
             {templates}</xsl:stylesheet>"
        )
    };
    for inside in ["<o/>", "<xsl:element name='{.}'/>"] {
        let compile = |count| {
            let compiled = Stylesheet::compile(sheet(count, inside).as_bytes(), &NoResolver);
            compiled.map(drop).map_err(|error| error.kind)
        };
        assert_eq!(compile(100), Ok(()), "{inside}");
        assert_eq!(compile(5_000), Err(Limit), "{inside}");
    }
}

#[test]
fn stripping_space_takes_the_same_steps_for_any_number_of_names() {
    let source = format!("<r>{}</r>", "<i> </i>".repeat(100));
    let used = |names: usize| {
        let names: String = (0..names).map(|at| format!("n{at} ")).collect();
        let text = format!(
            "<xsl:strip-space elements='{names}i'/><xsl:preserve-space elements='j'/><xsl:output method='text'/>\
             <xsl:template match='/'><xsl:value-of select='count(//text())'/></xsl:template>"
        );
        let budget = Budget::default();
        assert_eq!(run(&text, &source, &budget).as_deref(), Ok("0"));
        budget.steps_used()
    };
    assert_eq!(used(1), used(2_000));
}

#[test]
fn elements_nested_too_deeply_are_rejected_and_the_deepest_allowed_ones_run() {
    let nested = |levels: usize| {
        let open = "<xsl:if test='1'>".repeat(levels);
        let close = "</xsl:if>".repeat(levels);
        format!("<xsl:template match='/'>{open}<o/>{close}</xsl:template>")
    };
    check(&[(nested(xslt::limits::XSLT_NESTING_MAX).as_str(), Limit, "nested")]);
    let good = sheet(&nested(xslt::limits::XSLT_NESTING_MAX - 2));
    assert_eq!(on_a_small_stack(move || transform(&good, "<a/>")).as_deref(), Ok("<o/>"));
}

#[test]
fn chains_of_global_variables_and_attribute_sets_may_be_long() {
    let variables: String = (0..500)
        .map(|at| {
            format!(
                "<xsl:variable name='v{at}'><xsl:value-of select='$v{} + 1'/></xsl:variable>",
                at + 1
            )
        })
        .collect();
    let sets: String = (0..800)
        .map(|at| {
            format!(
                "<xsl:attribute-set name='s{at}' use-attribute-sets='s{}'><xsl:attribute name='a'>{at}</xsl:attribute>\
                 </xsl:attribute-set>",
                at + 1
            )
        })
        .collect();
    let text = format!(
        "{variables}<xsl:variable name='v500' select='0'/>{sets}<xsl:attribute-set name='s800'/>\
         <xsl:template match='/'><o xsl:use-attribute-sets='s0' v='{{$v0}}'/></xsl:template>"
    );
    let made = on_a_small_stack(move || transform(&sheet(&text), "<a/>"));
    assert_eq!(made.as_deref(), Ok("<o a=\"0\" v=\"500\"/>"));
}

#[test]
fn circular_definitions_are_rejected_although_they_are_not_used() {
    let rest = "<xsl:template match='/'><o/></xsl:template>";
    for (text, line) in [
        ("<xsl:variable name='a' select='$a'/>", 1),
        (
            "\n<xsl:variable name='a'><o><xsl:value-of select='$b'/></o></xsl:variable><xsl:param name='b' select='$a'/>",
            2,
        ),
        ("<xsl:variable name='c'><xsl:number count='b[$c]'/></xsl:variable>", 1),
        ("\n\n<xsl:attribute-set name='s' use-attribute-sets='s'/>", 3),
        (
            "<xsl:attribute-set name='s' use-attribute-sets='t'/><xsl:attribute-set name='t' use-attribute-sets='s'/>",
            1,
        ),
    ] {
        let error = error_of(&format!("{text}{rest}"));
        assert_eq!((error.kind, error.line), (Invalid, line), "{text}: {error}");
    }
}

#[test]
fn global_variables_that_use_one_another_in_templates_stay_within_the_stack() {
    let deep = |levels: usize| {
        let mut text = String::new();
        let (open, close) = ("(".repeat(40), ")".repeat(40));
        for at in 0..levels {
            let next = at + 1;
            text += &format!(
                "<xsl:variable name='v{at}'><xsl:call-template name='t{at}'/></xsl:variable>\
                 <xsl:template name='t{at}'><xsl:value-of select='{open}$v{next} + 1{close}'/></xsl:template>"
            );
        }
        format!(
            "{text}<xsl:variable name='v{levels}' select='0'/>\
             <xsl:template match='/'><o><xsl:value-of select='$v0'/></o></xsl:template>"
        )
    };
    let max = xslt::limits::XSLT_GLOBALS_DEPTH_MAX;
    check(&[(deep(max + 1).as_str(), Limit, "deep")]);
    let good = sheet(&deep(max - 1));
    let made = on_a_small_stack(move || transform(&good, "<a/>"));
    assert_eq!(made, Ok(format!("<o>{}</o>", max - 1)));
}

#[test]
fn the_deepest_allowed_document_is_copied_on_a_small_stack() {
    let text = all().into_iter().find(|case| case.name.starts_with("7.5")).unwrap().sheet;
    let depth = xml::limits::XML_DEPTH_MAX as usize - 1;
    let source = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let made = on_a_small_stack(move || transform(&text, &source));
    assert_eq!(made.map(|out| out.matches("<a").count()), Ok(depth));
}

#[test]
fn a_sheet_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Stylesheet>();
}

/// A template with a value-of, in which the initials of the modules are their prefixes.
fn value_of(expression: &str) -> String {
    let select = format!("<xsl:value-of select=\"{expression}\"/>");
    let modules = ["strings", "dates-and-times", "regular-expressions", "math"].map(|module| {
        let prefix = &module[..1];
        format!(" xmlns:{prefix}='http://exslt.org/{module}'")
    });
    format!("<xsl:template match='/'{}>{select}</xsl:template>", modules.concat())
}

#[test]
fn exslt_functions_report_limits_and_errors() {
    for (expression, kind) in [
        ("s:padding(1000000000000000000)", Limit),
        ("string-length(s:padding(70000000, 'ab'))", Limit),
        ("s:replace(s:padding(30000, 'a'), 'a', s:padding(100, 'b'))", Limit),
        ("s:tokenize(s:padding(300000, 'a '))", Limit),
        ("r:test('aaa', '(a{1000}){1000}')", Transform),
        ("r:test('aaa', '(')", Transform),
        ("r:test('aaa', 'a', 'x')", Transform),
        (
            "r:replace(s:padding(100000, 'a'), 'a', 'g', '$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&$&')",
            Limit,
        ),
        ("d:date-time()", Transform),
        ("d:year()", Transform),
    ] {
        let expression = expression.replace("$&", "$&amp;");
        let budget = Budget::new(STEPS, 1_000_000);
        let error = run(&value_of(&expression), "<a/>", &budget).unwrap_err();
        assert_eq!(error.kind, kind, "{expression}: {error}");
    }
}

#[test]
fn dates_and_durations_out_of_range_are_empty() {
    for expression in [
        "d:add('9999999-12-31', 'P1D')",
        "d:add('2000-01-01', 'P999999999999Y')",
        "d:add('2000-01-01', '-P99999999999999999999D')",
        "d:date('99999999999999999999-01-01')",
        "d:duration(1 div 0)",
        "d:add('2000-01-01', 'PT999999999999999S')",
        "d:difference('--01', '2000')",
    ] {
        let made = transform(&sheet(&value_of(expression)), "<a/>");
        assert_eq!(made.as_deref(), Ok(""), "{expression}");
    }
}

#[test]
fn constructs_of_later_versions_are_rejected() {
    let body = |inside: &str| format!("<xsl:template match='/'>\n{inside}</xsl:template>");
    for (inside, expected) in [
        ("<xsl:sequence select='1'/>", "xsl:sequence"),
        ("<xsl:analyze-string select='a' regex='b'/>", "xsl:analyze-string"),
        ("<xsl:result-document href='a'/>", "xsl:result-document"),
        ("<xsl:value-of select='a' separator=','/>", "`separator`"),
        ("<xsl:attribute name='a' select='b'/>", "`select`"),
        ("<xsl:apply-templates mode='#all'/>", "`#all`"),
        ("<xsl:value-of select='for $x in a return $x'/>", "in `for $x in a return $x`"),
        ("<xsl:value-of select='if (a) then b else c'/>", "in `if (a) then b else c`"),
        ("<xsl:value-of select='a except b'/>", "in `a except b`"),
        ("<xsl:value-of select=\"matches(a, 'b')\"/>", "matches"),
        (
            "<xsl:value-of xmlns:xs='http://www.w3.org/2001/XMLSchema' select='xs:integer(a)'/>",
            "integer",
        ),
        ("<o xsl:use-when='true()'/>", "xsl:use-when"),
        ("<xsl:sort select='a'/>", "`xsl:sort`"),
    ] {
        for version in ["1.0", "2.0", "3.0"] {
            let text =
                sheet(&body(inside)).replace("version=\"1.0\"", &format!("version=\"{version}\""));
            let error = Stylesheet::compile(text.as_bytes(), &NoResolver).unwrap_err();
            assert!(matches!(error.kind, Unsupported | Invalid), "{error}");
            assert_eq!(error.line, 2, "{error}");
            assert!(error.message.contains(expected), "{inside}\n  got {error}");
        }
    }
}

#[test]
fn huge_numbers_and_formats_stay_within_the_limits() {
    let number = |attributes: &str| {
        let text =
            format!("<xsl:template match='/'><o><xsl:number {attributes}/></o></xsl:template>");
        transform(&sheet(&text), "<a/>")
    };
    for attributes in [
        "value='1' format='{//@none}' grouping-separator=',' grouping-size='99999999999999999999'",
        "value='1' letter-value='x'",
        "value='1' format='a' lang='da'",
        "value='1' grouping-separator=',' grouping-size='0'",
    ] {
        assert!(number(attributes).is_err(), "{attributes}");
    }
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    let huge = format!("value='1{}'", "0".repeat(300));
    for format in ["1", "a", "A", "i", "I", "&#x3b1;", "&#x5d0;"] {
        let made = number(&format!("{huge} format='{format}'")).unwrap();
        assert_eq!(digits(&made), 301, "{format}: {made}");
    }
    assert_eq!(digits(&number("value='9007199254740991' format='a'").unwrap()), 0);
    // A long format makes a long number.
    let picture = format!("value='1' format='{}1'", "0".repeat(100_000));
    assert_eq!(digits(&number(&picture).unwrap()), 100_001);
    let many = "<xsl:template name='t' match='/'><xsl:for-each select='//b'><xsl:number format='PICTURE1'/>\
                </xsl:for-each></xsl:template>";
    let many = many.replace("PICTURE", &"0".repeat(100_000));
    let source = format!("<a>{}</a>", "<b/>".repeat(100));
    let error = run(&many, &source, &Budget::new(STEPS, 1_000_000)).unwrap_err();
    assert_eq!(error.kind, Limit, "{error}");
    let format = |expression: &str| {
        let text = format!(
            "<xsl:template match='/'><o><xsl:value-of select=\"{expression}\"/></o></xsl:template>"
        );
        transform(&sheet(&text), "<a/>")
    };
    let number = format!("1{}", "0".repeat(308));
    assert_eq!(digits(&format(&format!("format-number({number}, '#,##0.00')")).unwrap()), 311);
    assert_eq!(
        format(&format!("format-number({number}, '0%')")).as_deref(),
        Ok("<o>Infinity%</o>")
    );
    for picture in ["", "''", "0.0.0", "0#", "#.#0", "0;"] {
        let made = format(&format!("format-number(-1, '{picture}')"));
        assert!(made.is_err(), "{picture}: {made:?}");
    }
}

#[test]
fn numbering_all_nodes_takes_linear_time() {
    for attributes in ["", "level='any'", "level='multiple' count='*'", "level='any' from='a'"] {
        let text = format!(
            "<xsl:output method='text'/><xsl:template match='/'><xsl:for-each select='//b'>\
             <xsl:if test='position() = last()'><xsl:number {attributes}/></xsl:if>\
             <xsl:variable name='v'><xsl:number {attributes}/></xsl:variable></xsl:for-each></xsl:template>"
        );
        // A quadratic algorithm would take 4 million steps.
        let source = format!("<a>{}</a>", "<b/>".repeat(2_000));
        let expected = if attributes.contains("multiple") { "1.2000" } else { "2000" };
        let made = run(&text, &source, &Budget::new(100_000, BYTES));
        assert_eq!(made.as_deref(), Ok(expected), "{attributes}");
    }
}

#[test]
fn numbering_nodes_that_are_not_counted_takes_linear_time() {
    for (attributes, source, expected) in [
        ("level='any' count='b'", format!("<a><b/>{}</a>", "<c/>".repeat(2_000)), "1"),
        ("level='any' count='b' from='a'", format!("<a><b/>{}</a>", "<c/>".repeat(2_000)), "1"),
        (
            "level='multiple' count='b'",
            format!("<a>{}<b>{}</b></a>", "<d/>".repeat(2_000), "<c/>".repeat(2_000)),
            "1",
        ),
    ] {
        let text = format!(
            "<xsl:output method='text'/><xsl:template match='/'><xsl:for-each select='//c'>\
             <xsl:if test='position() = last()'><xsl:number {attributes}/></xsl:if>\
             <xsl:variable name='v'><xsl:number {attributes}/></xsl:variable></xsl:for-each></xsl:template>"
        );
        let made = run(&text, &source, &Budget::new(100_000, BYTES));
        assert_eq!(made.as_deref(), Ok(expected), "{attributes}");
    }
}

#[test]
fn html_is_escaped() {
    let html = |inside: &str| {
        let text = format!(
            "<xsl:output method='html' indent='no'/><xsl:template match='/'>{inside}</xsl:template>"
        );
        transform(&sheet(&text), "<a>&lt;/script>&lt;b></a>")
    };
    assert_eq!(html("<o t='{a}\"'/>").as_deref(), Ok("<o t=\"</script><b>&quot;\"></o>"));
    assert_eq!(
        html("<p><xsl:value-of select='a'/></p>").as_deref(),
        Ok("<p>&lt;/script&gt;&lt;b&gt;</p>")
    );
    assert!(html("<xsl:processing-instruction name='p'>a>b</xsl:processing-instruction>").is_err());
    assert!(html("<xsl:element name='a b'/>").is_err());
}

#[test]
fn a_character_that_xml_does_not_allow_is_an_error_wherever_it_is_written() {
    const BAD: &str = "<xsl:value-of select='$bad'/>";
    let params = Params::new().string("bad", "\u{1}");
    for method in ["", "method='xml'", "method='html'"] {
        for inside in [
            format!("<o>{BAD}</o>"),
            "<o><xsl:value-of select='$bad' disable-output-escaping='yes'/></o>".to_owned(),
            format!("<o><p>{BAD}</p></o>"),
            "<o><p a='{$bad}'/></o>".to_owned(),
            format!("<o><xsl:comment>{BAD}</xsl:comment></o>"),
            format!(
                "<o><xsl:processing-instruction name='p'>{BAD}</xsl:processing-instruction></o>"
            ),
            "<xsl:element name='p:o' namespace='{$bad}'/>".to_owned(),
            "<o><xsl:attribute name='p:a' namespace='{$bad}'>b</xsl:attribute></o>".to_owned(),
        ] {
            let text = format!(
                "<xsl:output {method}/><xsl:param name='bad'/>\
                 <xsl:template match='/'>{inside}</xsl:template>"
            );
            let compiled = Stylesheet::compile(sheet(&text).as_bytes(), &NoResolver).unwrap();
            let source = xml::Document::parse(b"<a/>").unwrap();
            let error = compiled.transform(&source, &params, &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind, Transform, "{method} {inside}\n  {error}");
        }
    }
}

#[test]
fn errors_of_deferred_output_are_reported_at_the_instruction_that_wrote_it() {
    let of = |output: &str, body: &str| {
        error_of(&format!(
            "<xsl:output {output}/>\n<xsl:template match='/'>\n{body}</xsl:template>"
        ))
    };
    let bad = "<xsl:processing-instruction name='{name(*)}'>\u{20ac}</xsl:processing-instruction>";
    let xml = "<xsl:processing-instruction name='x{name(/..)}ml'/>";
    for (output, body, place, expected) in [
        ("", xml.to_owned(), (3, 1), "`xml`"),
        ("", format!("<xsl:comment>c</xsl:comment>\n{xml}\n<o/>"), (4, 1), "`xml`"),
        ("", format!("<xsl:text> </xsl:text>\n{xml}\n<html/>"), (4, 1), "`xml`"),
        ("encoding='US-ASCII'", format!("<xsl:comment/>\n\n{bad}"), (5, 1), "US-ASCII"),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:text>a</xsl:text>\n<xsl:text>\u{e9}</xsl:text>\n<xsl:text>b</xsl:text>"
                .to_owned(),
            (4, 1),
            "US-ASCII",
        ),
        (
            "method='text' encoding='ISO-8859-1'",
            "<xsl:text>\u{e9}</xsl:text>\n<xsl:value-of select='\"\u{20ac}\"'/>".to_owned(),
            (4, 1),
            "ISO-8859-1",
        ),
        (
            "method='text' encoding='US-ASCII'",
            "<xsl:variable name='v'><a>\u{20ac}</a></xsl:variable>\n<xsl:copy-of select='$v'/>"
                .to_owned(),
            (4, 1),
            "US-ASCII",
        ),
        (
            "method='html' encoding='US-ASCII'",
            "<a>\n<xsl:attribute name='\u{e9}:b' namespace='u'/></a>".to_owned(),
            (4, 1),
            "US-ASCII",
        ),
    ] {
        let error = of(output, &body);
        assert_eq!((error.line, error.column), place, "{output} {body}\n  {error}");
        assert!(error.message.contains(expected), "{output} {body}\n  {error}");
    }
}

#[test]
fn fixed_names_of_processing_instructions_are_checked_at_load() {
    for name in ["xml", "XmL", "a:b", "1", " a"] {
        let text = format!(
            "<xsl:template match='no'>\n<xsl:processing-instruction name='{name}'/></xsl:template>"
        );
        let error = error_of(&text);
        assert_eq!((error.kind, error.line, error.column), (Invalid, 2, 1), "{error}");
    }
}

#[test]
fn regular_expressions_are_charged_for_what_they_read() {
    let long = "A".repeat(200_000);
    let mut random = 1_u32;
    let mut letter = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if random >> 31 == 0 { 'A' } else { 'B' }
    };
    let mixed: String = (0..200_000).map(|_| letter()).collect();
    for (inside, text) in [
        // Each match could be longer than it is, up to the end of the text.
        ("r:replace(., '.*[^A-Z]|[A-Z]', 'g', '')", long.as_str()),
        ("count(r:match(., '.*[^A-Z]|[A-Z]', 'g'))", &long),
        // Many states of the DFA.
        ("r:test(., '[AB]{0,200}A[AB]{200}C')", &mixed),
        // A word boundary, which the DFA does not support in such a text.
        ("r:replace(., '\\bé*\\b[^é]|é', 'g', '')", &"é".repeat(200_000)),
        ("r:test(., '\\w{90}')", "a"),
        ("r:test(., r:replace(s:padding(200, 'x'), 'x', 'g', '(?i)\\pL'))", "a"),
    ] {
        let text = format!("<r>{text}</r>");
        let budget = Budget::default();
        let result = run(&value_of(inside), &text, &budget);
        let kind = result.map_err(|error| error.kind);
        let wanted = if inside.contains("{90}") { Err(Transform) } else { Err(Limit) };
        assert_eq!(kind, wanted, "{inside}");
    }
    let text = format!("<r>{}</r>", format!("{},", "word ".repeat(20)).repeat(10_000));
    for inside in ["r:replace(., ',', 'g', '; ')", "r:replace(., '(\\w+) ,', 'g', '$1; ')"] {
        let budget = Budget::large();
        let made = run(&value_of(inside), &text, &budget).unwrap();
        assert_eq!(made.matches("; ").count(), 10_000, "{inside}");
        assert!(budget.steps_used() < STEPS, "{inside}: {}", budget.steps_used());
    }
}

#[test]
fn replacing_strings_by_elements_makes_a_node_of_each_piece() {
    let source = "<a><f>,</f><t><br/></t></a>";
    for (expression, value) in [
        ("count(s:replace('a,b,c', //f, //t/*))", "5"),
        ("s:replace('a,b,c', //f, //t/*)[last()]", "c"),
        ("name(s:replace('a,b,c', //f, //t/*)[2])", "br"),
        ("count(s:replace('a,b,c', ',', '-'))", "1"),
        ("string(s:replace('a,b,c', ',', '-'))", "a-b-c"),
        ("count(s:replace('', ',', '-'))", "0"),
    ] {
        let made = run(&value_of(expression), source, &Budget::default());
        assert_eq!(made.as_deref(), Ok(value), "{expression}");
    }
}

#[test]
fn copies_that_replace_strings_are_charged_with_attributes_and_namespaces() {
    let long = "n".repeat(100_000);
    let declared: String = (0..1_000).map(|at| format!(" xmlns:p{at}='u'")).collect();
    for source in [format!("<a><e b='{long}'/></a>"), format!("<a{declared}><e/></a>")] {
        let expression = "count(s:replace(s:padding(5000, 'x'), 'x', //e))";
        let error = run(&value_of(expression), &source, &Budget::default()).unwrap_err();
        assert_eq!(error.kind, Limit);
    }
}

#[test]
fn tokens_are_charged_with_the_memory_of_their_nodes() {
    let budget = Budget::new(STEPS, BYTES);
    run(&value_of("count(s:split(s:padding(20000, 'a ')))"), "<a/>", &budget).unwrap();
    // Two nodes of 16 bytes and a place in the node-set, with room to grow.
    assert!(budget.bytes_used() > 10_000 * 88, "{}", budget.bytes_used());
}
