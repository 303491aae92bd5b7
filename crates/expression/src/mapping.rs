//! Between JSON and XML, by Synapse's convention.
//!
//! Members become elements, arrays repeated elements, `@name` an attribute and `$` the text beside attributes. The
//! document element is `jsonObject`, `jsonArray` or `jsonValue`; the elements of an array without a name are
//! `jsonElement`. Source: the manual of Micro Integrator, "Working with Message Payloads", and StAXON's mapping
//! convention, which Synapse uses.
//!
//! Back from XML, `<?xml-multiple name?>` makes an array of children of that name even if there is only one, element
//! and attribute names lose their prefixes, texts that spell a JSON number, `true`, `false` or `null` become such
//! values, and elements without content become `null`. [`Rules`] say otherwise.

mod restore;
mod to_json;
mod to_xml;

use std::borrow::Cow;

use xpath::Budget;
use xpath::regex::Regex;

use crate::error::Error;
use crate::{limits, pattern};

pub use restore::restore;
pub use to_json::to_json;
pub use to_xml::to_xml;

const OBJECT: &str = "jsonObject";
const ARRAY: &str = "jsonArray";
const ELEMENT: &str = "jsonElement";
const VALUE: &str = "jsonValue";
/// The instruction before children that are an array.
const MULTIPLE: &str = "xml-multiple";
/// The namespace of `nil`. Source: XML Schema Part 1, section 2.6.2.
const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
const NIL: &str = "nil";
/// Synapse's prefixes for names that start with a digit or `$`, and for other characters in front of their number.
const DIGIT: &str = "_JsonReader_PD_";
const DOLLAR: &str = "_JsonReader_PS_";
const CHARACTER: &str = "_JsonReader_";
/// Longest replacement of a character that XML does not allow in a name: the prefix, seven digits and `_`.
const CHARACTER_BYTES_MAX: usize = CHARACTER.len() + 8;

/// Settings of the mapping. Source: the properties of Synapse that [`Rules::set`] takes.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Texts become numbers, `true`, `false` and `null`.
    auto_primitive: bool,
    /// Texts that match as a whole do not become numbers.
    strings: Option<Regex>,
    /// Several elements of one name become an array. Otherwise each is a member of its own.
    auto_array: bool,
    /// Whether `xml-multiple` is read, and written.
    reads_multiple: bool,
    writes_multiple: bool,
    /// Value of an element without content: `null`, or an empty string.
    null_for_empty: bool,
    /// `null` is an element with `xsi:nil`.
    nil: bool,
    /// Names keep their prefix, with this character behind it.
    prefixes: bool,
    separator: char,
    /// With `prefixes`: declarations of namespaces become members.
    declarations: bool,
}

impl Rules {
    pub const DEFAULT: Self = Self {
        auto_primitive: true,
        strings: None,
        auto_array: true,
        reads_multiple: true,
        writes_multiple: false,
        null_for_empty: true,
        nil: false,
        prefixes: false,
        separator: '_',
        declarations: false,
    };

    /// The properties that [`Rules::set`] takes, by their names in `synapse.properties`.
    pub const PROPERTIES: [&'static str; 10] = [
        "synapse.commons.json.output.autoPrimitive",
        "synapse.commons.json.output.disableAutoPrimitive.regex",
        "synapse.commons.json.output.jsonoutAutoArray",
        "synapse.commons.json.output.jsonoutMultiplePI",
        "synapse.commons.json.output.xmloutMultiplePI",
        "synapse.commons.enableXmlNullForEmptyElement",
        "synapse.commons.enableXmlNilReadWrite",
        "synapse.commons.json.preserve.namespace",
        "synapse.commons.json.output.namespaceSepChar",
        "synapse.commons.json.output.enableNSDeclarations",
    ];

