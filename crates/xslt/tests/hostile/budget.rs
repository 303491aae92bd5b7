//! Charges of a run to its budget.

use xslt::ErrorKind::{Invalid, Limit, Transform};
use xslt::{Budget, NoResolver, Options, Stylesheet};

use crate::cases::sheet;
use crate::{BYTES, STEPS, check, run, value_of};

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
