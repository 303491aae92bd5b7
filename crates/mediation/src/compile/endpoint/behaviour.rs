//! What an endpoint does when its service fails or is slow, and its credentials.

use expression::Expression;

use super::text;
use crate::compile::{Compiler, Element};
use crate::program::{Credentials, Endpoint, Retry, Suspend, TimeoutAction};

impl Compiler {
    pub(super) fn timeout(&mut self, element: &Element<'_>, endpoint: &mut Endpoint) -> Option<()> {
        let mut action = "fault".to_owned();
        for part in element.children() {
            match part.name() {
                "duration" => match part.computed(self, &text(&part))? {
                    Some(computed) => {
                        self.check_untouched(&part, computed.body_use());
                        endpoint.timeout_of = Some(computed);
                    }
                    None => endpoint.timeout.ms = self.number(&part)?,
                },
                "responseAction" | "action" => action = text(&part),
                other => self.error(&part, format!("`timeout` has no child `{other}`"), None),
            }
        }
        endpoint.timeout.action = match action.as_str() {
            "fault" => TimeoutAction::Fault,
            "discard" => TimeoutAction::Discard,
            other => {
                let help = "write `fault` or `discard`".to_owned();
                self.error(element, format!("`responseAction` is `{other}`"), Some(help));
                return None;
            }
        };
        Some(())
    }

    pub(super) fn suspend(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.codes = Some(self.codes(&part)?),
                "initialDuration" => {
                    suspend.initial_ms = self.duration(&part)?.unwrap_or(suspend.initial_ms);
                }
                "maximumDuration" => {
                    suspend.maximum_ms = self.duration(&part)?.unwrap_or(suspend.maximum_ms);
                }
                "progressionFactor" => {
                    suspend.factor = self.number(&part)?;
                    if !suspend.factor.is_finite() || suspend.factor < 0.0 {
                        let message = format!("`progressionFactor` is `{}`", text(&part));
                        self.error(&part, message, Some("write 0 or more".to_owned()));
                    }
                }
                other => {
                    self.error(&part, format!("`suspendOnFailure` has no child `{other}`"), None);
                }
            }
        }
        Some(())
    }

    pub(super) fn retry(&mut self, element: &Element<'_>) -> Option<Retry> {
        let mut retry = Retry::All;
        for part in element.children() {
            retry = match part.name() {
                "enabledErrorCodes" => Retry::Only(self.codes(&part)?),
                "disabledErrorCodes" => Retry::Not(self.codes(&part)?),
                other => {
                    self.error(&part, format!("`retryConfig` has no child `{other}`"), None);
                    continue;
                }
            };
        }
        Some(retry)
    }

    /// `authentication`, with `basicAuth`.
    pub(super) fn credentials(&mut self, element: &Element<'_>) -> Option<Credentials> {
        let Some(basic) = element.child("basicAuth") else {
            let help = "get the token by `call`, and set the header `Authorization`".to_owned();
            let message = "of `authentication`, only `basicAuth` is served".to_owned();
            self.error(element, message, Some(help));
            return None;
        };
        let mut read = |name: &'static str| {
            let Some(part) = basic.child(name) else {
                self.error(&basic, format!("`basicAuth` needs a `{name}`"), None);
                return None;
            };
            let written = text(&part);
            let computed = part.computed(self, &written)?;
            Some(computed.unwrap_or_else(|| Expression::literal(&written)))
        };
        let (user, password) = (read("username"), read("password"));
        basic.finish(self);
        Some(Credentials { user: user?, password: password? })
    }

    pub(super) fn mark(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.marking_codes = self.codes(&part)?,
                "retriesBeforeSuspension" => suspend.retries = self.number(&part)?,
                "retryDelay" => {
                    suspend.retry_delay_ms = self.duration(&part)?.unwrap_or_default();
                }
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

    /// In milliseconds; `-1`, as tools write it, means none.
    fn duration(&mut self, element: &Element<'_>) -> Option<Option<u32>> {
        if text(element) == "-1" { Some(None) } else { self.number(element).map(Some) }
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
