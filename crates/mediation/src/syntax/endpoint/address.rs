//! Addresses of endpoints.

use crate::program::uri_template::LEGACY;
use crate::syntax::{Compiler, Element};

/// Transports of Micro Integrator, beside HTTP, whose addresses need not have slashes.
const OTHER_TRANSPORTS: &[&str] = &[
    "fix", "ftp", "hl7", "jms", "kafka", "local", "mailto", "mqtt", "msmq", "rabbitmq", "sftp",
    "tcp", "vfs", "ws", "wss",
];

impl Compiler {
    /// Rejects an address that no message can be sent to, as far as that can be seen before its parameters have values.
    pub(super) fn check_address(&mut self, element: &Element<'_>, address: &str) -> Option<()> {
        let address = address.strip_prefix(LEGACY).unwrap_or(address);
        let fixed = address.split('{').next().unwrap_or_default();
        let is_whole = fixed.len() == address.len();
        // A parameter of a template, for example.
        if fixed.contains('$') {
            return Some(());
        }
        let scheme = fixed.split_once(':').map_or("", |(scheme, _)| scheme);
        if OTHER_TRANSPORTS.contains(&scheme.to_ascii_lowercase().as_str()) {
            return self.reject_transport(element, scheme);
        }
        let Some((scheme, rest)) = fixed.split_once("://") else {
            if !is_whole {
                return Some(());
            }
            let help = "write `http://host/path` or `https://host/path`";
            let message = format!("`{address}` is not an absolute URL");
            return self.reject(element, message, Some(help));
        };
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return self.reject_transport(element, scheme);
        }
        let end = rest.find(['/', '?', '#']);
        let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if authority.contains('@') {
            let help = "configure `authentication` of an `http` endpoint";
            let message = format!("`{address}` contains user information");
            return self.reject(element, message, Some(help));
        }
        // An address of IPv6 has colons, too.
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| !port.ends_with(']'));
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        let is_plain = authority.bytes().all(|byte| byte.is_ascii_graphic());
        let is_complete = is_whole || end.is_some();
        if !is_plain || is_complete && (!is_port || authority.is_empty()) {
            let message = format!("`{address}` has a malformed host or port");
            return self.reject(element, message, None);
        }
        Some(())
    }

    fn reject_transport<T>(&mut self, element: &Element<'_>, scheme: &str) -> Option<T> {
        let help = match scheme {
            "local" => "call the sequence of the service, or the service by its URL",
            _ => "messages are sent over http and https: call a service that does it",
        };
        self.reject(element, format!("the transport `{scheme}` is not supported"), Some(help))
    }
}
