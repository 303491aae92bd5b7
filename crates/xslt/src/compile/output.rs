//! `xsl:output`: section 16.

use std::sync::Arc;

use xml::{DoctypeIds, Encoding, Node, WriterOptions};

use super::{Compiled, Compiler};
use crate::error::Place;
use crate::html::{HtmlOptions, is_html_version};
use crate::is_out;
use crate::load::said;
use crate::program::Method;

/// What was said so far. The methods have different defaults, so it is looked at when all was read.
#[derive(Debug, Default)]
pub(super) struct Said {
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
    /// Sheets come with ascending precedence, so the last word is the best.
    pub(super) fn declare_output(&mut self, node: Node<'t>) -> Compiled {
        self.check_empty(node)?;
        self.said.place = crate::load::place(node, &self.uri);
        if let Some(method) = said(node, "method")
            && !is_out(&["output method ", method])
        {
            self.output.method = self.method(node, method)?;
        }
        if let Some(name) = said(node, "encoding") {
            let found = Encoding::named(name);
            self.said.encoding = found.ok_or_else(|| {
                let ways = "write UTF-8, UTF-16, ISO-8859-1 or US-ASCII";
                self.refuse(node, format!("not supported: the encoding {name}; {ways}"))
            })?;
        }
        let indent = self.yes_no(node, "indent")?;
        let omit = self.yes_no(node, "omit-xml-declaration")?;
        let standalone = self.yes_no(node, "standalone")?;
        let mut cdata = Vec::new();
        for text in said(node, "cdata-section-elements").unwrap_or("").split_whitespace() {
            let name = self.result_name(node, text, true)?;
            cdata.push((name.namespace, name.local));
        }
        let text = |attribute: &str| said(node, attribute).map(str::to_owned);
        let said = &mut self.said;
        said.indent = indent.or(said.indent);
        said.omit = omit.or(said.omit);
        said.standalone = standalone.or(said.standalone);
        said.version = text("version").or(said.version.take());
        said.public = text("doctype-public").or(said.public.take());
        said.system = text("doctype-system").or(said.system.take());
        said.media_type = text("media-type").or(said.media_type.take());
        said.cdata.extend(cdata);
        Ok(())
    }

    fn method(&self, node: Node<'t>, method: &str) -> Compiled<Method> {
        match method {
            "xml" => Ok(Method::Xml),
            "html" => Ok(Method::Html),
            "text" => Ok(Method::Text),
            other => Err(self.refuse(node, format!("not supported: the output method {other}"))),
        }
    }

    /// What the declarations come to.
    pub(super) fn output_said(&mut self) -> Compiled {
        let said = std::mem::take(&mut self.said);
        let refuse = |message: String| Err(said.place.clone().refuse(message));
        if let (Method::Html, Some(version)) = (self.output.method, &said.version)
            && !is_html_version(version)
        {
            return refuse(format!("not supported: HTML of version {version}"));
        }
        // Section 16.1: an XML processor that doesn't write the version asked for writes one that it can.
        let quoted = |text: &Option<String>, bad: &[char]| {
            text.as_ref().is_some_and(|text| bad.iter().all(|quote| text.contains(*quote)))
        };
        if quoted(&said.public, &['"']) || quoted(&said.system, &['"', '\'']) {
            return refuse("these identifiers can't stand in a document type".to_owned());
        }
        let doctype = said.system.clone().map(|system| {
            // Without a system identifier XML can't say a public one.
            DoctypeIds { public: said.public.clone(), system }
        });
        self.output.writer = WriterOptions {
            encoding: said.encoding,
            declaration: !said.omit.unwrap_or(false),
            standalone: said.standalone,
            indent: said.indent.unwrap_or(false).then_some(2),
            doctype,
            cdata_elements: said.cdata,
        };
        if let Err(error) = xml::Writer::new(self.output.writer.clone()) {
            return refuse(error.to_string());
        }
        self.output.html = Arc::new(HtmlOptions {
            encoding: said.encoding,
            indent: said.indent.unwrap_or(true),
            media_type: said.media_type.clone().unwrap_or_else(|| "text/html".to_owned()),
            public: said.public,
            system: said.system,
        });
        self.output.media_type = said.media_type;
        Ok(())
    }
}
