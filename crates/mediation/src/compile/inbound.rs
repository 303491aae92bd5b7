//! `inboundEndpoint`: a listener of its own.

use crate::mediators::values::pattern;
use crate::program::{Flow, Inbound, Pattern};
use crate::syntax::{Compiler, Element};

/// Parameters that size threads, which are the gateway's, or files with keys, which `[tls]` has.
const NEEDLESS: [&str; 2] = ["inbound.worker.", "inbound.thread."];
const OF_TLS: [&str; 5] =
    ["keystore", "truststore", "HttpsProtocols", "PreferredCiphers", "SSLProtocol"];

#[derive(Default)]
struct Parameters {
    port: Option<u16>,
    dispatches: Option<Pattern>,
}

impl Compiler {
    pub(super) fn inbound(&mut self, element: &Element<'_>) -> Option<()> {
        let name = element.required(self, "name")?.to_owned();
        let is_first = self.claims("inboundEndpoint", &name, element);
        let class = element.attribute("class").map(|_| "class");
        let secure = match class.or(element.optional("protocol")) {
            Some("http") => false,
            Some("https") => true,
            other => {
                let help = "receive the messages over HTTP, with an API, a proxy, or an inbound endpoint of protocol \
                            `http`";
                let message = match other {
                    Some("class") => "inbound endpoints of a `class` are not supported".to_owned(),
                    other => {
                        let other = other.unwrap_or_default();
                        format!("the inbound protocol `{other}` is not supported")
                    }
                };
                return self.reject(element, message, Some(help));
            }
        };
        let is_suspended = element.flag(self, "suspend", false)?;
        let named = |name| element.optional(name);
        let request = match named("sequence") {
            Some(sequence) => Some(self.sequence_named(element, sequence)?),
            None => self.program.sequence("main"),
        };
        let fault = match named("onError") {
            Some(sequence) => Some(self.sequence_named(element, sequence)?),
            None => None,
        };
        // A response without a `receive` of its own comes to `main`, as in Synapse.
        let response = self.program.sequence("main");
        let flow = Flow { request, response, fault, endpoint: None };
        let Parameters { port, dispatches } = self.inbound_parameters(element)?;
        let Some(port) = port else {
            let help = "add <parameter name=\"inbound.http.port\">8085</parameter>";
            let message = format!("the inbound endpoint `{name}` has no port");
            return self.reject(element, message, Some(help));
        };
        if is_suspended {
            let message =
                format!("the inbound endpoint `{name}` is not served: it has `suspend=\"true\"`");
            self.warning(element, message, None);
        } else if let Some(other) = self.program.inbounds.iter().find(|other| other.port == port) {
            let message = format!("port {port} is used by the inbound endpoint `{}`", other.name);
            self.error(element, message, Some("choose another port"));
        } else if is_first {
            let site = self.site(element);
            self.program.inbounds.push(Inbound { name, port, secure, flow, dispatches, site });
        }
        Some(())
    }

    fn inbound_parameters(&mut self, element: &Element<'_>) -> Option<Parameters> {
        let mut found = Parameters::default();
        let parameters = element.child("parameters");
        for parameter in parameters.iter().flat_map(|all| all.children().collect::<Vec<_>>()) {
            if parameter.name() != "parameter" {
                if let Some(all) = &parameters {
                    all.ignores(self, &parameter, &["parameter"]);
                }
                continue;
            }
            let key = parameter.required(self, "name")?;
            let text = parameter.node().string_value();
            let text = text.trim();
            match key {
                "inbound.http.port" => found.port = Some(self.port(&parameter, text)?),
                "dispatch.filter.pattern" if text.is_empty() => {}
                "dispatch.filter.pattern" => {
                    found.dispatches = Some(pattern::compile(self, &parameter, text)?);
                }
                "SSLVerifyClient" if !text.eq_ignore_ascii_case("none") && !text.is_empty() => {
                    let help =
                        "set `client_certificate` in `[tls]`, which applies to all listeners";
                    let message = "`SSLVerifyClient` is not supported";
                    self.error(&parameter, message, Some(help));
                }
                _ => self.needless(&parameter, key),
            }
            parameter.finish(self);
        }
        Some(found)
    }

    fn port(&mut self, element: &Element<'_>, text: &str) -> Option<u16> {
        let port = text.parse().ok();
        if port.is_none() {
            let message = format!("`inbound.http.port` is `{text}`");
            self.error(element, message, Some("write a number up to 65535; 0 is any free port"));
        }
        port
    }

    /// A parameter that has no effect.
    fn needless(&mut self, element: &Element<'_>, name: &str) {
        if NEEDLESS.iter().any(|prefix| name.starts_with(prefix)) || name == "SSLVerifyClient" {
            return;
        }
        let help =
            OF_TLS.contains(&name).then(|| "`[tls]` has certificates and protocols".to_owned());
        self.warning(element, format!("the parameter `{name}` has no effect"), help.as_deref());
    }
}
