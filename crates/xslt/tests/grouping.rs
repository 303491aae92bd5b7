//! Grouping by keys, after Steve Muench.

use xslt::{Budget, NoResolver, Options, Stylesheet};

/// Prints the value of each group and the number of its nodes.
const SHEET: &str = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>\
    <xsl:output method='text'/><xsl:key name='k' match='i' use='@x'/>\
    <xsl:template match='/'>\
    <xsl:for-each select=\"r/i[generate-id(.) = generate-id(key('k', @x)[1])]\">\
    <xsl:value-of select=\"concat(@x, ':', count(key('k', @x)), ' ')\"/></xsl:for-each>\
    </xsl:template></xsl:stylesheet>";

/// The output and the steps for `count` elements in groups of `size`.
fn grouped(count: usize, size: usize) -> (String, u64) {
    let items: String = (0..count).map(|i| format!("<i x='{}'/>", i / size)).collect();
    let source = xml::Document::parse(format!("<r>{items}</r>").as_bytes()).unwrap();
    let stylesheet = Stylesheet::compile(SHEET.as_bytes(), &NoResolver).unwrap();
    let (budget, mut out) = (Budget::default(), Vec::new());
    stylesheet.transform_with(&source, &Options::new(), &budget, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), budget.steps_used())
}

#[test]
fn one_large_group_takes_linear_steps_within_the_default_budget() {
    let (out, steps) = grouped(40_000, 40_000);
    assert_eq!(out, "0:40000 ");
    let (_, half) = grouped(20_000, 20_000);
    assert!(steps < 2 * half + 1_000, "{half} steps for half of the nodes, {steps} for all");
    let (out, in_pairs) = grouped(40_000, 2);
    assert!(out.starts_with("0:2 1:2 ") && out.ends_with("19999:2 "));
    assert!(steps < in_pairs, "{steps} steps for one group, {in_pairs} for many");
}
