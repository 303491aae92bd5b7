//! Deep and long chains of definitions, elements and calls.

use xslt::ErrorKind::Limit;

use crate::cases::{all, sheet, transform};
use crate::{check, on_a_small_stack};

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
