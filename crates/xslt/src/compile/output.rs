//! `xsl:output`: section 16.

use std::sync::Arc;

use xml::{DoctypeIds, Encoding, Node, WriterOptions};

use super::{Compiled, Compiler};
use crate::error::{ErrorKind, LoadError, Place};
use crate::html::{HtmlOptions, is_html_version};
use crate::knock_out::is_out;
use crate::load::attribute;
use crate::program::Method;

/// All `xsl:output` declarations so far. Defaults depend on the method, so they are applied at the end.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    place: Place,
    encoding: Encoding,
    version: Option<String>,
    indent: Option<bool>,
    omit: Option<bool>,
    standalone: Option<bool>,
    public: Option<String>,
    system: Option<String>,
    media_type: Option<String>,
    cdata: Vec<(String, String)>,
}

impl<'t> Compiler<'t> {
    /// Declarations come in ascending precedence: later ones override earlier ones.
    pub(super) fn declare_output(&mut self, node: Node<'t>) -> Compiled {
        self.check_empty(node)?;
        self.output_declarations.place = Place::of(node);
        if let Some(method) = attribute(node, "method")
            && !is_out(&["output method ", method])
        {
            self.output.method = self.method(node, method)?;
        }
        if let Some(name) = attribute(node, "encoding") {
            let found = Encoding::named(name);
            self.output_declarations.encoding = found.ok_or_else(|| {
                let known = "write UTF-8, UTF-16, ISO-8859-1 or US-ASCII";
                self.unsupported(node, format!("unsupported encoding `{name}`; {known}"))
            })?;
        }
        let indent = self.yes_no(node, "indent")?;
        let omit = self.yes_no(node, "omit-xml-declaration")?;
        let standalone = self.yes_no(node, "standalone")?;
        let mut cdata = Vec::new();
        for text in attribute(node, "cdata-section-elements").unwrap_or("").split_whitespace() {
            let name = self.qname(node, text, true)?;
            cdata.push((name.namespace, name.local));
        }
        let text = |name: &str| attribute(node, name).map(str::to_owned);
        let all = &mut self.output_declarations;
        all.indent = indent.or(all.indent);
        all.omit = omit.or(all.omit);
        all.standalone = standalone.or(all.standalone);
        all.version = text("version").or(all.version.take());
        all.public = text("doctype-public").or(all.public.take());
        all.system = text("doctype-system").or(all.system.take());
        all.media_type = text("media-type").or(all.media_type.take());
        all.cdata.extend(cdata);
        Ok(())
    }

    fn method(&self, node: Node<'t>, method: &str) -> Compiled<Method> {
        match method {
            "xml" => Ok(Method::Xml),
            "html" => Ok(Method::Html),
            "text" => Ok(Method::Text),
            other => Err(self.unsupported(node, format!("unsupported output method `{other}`"))),
        }
    }

    /// Combines the declarations.
    pub(super) fn finish_output(&mut self) -> Compiled {
        let all = std::mem::take(&mut self.output_declarations);
        let reject = |kind, message: String| Err(LoadError::at(all.place, kind, message));
        if let (Method::Html, Some(version)) = (self.output.method, &all.version)
            && !is_html_version(version)
        {
            let message = format!("HTML version {version} is not supported");
            return reject(ErrorKind::Unsupported, message);
        }
        // XML is always written as 1.0, which section 16.1 allows.
        let quoted = |text: &Option<String>, bad: &[char]| {
            text.as_ref().is_some_and(|text| bad.iter().all(|quote| text.contains(*quote)))
        };
        if quoted(&all.public, &['"']) || quoted(&all.system, &['"', '\'']) {
            let message =
                "`doctype-public` or `doctype-system` contains quotes that cannot be written";
            return reject(ErrorKind::Invalid, message.to_owned());
        }
        // XML requires a system identifier next to a public one.
        let doctype =
            all.system.clone().map(|system| DoctypeIds { public: all.public.clone(), system });
        self.output.writer = WriterOptions {
            encoding: all.encoding,
            declaration: !all.omit.unwrap_or(false),
            standalone: all.standalone,
            indent: all.indent.unwrap_or(false).then_some(2),
            doctype,
            cdata_elements: all.cdata,
        };
        if let Err(error) = xml::Writer::new(self.output.writer.clone()) {
            return reject(ErrorKind::Invalid, error.to_string());
        }
        self.output.html = Arc::new(HtmlOptions {
            encoding: all.encoding,
            indent: all.indent.unwrap_or(true),
            media_type: all.media_type.clone().unwrap_or_else(|| "text/html".to_owned()),
            public: all.public,
            system: all.system,
        });
        self.output.media_type = all.media_type;
        Ok(())
    }
}