    /// Sets one of [`Rules::PROPERTIES`].
    ///
    /// # Errors
    /// Problem of the name or the value.
    pub fn set(&mut self, property: &str, value: &str) -> Result<(), String> {
        let flag = || match value.trim() {
            value if value.eq_ignore_ascii_case("true") => Ok(true),
            value if value.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(format!("`{property}` is true or false, not `{value}`")),
        };
        let at = Self::PROPERTIES.iter().position(|known| *known == property);
        match at {
            Some(0) => self.auto_primitive = flag()?,
            Some(1) => {
                let source = pattern::whole(value);
                let compiled = Regex::compile(&source, "", limits::PATTERN_BYTES_MAX);
                self.strings = Some(compiled.map_err(|error| format!("`{value}`: {error}"))?);
            }
            Some(2) => self.auto_array = flag()?,
            Some(3) => self.reads_multiple = flag()?,
            Some(4) => self.writes_multiple = flag()?,
            Some(5) => self.null_for_empty = flag()?,
            Some(6) => self.nil = flag()?,
            Some(7) => self.prefixes = flag()?,
            Some(8) => {
                let mut all = value.chars();
                self.separator = match (all.next(), all.next()) {
                    (Some(only), None) if !only.is_control() => only,
                    _ => return Err(format!("`{property}` is one character, not `{value}`")),
                };
            }
            Some(9) => self.declarations = flag()?,
            Some(_) | None => return Err(format!("`{property}` is not a property of the mapping")),
        }
        Ok(())
    }
}

/// A member's name as the name of an element. A character that XML does not allow there becomes
/// `_JsonReader_32_`, with its number; so does the `_` of a name that holds such a mark itself, and [`member_name`]
/// gives back each name but the empty one.
#[must_use]
pub fn element_name(name: &str) -> Cow<'_, str> {
    if is_element_name(name) {
        return Cow::Borrowed(name);
    }
    let mut made = String::new();
    let rest = match name.chars().next() {
        Some('$') => {
            made.push_str(DOLLAR);
            name.get(1..).unwrap_or_default()
        }
        Some(first) if first.is_ascii_digit() => {
            made.push_str(DIGIT);
            name
        }
        Some(_) | None => name,
    };
    for (at, next) in rest.char_indices() {
        let mut with = String::from("a");
        with.push(next);
        let allowed = if made.is_empty() { with.get(1..).unwrap_or_default() } else { &with };
        let is_mark = rest.get(at..).is_some_and(|rest| rest.starts_with(CHARACTER));
        if xml::is_ncname(allowed) && !is_mark {
            made.push(next);
        } else {
            made.push_str(&format!("{CHARACTER}{}_", u32::from(next)));
        }
    }
    if made.is_empty() { Cow::Borrowed("_") } else { Cow::Owned(made) }
}

/// Whether it stays as it is.
fn is_element_name(name: &str) -> bool {
    xml::is_ncname(name) && (!name.contains('_') || member_name(name) == name)
}

/// As [`element_name`]; it may become much longer, which is charged.
///
/// # Errors
/// [`Error::Budget`].
pub fn element_name_within<'n>(name: &'n str, budget: &Budget) -> Result<Cow<'n, str>, Error> {
    budget.charge_scanning(name.len())?;
    if is_element_name(name) {
        return Ok(Cow::Borrowed(name));
    }
    budget.charge_memory(name.len().saturating_mul(CHARACTER_BYTES_MAX))?;
    Ok(element_name(name))
}

