//! Stylesheets that are rejected when they are loaded.

use xslt::ErrorKind::{Invalid, Limit, Resource, Transform, Unsupported};
use xslt::{NoResolver, Stylesheet};

use crate::cases::sheet;
use crate::{check, error_of};

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
fn fixed_names_of_processing_instructions_are_checked_at_load() {
    for name in ["xml", "XmL", "a:b", "1", " a"] {
        let text = format!(
            "<xsl:template match='no'>\n<xsl:processing-instruction name='{name}'/></xsl:template>"
        );
        let error = error_of(&text);
        assert_eq!((error.kind, error.line, error.column), (Invalid, 2, 1), "{error}");
    }
}
