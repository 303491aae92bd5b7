//! Artefacts that never end, or that make much of little, and their faults. A test of `mediation` runs them as well,
//! and counts their steps.

/// An artefact, and a message for it.
pub(crate) struct Hazard {
    pub(crate) name: &'static str,
    /// The `target` of a proxy.
    pub(crate) target: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: fn() -> String,
    /// In the log.
    pub(crate) fault: &'static str,
}

/// Artefacts that the targets refer to.
pub(crate) const OTHERS: &str = r##"
<sequence name="loops"><property name="a" value="b"/><sequence key="loops"/></sequence>
<sequence name="handles" onError="handles"><throwError type="it" errorMessage="again"/></sequence>
<sequence name="doubles1"><property name="a" expression="concat($ctx:a, $ctx:a)"/></sequence>
<sequence name="grows1"><enrich><source type="custom" xpath="/all/item[1]"/><target action="child" xpath="/all/item[1]"/>
</enrich></sequence>
<sequence name="doubles2"><sequence key="doubles1"/><sequence key="doubles1"/></sequence>
<sequence name="doubles4"><sequence key="doubles2"/><sequence key="doubles2"/></sequence>
<sequence name="doubles8"><sequence key="doubles4"/><sequence key="doubles4"/></sequence>
<sequence name="doubles16"><sequence key="doubles8"/><sequence key="doubles8"/></sequence>
<sequence name="doubles32"><sequence key="doubles16"/><sequence key="doubles16"/></sequence>
<sequence name="grows2"><sequence key="grows1"/><sequence key="grows1"/></sequence>
<sequence name="grows4"><sequence key="grows2"/><sequence key="grows2"/></sequence>
<sequence name="grows8"><sequence key="grows4"/><sequence key="grows4"/></sequence>
<sequence name="grows16"><sequence key="grows8"/><sequence key="grows8"/></sequence>
<sequence name="grows32"><sequence key="grows16"/><sequence key="grows16"/></sequence>
<template name="again"><sequence><call-template target="again"/></sequence></template>
<localEntry key="reverse"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0">
  <xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"><xsl:sort select="position()"
    data-type="number" order="descending"/></xsl:apply-templates></xsl:copy></xsl:template>
</xsl:stylesheet></localEntry>
<localEntry key="endless"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0">
  <xsl:template match="/" name="on"><a><xsl:call-template name="on"/></a></xsl:template>
</xsl:stylesheet></localEntry>
"##;

const DOUBLED_PROPERTY: &str = r#"<inSequence><property name="a" value="0123456789"/><sequence key="doubles32"/>
    <respond/></inSequence>"#;
const DOUBLED_BODY: &str = r#"<inSequence><sequence key="grows32"/><respond/></inSequence>"#;

const XML: &str = "application/xml";
const JSON: &str = "application/json";

fn small() -> String {
    "<all><item/></all>".to_owned()
}

fn million() -> String {
    format!("<all>{}</all>", "<i/>".repeat(1_000_000))
}

fn million_json() -> String {
    format!("[{}1]", "1,".repeat(1_000_000))
}

fn ten_megabytes() -> String {
    format!("<all>{}</all>", "<item>some text</item>".repeat(440_000))
}

fn thousand_in_much_text() -> String {
    format!("<all><text>{}</text>{}</all>", "x".repeat(2_000_000), "<item/>".repeat(5_000))
}