/// The member's name that became an element's name.
#[must_use]
pub fn member_name(name: &str) -> Cow<'_, str> {
    let plain = match (name.strip_prefix(DIGIT), name.strip_prefix(DOLLAR)) {
        (Some(rest), _) => Cow::Borrowed(rest),
        (None, Some(rest)) => Cow::Owned(format!("${rest}")),
        (None, None) => Cow::Borrowed(name),
    };
    if !plain.contains(CHARACTER) {
        return plain;
    }
    let mut made = String::new();
    let mut rest = &*plain;
    while let Some((before, after)) = rest.split_once(CHARACTER) {
        made.push_str(before);
        let coded = after.split_once('_').and_then(|(number, after)| {
            Some((number.parse().ok().and_then(char::from_u32)?, after))
        });
        match coded {
            Some((code, after)) => {
                made.push(code);
                rest = after;
            }
            None => {
                // The last `_` may begin the next mark.
                let text = CHARACTER.trim_end_matches('_');
                made.push_str(text);
                rest = rest.get(before.len() + text.len()..).unwrap_or_default();
            }
        }
    }
    made.push_str(rest);
    Cow::Owned(made)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::json;
    use xpath::Budget;

    fn rules(properties: &[(&str, &str)]) -> Rules {
        let mut rules = Rules::DEFAULT;
        for (name, value) in properties {
            rules.set(name, value).unwrap();
        }
        rules
    }

    fn json_of(document: &xml::Document, rules: &Rules) -> String {
        let json = to_json(document.element().unwrap(), rules, &Budget::default()).unwrap();
        json.text().to_owned()
    }

    /// XML to JSON with these properties.
    #[track_caller]
    fn check_xml(properties: &[(&str, &str)], xml: &str, expect: &str) {
        let document = xml::Document::parse(xml.as_bytes()).unwrap();
        assert_eq!(json_of(&document, &rules(properties)), expect, "{xml}");
    }

    /// JSON to XML, and back again to the same JSON or to `back`.
    #[track_caller]
    fn check(json: &str, xml: &str, back: &str) {
        check_with(&[], json, xml, back);
    }

    #[track_caller]
    fn check_with(properties: &[(&str, &str)], json: &str, xml: &str, back: &str) {
        let rules = rules(properties);
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root(), &rules, &Budget::default()).unwrap();
        let options = xml::WriterOptions { declaration: false, ..Default::default() };
        let written = String::from_utf8(made.write(options).unwrap()).unwrap();
        assert_eq!(written, xml);
        assert_eq!(json_of(&made, &rules), back);
    }

    #[test]
    fn the_examples_of_the_manual_map_as_published() {
        check("[]", "<jsonArray/>", "[]");
        check(
            r#"{"array":[1,2]}"#,
            "<jsonObject><array>1</array><array>2</array></jsonObject>",
            r#"{"array":[1,2]}"#,
        );
        check(r#"{"array":[]}"#, "<jsonObject/>", "{}");
        check(r#"{"object":null}"#, "<jsonObject><object/></jsonObject>", r#"{"object":null}"#);
        check(r#"{"object":{}}"#, "<jsonObject><object/></jsonObject>", r#"{"object":null}"#);
        check(
            "[1,[]]",
            "<jsonArray><jsonElement>1</jsonElement><jsonElement><jsonArray/></jsonElement></jsonArray>",
            "[1,[]]",
        );
    }

    #[test]
    fn attributes_text_and_nested_arrays_survive() {
        check(
            r#"{"a":{"@id":7,"$":"x"},"b":[[1,2],[3]]}"#,
            "<jsonObject><a id=\"7\">x</a><b><jsonArray><jsonElement>1</jsonElement><jsonElement>2</jsonElement></jsonArray></b>\
             <b><jsonArray><jsonElement>3</jsonElement></jsonArray></b></jsonObject>",
            r#"{"a":{"@id":7,"$":"x"},"b":[[1,2],[3]]}"#,
        );
    }

    #[test]
    fn names_that_xml_does_not_allow_survive() {
        check(
            r#"{"12X":1,"$id":2,"a b":3,"@":4}"#,
            "<jsonObject><_JsonReader_PD_12X>1</_JsonReader_PD_12X><_JsonReader_PS_id>2</_JsonReader_PS_id>\
             <a_JsonReader_32_b>3</a_JsonReader_32_b><_JsonReader_64_>4</_JsonReader_64_></jsonObject>",
            r#"{"12X":1,"$id":2,"a b":3,"@":4}"#,
        );
        check_xml(&[], "<a_JsonReader_b_>1</a_JsonReader_b_>", r#"{"a_JsonReader_b_":1}"#);
    }

    #[test]
    fn names_that_look_like_marks_survive() {
        for name in [
            "_JsonReader_45_",
            "_JsonReader_PD_12X",
            "_JsonReader_PS_id",
            "a_JsonReader_45_JsonReader_46_",
            "_JsonReader b",
            "1_JsonReader_45_",
            "$_JsonReader_PD_1",
            "--B\r_JsonReader_45_\nx",
        ] {
            let element = element_name(name);
            assert!(xml::is_ncname(&element), "{name:?} as {element}");
            assert_eq!(member_name(&element), name, "{element}");
        }
    }

    #[test]
    fn xml_loses_prefixes_and_gains_types() {
        check_xml(
            &[],
            "<m:buy xmlns:m=\"urn:m\"><order><symbol>IBM</symbol><price>140.340</price></order><order/>\
             <note lang=\"en\"> 1 <b>x</b></note><zip>0123</zip><yes>true</yes><no> 1</no></m:buy>",
            r#"{"buy":{"order":[{"symbol":"IBM","price":140.340},null],"note":{"@lang":"en","$":1,"b":"x"},"zip":"0123","yes":true,"no":" 1"}}"#,
        );
    }

    #[test]
    fn numbers_keep_their_bytes() {
        let text = r#"{"a":[1.10,-0,1E+2,123456789012345678901234567890.5]}"#;
        let document = json::Document::parse(text.as_bytes()).unwrap();
        let made = to_xml(document.root(), &Rules::DEFAULT, &Budget::default()).unwrap();
        assert_eq!(json_of(&made, &Rules::DEFAULT), text);
    }

    #[test]
    fn types_are_as_configured() {
        let xml = "<a><n>1</n><n>10</n><t>true</t><e/><s>x</s></a>";
        check_xml(&[], xml, r#"{"a":{"n":[1,10],"t":true,"e":null,"s":"x"}}"#);
        for (property, value, expect) in [
            (
                "synapse.commons.json.output.autoPrimitive",
                "false",
                r#"{"a":{"n":["1","10"],"t":"true","e":null,"s":"x"}}"#,
            ),
            (
                "synapse.commons.json.output.disableAutoPrimitive.regex",
                "[0-9]{2}",
                r#"{"a":{"n":[1,"10"],"t":true,"e":null,"s":"x"}}"#,
            ),
            (
                "synapse.commons.json.output.jsonoutAutoArray",
                "false",
                r#"{"a":{"n":1,"n":10,"t":true,"e":null,"s":"x"}}"#,
            ),
            (
                "synapse.commons.enableXmlNullForEmptyElement",
                "false",
                r#"{"a":{"n":[1,10],"t":true,"e":"","s":"x"}}"#,
            ),
        ] {
            check_xml(&[(property, value)], xml, expect);
        }
    }

    #[test]
    fn nil_is_null_if_configured() {
        let xml = "<a xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><b i:nil=\"true\"/><c nil=\"true\"/></a>";
        check_xml(&[], xml, r#"{"a":{"b":{"@nil":true},"c":{"@nil":true}}}"#);
        let nil = ("synapse.commons.enableXmlNilReadWrite", "true");
        check_xml(&[nil], xml, r#"{"a":{"b":null,"c":null}}"#);
        check_with(
            &[nil, ("synapse.commons.enableXmlNullForEmptyElement", "false")],
            r#"{"a":null,"b":""}"#,
            "<jsonObject><a xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:nil=\"true\"/><b/></jsonObject>",
            r#"{"a":null,"b":""}"#,
        );
    }

    #[test]
    fn namespaces_are_kept_if_configured() {
        let xml = "<ns:stock xmlns:ns=\"urn:s\" xmlns=\"urn:d\" ns:id=\"7\"><ns:name>WSO2</ns:name><x/></ns:stock>";
        let keep = ("synapse.commons.json.preserve.namespace", "true");
        check_xml(&[], xml, r#"{"stock":{"@id":7,"name":"WSO2","x":null}}"#);
        check_xml(&[keep], xml, r#"{"ns_stock":{"@ns_id":7,"ns_name":"WSO2","x":null}}"#);
        check_xml(
            &[
                keep,
                ("synapse.commons.json.output.enableNSDeclarations", "true"),
                ("synapse.commons.json.output.namespaceSepChar", "-"),
            ],
            xml,
            r#"{"ns-stock":{"@xmlns-ns":"urn:s","@xmlns":"urn:d","@ns-id":7,"ns-name":"WSO2","x":null}}"#,
        );
    }

    #[test]
    fn an_instruction_makes_an_array_of_one_element() {
        for (xml, expect) in [
            ("<a><?xml-multiple b?><b>1</b><c>2</c></a>", r#"{"a":{"b":[1],"c":2}}"#),
            (
                "<a><?xml-multiple?><b><?xml-multiple x:d?><x:d xmlns:x='x'/></b></a>",
                r#"{"a":{"b":[{"d":[null]}]}}"#,
            ),
            ("<a><?xml-multiple b?></a>", r#"{"a":{"b":[]}}"#),
            ("<a><?other b?><b>1</b></a>", r#"{"a":{"b":1}}"#),
        ] {
            check_xml(&[], xml, expect);
        }
        let reads = ("synapse.commons.json.output.jsonoutMultiplePI", "false");
        check_xml(&[reads], "<a><?xml-multiple b?><b>1</b></a>", r#"{"a":{"b":1}}"#);
        let writes = ("synapse.commons.json.output.xmloutMultiplePI", "true");
        let arrays = r#"{"a":[1],"b":[],"c":[[2]]}"#;
        check_with(
            &[writes, ("synapse.commons.json.output.jsonoutAutoArray", "false")],
            arrays,
            "<jsonObject><?xml-multiple a?><a>1</a><?xml-multiple b?><?xml-multiple c?>\
             <c><jsonArray><jsonElement>2</jsonElement></jsonArray></c></jsonObject>",
            arrays,
        );
    }

    #[test]
    fn properties_have_valid_values() {
        for (property, value) in [
            ("synapse.commons.json.output.autoPrimitive", "yes"),
            ("synapse.commons.json.output.disableAutoPrimitive.regex", "("),
            ("synapse.commons.json.output.namespaceSepChar", ""),
            ("synapse.commons.json.output.namespaceSepChar", "::"),
            ("synapse.commons.json.output.autoprimitive", "true"),
        ] {
            let mut rules = Rules::DEFAULT;
            assert!(rules.set(property, value).is_err(), "{property}={value}");
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let depth = 200;
        let xml = format!("{}{}", "<jsonArray>".repeat(depth), "</jsonArray>".repeat(depth));
        let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check_xml(&[], &xml, &json);

        let depth = 900;
        let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root(), &Rules::DEFAULT, &Budget::default()).unwrap();
        assert_eq!(json_of(&made, &Rules::DEFAULT), json);
    }

    #[test]
    fn a_long_name_of_many_elements_is_kept_once_and_charged() {
        let name = "n".repeat(100_000);
        let json = format!("{{\"{name}\":[{}1]}}", "1,".repeat(2_000));
        let document = json::Document::parse(json.as_bytes()).unwrap();
        // A copy of the name for each element would take 200 MB.
        let budget = Budget::new(u64::MAX, 16 << 20);
        let made = to_xml(document.root(), &Rules::DEFAULT, &budget).unwrap();
        assert!(made.heap_bytes() < 4 << 20, "{}", made.heap_bytes());
        let few = Budget::new(100_000, 16 << 20);
        let failed = to_xml(document.root(), &Rules::DEFAULT, &few);
        assert!(matches!(failed, Err(Error::Budget(_))));
    }
}
