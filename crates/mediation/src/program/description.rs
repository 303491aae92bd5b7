//! Descriptions of services: `?wsdl` of a proxy, `?swagger.json` of an API.

use std::collections::BTreeMap;

use expression::json;

use crate::program::{Api, EndpointKind, Program, Proxy, ResourcePath, uri_template};

/// A WSDL and the documents that it imports, in which the addresses are those of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wsdl {
    main: Text,
    /// By the location that imports name.
    imported: Vec<(String, Text)>,
}

/// Text between the addresses of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(Vec<String>);

impl Wsdl {
    /// The WSDL in `bytes`, without documents that it imports.
    ///
    /// # Errors
    /// It is none, for the log.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let document = xml::Document::parse(bytes).map_err(|error| error.to_string())?;
        Self::new(&document, &[]).ok_or_else(|| "not a WSDL document".to_owned())
    }

    /// `None`: the document is not a WSDL.
    pub(crate) fn new(
        document: &xml::Document,
        imported: &[(String, xml::Document)],
    ) -> Option<Self> {
        let root = document.element()?;
        if !matches!(root.local_name(), "definitions" | "description") {
            return None;
        }
        let text = |document| Text::new(document, imported);
        let all = imported.iter().map(|(location, of)| Some((location.clone(), text(of)?)));
        Some(Self { main: text(document)?, imported: all.collect::<Option<_>>()? })
    }

    /// The document that `query` asks for, with the service at `url`: `wsdl`, or `xsd=LOCATION` as in imports.
    #[must_use]
    pub fn text(&self, query: &str, url: &str) -> Option<String> {
        let text = match query {
            "wsdl" => &self.main,
            _ => {
                let location = uri_template::decode(query.strip_prefix(IMPORTED)?);
                &self.imported.iter().find(|(known, _)| *known == location)?.1
            }
        };
        Some(text.0.join(&escaped(url)))
    }
}

/// The query of an imported document, before its location. Source: Axis2.
const IMPORTED: &str = "xsd=";

/// Where `node` imports a document from.
pub(crate) fn import<'d>(node: xml::Node<'d>) -> Option<(&'static str, &'d str)> {
    if !matches!(node.local_name(), "import" | "include" | "redefine") {
        return None;
    }
    let names = ["schemaLocation", "location"];
    names.into_iter().find_map(|name| Some((name, node.attribute("", name)?)))
}

impl Text {
    fn new(document: &xml::Document, imported: &[(String, xml::Document)]) -> Option<Self> {
        // A copy has node ids of its own.
        let mut document = document.clone();
        let mut edits = Vec::new();
        for node in document.root().descendants().filter(|node| node.is_element()) {
            // Source: WSDL 1.1 section 3.8, WSDL 2.0 section 2.15.
            let (name, mut new) = match node.local_name() {
                "address" => ("location", SPLIT.to_owned()),
                "endpoint" => ("address", SPLIT.to_owned()),
                _ => {
                    let Some((name, location)) = import(node) else { continue };
                    if !imported.iter().any(|(known, _)| known == location) {
                        continue;
                    }
                    (name, format!("{SPLIT}?{IMPORTED}"))
                }
            };
            let is_it = |attribute: &xml::Node<'_>| {
                attribute.namespace().is_empty() && attribute.local_name() == name
            };
            let Some(attribute) = node.attributes().find(is_it) else { continue };
            if new != SPLIT {
                uri_template::encode(&mut new, attribute.text(), false);
            }
            edits.push((attribute.id(), new));
        }
        for (attribute, new) in edits {
            document.set_text(attribute, &new).ok()?;
        }
        let text = String::from_utf8(document.write(xml::WriterOptions::default()).ok()?).ok()?;
        Some(Self(text.split(SPLIT).map(str::to_owned).collect()))
    }
}

/// Stands for the URL of the service: a noncharacter, which no document needs.
const SPLIT: &str = "\u{fdd0}";

/// As the writer does it in an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

impl Proxy {
    /// What `query` asks of its WSDL, with the proxy at `url`. One that publishes none has one operation, `mediate`,
    /// whose messages may be anything, as Axis2 describes it. See [`Program::wsdl_url`], too.
    #[must_use]
    pub fn wsdl_text(&self, query: &str, url: &str) -> Option<String> {
        match &self.wsdl {
            Some(wsdl) => wsdl.text(query, url),
            None => (query == "wsdl").then(|| generated(&self.name, url)),
        }
    }
}

impl Program {
    /// Where the WSDL is that a proxy publishes as that of an endpoint. Source: Synapse's `ProxyService`.
    #[must_use]
    pub fn wsdl_url(&self, proxy: &Proxy) -> Option<String> {
        let endpoint = proxy.described_by.filter(|_| proxy.wsdl.is_none())?;
        let EndpointKind::Address { uri } = &self.endpoint_at(endpoint)?.kind else { return None };
        Some(format!("{}?wsdl", uri.split('?').next().unwrap_or_default()))
    }
}