pub(crate) const HAZARDS: &[Hazard] = &[
    Hazard {
        name: "sequence",
        target: r#"<inSequence><sequence key="loops"/></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "sequences are nested deeper than 64",
    },
    Hazard {
        name: "template",
        target: r#"<inSequence><call-template target="again"/></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "sequences are nested deeper than 64",
    },
    Hazard {
        name: "handler",
        target: r#"<inSequence><sequence key="handles"/></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "again",
    },
    Hazard {
        name: "loopback",
        target: r#"<inSequence><loopback/></inSequence><outSequence><loopback/></outSequence>"#,
        content_type: XML,
        body: small,
        fault: "a `loopback` in the sequence for responses would never end",
    },
    Hazard {
        name: "script-loop",
        target: r#"<inSequence><script language="js">for (;;);</script><respond/></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "the script was stopped: it takes too long",
    },
    Hazard {
        name: "script-memory",
        target: r#"<inSequence><script language="js">var all = []; for (;;) all.push("x".repeat(1000) + all.length);</script></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "the script failed: it needs too much memory",
    },
    Hazard {
        name: "script-stack",
        target: r#"<inSequence><script language="js">function on() { return 1 + on(); } on();</script></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "the script failed: Maximum call stack size exceeded",
    },
    Hazard {
        name: "script-pattern",
        target: r#"<inSequence><script language="js"><![CDATA[/^(a+)+$/.test("a".repeat(5000) + "b");]]></script></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "the script was stopped: it takes too long",
    },
    Hazard {
        name: "transform",
        target: r#"<inSequence><xslt key="reverse"/><respond/></inSequence>"#,
        content_type: XML,
        body: ten_megabytes,
        fault: "line 2, column 45: evaluation stopped after 2000000 steps",
    },
    Hazard {
        name: "transform-loop",
        target: r#"<inSequence><xslt key="endless"/><respond/></inSequence>"#,
        content_type: XML,
        body: small,
        fault: "line 2, column 80: more than 10000 templates and loops are active; infinite recursion?",
    },
    Hazard {
        name: "select",
        target: r#"<inSequence><property name="a" expression="count(//*[count(//*) > 0][count(//*) > 1])"/><respond/></inSequence>"#,
        content_type: XML,
        body: thousand_in_much_text,
        fault: "evaluation stopped after 2000000 steps",
    },
    Hazard {
        name: "doubled-property",
        target: DOUBLED_PROPERTY,
        content_type: XML,
        body: small,
        fault: "evaluation stopped: it needs more than 6",
    },
    Hazard {
        name: "doubled-body",
        target: DOUBLED_BODY,
        content_type: XML,
        body: small,
        fault: "evaluation stopped: it needs more than 6",
    },
    Hazard {
        name: "iterate",
        target: r#"<inSequence><iterate expression="//i"><target><sequence><log/></sequence></target></iterate></inSequence>"#,
        content_type: XML,
        body: million,
        fault: "1000000 parts of a message, more than 10000",
    },
    Hazard {
        name: "iterate-json",
        target: r#"<inSequence><iterate expression="json-eval($)"><target><sequence><log/></sequence></target></iterate></inSequence>"#,
        content_type: JSON,
        body: million_json,
        fault: "1000001 parts of a message, more than 10000",
    },
    Hazard {
        name: "foreach",
        target: r#"<inSequence><foreach expression="//i"><sequence><property name="a" value="b"/></sequence></foreach><respond/></inSequence>"#,
        content_type: XML,
        body: million,
        fault: "1000000 parts of a message, more than 10000",
    },
    Hazard {
        name: "iterate-copies",
        target: r#"<inSequence><iterate expression="//item" preservePayload="true" attachPath="/all"><target><sequence><enrich><source type="inline"><a xmlns=""/></source><target action="child" xpath="/all"/></enrich></sequence></target></iterate></inSequence>"#,
        content_type: XML,
        body: thousand_in_much_text,
        fault: "evaluation stopped: it needs more than 6",
    },
    Hazard {
        name: "aggregate",
        target: r#"<inSequence><iterate expression="//item" preservePayload="true" attachPath="/all"><target><sequence><aggregate><completeCondition><messageCount min="-1" max="-1"/></completeCondition><onComplete expression="/all/text"><respond/></onComplete></aggregate></sequence></target></iterate></inSequence>"#,
        content_type: XML,
        body: thousand_in_much_text,
        fault: "evaluation stopped: it needs more than 6",
    },
];
