//! Classes of HTML elements and attributes. Source: HTML 4.01 and HTML 5.

/// How an element is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementClass {
    /// An element in a namespace, which is written as XML.
    Foreign,
    /// An element without an end tag.
    Void,
    /// `script` and `style`: text is not escaped.
    Raw,
    /// `head`, which begins with a `meta` element for the encoding.
    Head,
    /// Lines may break around its tags.
    Block,
    Inline,
}

#[rustfmt::skip]
const VOID: &[&str] = &[
    "area", "base", "basefont", "br", "col", "embed", "frame", "hr", "img", "input", "isindex", "link",
    "meta", "param", "source", "track", "wbr",
];

#[rustfmt::skip]
const BLOCKS: &[&str] = &[
    "address", "article", "aside", "blockquote", "body", "caption", "center", "colgroup", "dd", "dir",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset", "h1", "h2", "h3",
    "h4", "h5", "h6", "header", "html", "legend", "li", "main", "menu", "nav", "noframes", "noscript",
    "ol", "optgroup", "option", "p", "pre", "section", "table", "tbody", "td", "tfoot", "th", "thead",
    "title", "tr", "ul",
];

/// Attributes whose only value is their name.
#[rustfmt::skip]
const BOOLEANS: &[&str] = &[
    "async", "autofocus", "autoplay", "checked", "compact", "controls", "declare", "default", "defer",
    "disabled", "formnovalidate", "hidden", "ismap", "loop", "multiple", "muted", "nohref", "noresize",
    "noshade", "novalidate", "nowrap", "open", "readonly", "required", "reversed", "selected",
];

const URIS: &[&str] = &[
    "action",
    "background",
    "cite",
    "classid",
    "codebase",
    "formaction",
    "href",
    "longdesc",
    "poster",
    "profile",
    "src",
    "usemap",
];

fn lists(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

impl ElementClass {
    pub(super) fn of(namespace: &str, local: &str) -> Self {
        if !namespace.is_empty() {
            Self::Foreign
        } else if lists(VOID, local) {
            Self::Void
        } else if lists(&["script", "style"], local) {
            Self::Raw
        } else if local.eq_ignore_ascii_case("head") {
            Self::Head
        } else if lists(BLOCKS, local) {
            Self::Block
        } else {
            Self::Inline
        }
    }

    pub(super) fn is_block(self) -> bool {
        match self {
            Self::Head | Self::Block => true,
            Self::Foreign | Self::Void | Self::Raw | Self::Inline => false,
        }
    }
}

pub(super) fn keeps_space(class: ElementClass, local: &str) -> bool {
    class == ElementClass::Raw || lists(&["pre", "textarea"], local)
}

/// Whether an attribute is boolean and written in minimized form (section 16.2).
pub(super) fn is_minimized(attribute: &str, value: &str) -> bool {
    (value.is_empty() || value.eq_ignore_ascii_case(attribute)) && lists(BOOLEANS, attribute)
}

pub(super) fn is_uri(element: &str, attribute: &str) -> bool {
    let data = element.eq_ignore_ascii_case("object") && attribute.eq_ignore_ascii_case("data");
    data || lists(URIS, attribute)
}

/// Percent-encodes characters above ASCII. Source: HTML 4.01 section B.2.1.
pub(super) fn escaped_uri(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The supported versions; they are written alike.
pub(crate) fn is_html_version(version: &str) -> bool {
    ["3.2", "4", "4.0", "4.01", "5", "5.0"].contains(&version)
}
