//! Artefacts that never end, or that make much of little: each message ends in a clear fault within its limits, others
//! are served meanwhile, and the memory comes back.
//!
//! `measure_others` prints what they cost others.

use std::time::{Duration, Instant};

use crate::mediation::{connect, send, target_with};
use crate::target::{MIB, Target};

/// An artefact, and a message for it.
struct Hazard {
    name: &'static str,
    /// The `target` of a proxy.
    target: &'static str,
    content_type: &'static str,
    body: fn() -> String,
    /// In the log.
    fault: &'static str,
}

/// What the targets refer to.
const OTHERS: &str = r##"
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

const HAZARDS: &[Hazard] = &[
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
        fault: "line 2, column 40: more than 10000 templates and loops are active; infinite recursion?",
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
        fault: "evaluation stopped: it needs more than 67108864 bytes",
    },
    Hazard {
        name: "doubled-body",
        target: DOUBLED_BODY,
        content_type: XML,
        body: small,
        fault: "evaluation stopped: it needs more than 67108864 bytes",
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
        fault: "evaluation stopped: it needs more than 67108864 bytes",
    },
    Hazard {
        name: "aggregate",
        target: r#"<inSequence><iterate expression="//item" preservePayload="true" attachPath="/all"><target><sequence><aggregate><completeCondition><messageCount min="-1" max="-1"/></completeCondition><onComplete expression="/all/text"><respond/></onComplete></aggregate></sequence></target></iterate></inSequence>"#,
        content_type: XML,
        body: thousand_in_much_text,
        fault: "evaluation stopped: it needs more than 67108864 bytes",
    },
];

#[test]
fn each_hazard_ends_in_a_clear_fault() {
    let proxies: Vec<_> = HAZARDS.iter().map(|hazard| (hazard.name, hazard.target)).collect();
    let mut target = target_with(&proxies, OTHERS);
    for hazard in HAZARDS {
        let mut client = connect(&target);
        send(&mut client, hazard.name, hazard.content_type, &(hazard.body)());
        target.serves_others();
        assert_eq!(client.read().status, 500, "{}", hazard.name);
        let log = target.process.wait_for(&format!("api=\"{}\"", hazard.name));
        let line = log.lines().find(|line| line.contains(&format!("api=\"{}\"", hazard.name)));
        let line = line.unwrap_or_default();
        assert!(line.contains(&format!("mediation failed: {}", hazard.fault)), "{line}");
        target.serves_others();
    }
    target.wait_for_metric("penstock_held_body_bytes", 0);
    target.serves_others_within(96 * MIB);
}

/// What others wait while each hazard runs, one after the other. No assertion: it depends on the machine.
/// `cargo test --release --workspace --test attacks -- --ignored --nocapture measure_others`; `PENSTOCK_ONLY=a,b` measures
/// two of them.
#[test]
#[ignore = "prints figures, for a minute"]
fn measure_others() {
    const TIME: Duration = Duration::from_secs(3);
    let proxies: Vec<_> = HAZARDS.iter().map(|hazard| (hazard.name, hazard.target)).collect();
    let target = target_with(&proxies, OTHERS);
    let print = |name: &str, faults: usize, latencies: Latencies| {
        println!("{name:20} {faults:6} faults   others: {latencies}");
    };
    print("(none)", 0, Latencies::of(&target, TIME));
    let only = std::env::var("PENSTOCK_ONLY").unwrap_or_default();
    let is_chosen = |name: &str| only.is_empty() || only.split(',').any(|known| known == name);
    for hazard in HAZARDS.iter().filter(|hazard| is_chosen(hazard.name)) {
        let body = (hazard.body)();
        let (faults, latencies) = std::thread::scope(|scope| {
            let attack = scope.spawn(|| {
                let (begun, mut faults) = (Instant::now(), 0);
                while begun.elapsed() < TIME {
                    let mut client = connect(&target);
                    send(&mut client, hazard.name, hazard.content_type, &body);
                    faults += usize::from(client.read().status == 500);
                }
                faults
            });
            let latencies = Latencies::of(&target, TIME);
            (attack.join().unwrap(), latencies)
        });
        print(hazard.name, faults, latencies);
    }
}

/// Of one client that sends one request after the other.
struct Latencies(Vec<Duration>);

impl Latencies {
    fn of(target: &Target, time: Duration) -> Self {
        let (mut client, begun, mut all) = (target.connect(), Instant::now(), Vec::new());
        while begun.elapsed() < time {
            let sent = Instant::now();
            assert_eq!(client.fetch("GET /a/x", "").text(), "in");
            all.push(sent.elapsed());
        }
        all.sort();
        Self(all)
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |percent: usize| self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        write!(to, "{:6} requests, p50 {:.2} ms, p99 {:.2} ms", self.0.len(), at(50), at(99))
    }
}