/// Source: WSDL 1.1, and its binding for SOAP 1.2.
fn generated(name: &str, url: &str) -> String {
    let (name, url) = (escaped(name), escaped(url));
    let binding = |prefix: &str, version: &str| {
        format!(
            "<wsdl:binding name=\"{name}{version}Binding\" type=\"tns:{name}PortType\">\
             <{prefix}:binding transport=\"http://schemas.xmlsoap.org/soap/http\" style=\"document\"/>\
             <wsdl:operation name=\"mediate\"><{prefix}:operation soapAction=\"urn:mediate\" style=\"document\"/>\
             <wsdl:input><{prefix}:body use=\"literal\"/></wsdl:input>\
             <wsdl:output><{prefix}:body use=\"literal\"/></wsdl:output></wsdl:operation></wsdl:binding>"
        )
    };
    let port = |prefix: &str, version: &str| {
        format!(
            "<wsdl:port name=\"{name}Http{version}Endpoint\" binding=\"tns:{name}{version}Binding\">\
             <{prefix}:address location=\"{url}\"/></wsdl:port>"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <wsdl:definitions name=\"{name}\" targetNamespace=\"http://ws.apache.org/axis2\" \
         xmlns:tns=\"http://ws.apache.org/axis2\" xmlns:wsdl=\"http://schemas.xmlsoap.org/wsdl/\" \
         xmlns:soap=\"http://schemas.xmlsoap.org/wsdl/soap/\" xmlns:soap12=\"http://schemas.xmlsoap.org/wsdl/soap12/\">\
         <wsdl:message name=\"mediateRequest\"/><wsdl:message name=\"mediateResponse\"/>\
         <wsdl:portType name=\"{name}PortType\"><wsdl:operation name=\"mediate\">\
         <wsdl:input message=\"tns:mediateRequest\"/><wsdl:output message=\"tns:mediateResponse\"/>\
         </wsdl:operation></wsdl:portType>{}{}<wsdl:service name=\"{name}\">{}{}</wsdl:service></wsdl:definitions>\n",
        binding("soap", "Soap11"),
        binding("soap12", "Soap12"),
        port("soap", "Soap11"),
        port("soap12", "Soap12"),
    )
}

/// The methods of a resource that names none.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];

impl Api {
    /// Its description as JSON or YAML: the document of `publishSwagger`, if that is in this format.
    #[must_use]
    pub fn swagger(&self, is_json: bool, url: &str) -> String {
        let published = self.swagger.as_deref().filter(|text| !is_json || is_object(text));
        published.map_or_else(|| self.openapi(url), str::to_owned)
    }

    /// An OpenAPI description of its resources, in JSON, with the API at `url`.
    fn openapi(&self, url: &str) -> String {
        let mut paths: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for resource in &self.resources {
            let (path, variables) = described(&resource.path);
            let own = resource.methods.iter().map(String::as_str);
            let all = METHODS.into_iter().filter(|_| resource.methods.is_empty());
            for method in own.chain(all) {
                let methods = paths.entry(path.clone()).or_default();
                methods.entry(method.to_ascii_lowercase()).or_insert_with(|| variables.clone());
            }
        }
        let mut out = json::Builder::new();
        out.begin_object().key("openapi").string("3.0.3").key("info").begin_object();
        out.key("title").string(&self.name);
        out.key("version").string(self.version.as_deref().unwrap_or("1.0.0")).end();
        out.key("servers").begin_array().begin_object().key("url").string(url).end().end();
        out.key("paths").begin_object();
        for (path, methods) in &paths {
            out.key(path).begin_object();
            for (method, variables) in methods {
                out.key(method).begin_object();
                write_parameters(variables, &mut out);
                out.key("responses").begin_object().key("default").begin_object();
                out.key("description").string("Default response").end().end().end();
            }
            out.end();
        }
        out.end().end();
        out.finish().text().to_owned()
    }
}

/// Whether a description is in JSON, which is YAML, too.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn write_parameters(variables: &[String], out: &mut json::Builder) {
    if variables.is_empty() {
        return;
    }
    out.key("parameters").begin_array();
    for name in variables {
        out.begin_object().key("name").string(name).key("in").string("path");
        out.key("required").boolean(true);
        out.key("schema").begin_object().key("type").string("string").end().end();
    }
    out.end();
}

/// A path as OpenAPI writes it, and its variables.
fn described(path: &ResourcePath) -> (String, Vec<String>) {
    let template = match path {
        ResourcePath::Template(template) => template.split('?').next().unwrap_or_default(),
        ResourcePath::Mapping(mapping) if mapping.starts_with('/') => {
            return (mapping.clone(), Vec::new());
        }
        ResourcePath::Mapping(mapping) => return (format!("/{mapping}"), Vec::new()),
        ResourcePath::Any => return ("/*".to_owned(), Vec::new()),
    };
    // `{+name}` is a variable too. Source: RFC 6570 section 3.2.
    let template = template.replace("{+", "{").replace("{/", "/{");
    let names = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let names = names.map(str::to_owned).collect();
    (template, names)
}
