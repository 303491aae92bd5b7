//! `endpoint`: where messages are sent.

use super::{Compiler, Element};
use crate::program::{Endpoint, EndpointId, EndpointKind, Suspend, Timeout, TimeoutAction};

impl Compiler {
    /// Compiles an endpoint definition and gives it a number.
    pub(super) fn define_endpoint(&mut self, element: &Element<'_>) -> Option<EndpointId> {
        let endpoint = self.endpoint_of(element)?;
        let next = u32::try_from(self.program.endpoints.len()).unwrap_or(u32::MAX);
        self.program.endpoints.push(endpoint);
        Some(EndpointId(next))
    }

    pub(super) fn endpoint_of(&mut self, element: &Element<'_>) -> Option<Endpoint> {
        let Some(child) = element.children().find(|child| child.name() != "description") else {
            self.error(element, "the endpoint is empty".to_owned(), None);
            return None;
        };
        let kind = match child.name() {
            "address" => EndpointKind::Address { uri: child.required(self, "uri")?.to_owned() },
            "http" => EndpointKind::Http {
                method: child.optional("method").map(str::to_ascii_uppercase),
                template: child.required(self, "uri-template")?.to_owned(),
            },
            "default" => EndpointKind::Default,
            other => {
                let help = "write an `address`, `http` or `default` endpoint".to_owned();
                self.error(&child, format!("the endpoint `{other}` is not served yet"), Some(help));
                return None;
            }
        };
        child.ignore(&["statistics", "trace"]);
        let mut endpoint =
            Endpoint { kind, timeout: Timeout::default(), suspend: Suspend::default() };
        for part in child.children() {
            match part.name() {
                "timeout" => endpoint.timeout = self.timeout(&part)?,
                "suspendOnFailure" => self.suspend(&part, &mut endpoint.suspend)?,
                "markForSuspension" => self.mark(&part, &mut endpoint.suspend)?,
                other => {
                    let message = format!("`{other}` of an endpoint is not served");
                    self.error(&part, message, None);
                }
            }
        }
        child.finish(self);
        Some(endpoint)
    }

    fn timeout(&mut self, element: &Element<'_>) -> Option<Timeout> {
        let (mut timeout, mut action) = (Timeout::default(), "fault".to_owned());
        for part in element.children() {
            match part.name() {
                "duration" => timeout.ms = self.number(&part)?,
                "responseAction" | "action" => action = text(&part),
                other => self.error(&part, format!("`timeout` has no child `{other}`"), None),
            }
        }
        timeout.action = match action.as_str() {
            "fault" => TimeoutAction::Fault,
            "discard" => TimeoutAction::Discard,
            other => {
                let help = "write `fault` or `discard`".to_owned();
                self.error(element, format!("`responseAction` is `{other}`"), Some(help));
                return None;
            }
        };
        Some(timeout)
    }

    fn suspend(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.codes = Some(self.codes(&part)?),
                "initialDuration" => suspend.initial_ms = self.number(&part)?,
                "maximumDuration" => suspend.maximum_ms = self.number(&part)?,
                "progressionFactor" => suspend.factor = self.number(&part)?,
                other => {
                    self.error(&part, format!("`suspendOnFailure` has no child `{other}`"), None);
                }
            }
        }
        Some(())
    }

    fn mark(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.marking_codes = self.codes(&part)?,
                "retriesBeforeSuspension" => suspend.retries = self.number(&part)?,
                "retryDelay" => suspend.retry_delay_ms = self.number(&part)?,
                other => {
                    self.error(&part, format!("`markForSuspension` has no child `{other}`"), None);
                }
            }
        }
        Some(())
    }

    /// Error codes, separated by commas; `-1`, no code of ours, means none.
    fn codes(&mut self, element: &Element<'_>) -> Option<Vec<u32>> {
        let all = text(element);
        let mut codes = Vec::new();
        for code in all.split(',').map(str::trim).filter(|code| !code.is_empty() && *code != "-1") {
            match code.parse() {
                Ok(code) => codes.push(code),
                Err(_) => {
                    self.error(element, format!("`{code}` is not an error code"), None);
                    return None;
                }
            }
        }
        Some(codes)
    }

    fn number<T: std::str::FromStr>(&mut self, element: &Element<'_>) -> Option<T> {
        let written = text(element);
        let number = written.parse().ok();
        if number.is_none() {
            self.error(element, format!("`{}` is `{written}`, not a number", element.name()), None);
        }
        number
    }
}

fn text(element: &Element<'_>) -> String {
    element.node().string_value().trim().to_owned()
}
