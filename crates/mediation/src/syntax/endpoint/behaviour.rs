//! Behaviour of an endpoint whose service fails or is slow, and its credentials.

use std::collections::BTreeMap;

use expression::Expression;
use model::{BackendClient, BackendGrant};

use super::text;
use crate::program::{Addressing, Credentials, Endpoint, Retry, Suspend, TimeoutAction};
use crate::syntax::{Compiler, Element};

/// Members of a grant of `oauth` besides `requestParameters`.
const OAUTH_TEXTS: [&str; 7] =
    ["authMode", "clientId", "clientSecret", "password", "refreshToken", "tokenUrl", "username"];

impl Compiler {
    pub(super) fn timeout(&mut self, element: &Element<'_>, endpoint: &mut Endpoint) -> Option<()> {
        let mut action = "fault".to_owned();
        let own = text(element);
        if !own.is_empty() && element.children().next().is_none() {
            let help = format!("write `<duration>{own}</duration>` in it, in milliseconds");
            self.warning(element, "the text of `timeout` has no effect", Some(&help));
        }
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
                _ => element.ignores(self, &part, &["duration", "responseAction"]),
            }
        }
        endpoint.timeout.action = match action.as_str() {
            "fault" => TimeoutAction::Fault,
            "discard" => TimeoutAction::Discard,
            other => {
                let help = "write `fault` or `discard`";
                return self.reject(
                    element,
                    format!("unknown value `{other}` of `responseAction`"),
                    Some(help),
                );
            }
        };
        Some(())
    }

    pub(super) fn suspend(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.codes = Some(self.codes(&part)?),
                "initialDuration" => suspend.initial_ms = self.duration(&part)?,
                "maximumDuration" => {
                    suspend.maximum_ms = self.duration(&part)?.unwrap_or(suspend.maximum_ms);
                }
                "progressionFactor" => {
                    suspend.factor = self.number(&part)?;
                    if !suspend.factor.is_finite() {
                        let message = format!("`progressionFactor` is `{}`", text(&part));
                        self.error(&part, message, Some("write a number"));
                    }
                }
                _ => {
                    let known =
                        ["errorCodes", "initialDuration", "maximumDuration", "progressionFactor"];
                    element.ignores(self, &part, &known);
                }
            }
        }
        Some(())
    }

    /// `suspendDurationOnFailure`, in seconds, from before `suspendOnFailure`. Source: Synapse's
    /// `EndpointDefinitionFactory`.
    pub(super) fn suspend_for(
        &mut self,
        element: &Element<'_>,
        suspend: &mut Suspend,
    ) -> Option<()> {
        let seconds: u32 = self.number(element)?;
        let initial_ms = seconds.saturating_mul(1_000);
        (suspend.initial_ms, suspend.factor) = (Some(initial_ms), 1.0);
        let help = format!(
            "write <suspendOnFailure> with <initialDuration>{initial_ms}</initialDuration>"
        );
        self.warning(element, "`suspendDurationOnFailure` is obsolete", Some(&help));
        Some(())
    }

    pub(super) fn retry(&mut self, element: &Element<'_>) -> Option<Retry> {
        let mut retry = Retry::All;
        for part in element.children() {
            retry = match part.name() {
                "enabledErrorCodes" => Retry::Only(self.codes(&part)?),
                "disabledErrorCodes" => Retry::Not(self.codes(&part)?),
                _ => {
                    element.ignores(self, &part, &["enabledErrorCodes", "disabledErrorCodes"]);
                    continue;
                }
            };
        }
        Some(retry)
    }

    /// `authentication`: `basicAuth`, or a grant of `oauth`.
    pub(super) fn credentials(&mut self, element: &Element<'_>) -> Option<Credentials> {
        if let Some(oauth) = element.child("oauth") {
            let grant = oauth.children().next();
            let Some(grant) = grant else {
                let help =
                    "write `clientCredentials`, `passwordCredentials` or `authorizationCode`";
                return self.reject(&oauth, "`oauth` has no grant", Some(help));
            };
            return self.client(&grant).map(|client| Credentials::Token(Box::new(client)));
        }
        let Some(basic) = element.child("basicAuth") else {
            let help = "write `basicAuth` or `oauth`";
            return self.reject(element, "`authentication` is empty", Some(help));
        };
        let mut read = |name: &'static str| {
            let Some(part) = basic.child(name) else {
                return self.reject(&basic, format!("`basicAuth` needs a `{name}`"), None);
            };
            let written = text(&part);
            let computed = part.computed(self, &written)?;
            Some(computed.unwrap_or_else(|| Expression::literal(&written)))
        };
        let (user, password) = (read("username"), read("password"));
        basic.finish(self);
        Some(Credentials::Basic { user: user?, password: password? })
    }

    /// A grant of `oauth`. Source: Micro Integrator's `OAuthUtils`.
    fn client(&mut self, grant: &Element<'_>) -> Option<BackendClient> {
        let (mut texts, mut client) = (BTreeMap::new(), BackendClient::default());
        for part in grant.children() {
            match part.name() {
                name if OAUTH_TEXTS.contains(&name) => {
                    texts.insert(name.to_owned(), self.constant(&part)?);
                }
                "requestParameters" => {
                    for parameter in part.children() {
                        let name = parameter.required(self, "name")?.to_owned();
                        client.parameters.push((name, self.constant(&parameter)?));
                        parameter.finish(self);
                    }
                }
                "useGlobalProxyConfigs" if text(&part) == "false" => {}
                other => {
                    self.error(&part, format!("`{other}` of `oauth` is not supported"), None);
                }
            }
            part.finish(self);
        }
        let mut missing = Vec::new();
        let mut take = |name: &'static str| {
            let found = texts.remove(name).filter(|text| !text.is_empty());
            missing.extend(found.is_none().then_some(name));
            found.unwrap_or_default()
        };
        client.token_url = take("tokenUrl");
        client.client_id = take("clientId");
        client.client_secret = take("clientSecret").into_bytes();
        client.grant = match grant.name() {
            "clientCredentials" => BackendGrant::ClientCredentials,
            "passwordCredentials" => {
                BackendGrant::Password { username: take("username"), password: take("password") }
            }
            "authorizationCode" => BackendGrant::RefreshToken(take("refreshToken")),
            other => return self.reject(grant, format!("`oauth` has no grant `{other}`"), None),
        };
        client.in_form = match texts.remove("authMode").unwrap_or_default().to_lowercase().as_str()
        {
            "" | "header" => false,
            "payload" => true,
            other => {
                let help = "write `header` or `payload`";
                return self.reject(
                    grant,
                    format!("unknown value `{other}` of `authMode`"),
                    Some(help),
                );
            }
        };
        for name in &missing {
            self.error(grant, format!("`{}` needs a `{name}`", grant.name()), None);
        }
        if !["https://", "http://"].iter().any(|scheme| client.token_url.starts_with(scheme)) {
            let message = format!("`tokenUrl` is `{}`", client.token_url);
            return self.reject(grant, message, Some("write a URL with https://"));
        }
        missing.is_empty().then_some(client)
    }

    /// A text that is the same for all messages: each `${configs.NAME}` in it is read when the artefact is loaded. It
    /// may be a secret, which no diagnostic shows.
    fn constant(&mut self, element: &Element<'_>) -> Option<String> {
        let written = text(element);
        let mut is_expression = written.starts_with('{') && written.ends_with('}');
        let (mut constant, mut rest) = (String::new(), &*written);
        while let Some((before, after)) = rest.split_once("${").filter(|_| !is_expression) {
            let config = after.strip_prefix("configs.").and_then(|after| after.split_once('}'));
            let Some((name, after)) = config else {
                is_expression = true;
                break;
            };
            let Some(value) = self.program.configs.get(name) else {
                let help = format!("set the environment variable `{name}`");
                return self.reject(element, format!("`configs.{name}` has no value"), Some(&help));
            };
            constant.push_str(before);
            constant.push_str(value);
            rest = after;
        }
        if is_expression {
            let help = "write the value, or `${configs.NAME}`";
            let name = element.name();
            let message = format!("`{name}` is an expression: tokens are shared by all messages");
            return self.reject(element, message, Some(help));
        }
        constant.push_str(rest);
        Some(constant)
    }

    /// `enableAddressing version="..." separateListener="..."`
    pub(super) fn addressing(&mut self, element: &Element<'_>) -> Option<Addressing> {
        let versions = [("final", Addressing::Final), ("submission", Addressing::Submission)];
        let version = element.choice(self, "version", &versions)?;
        if element.flag(self, "separateListener", false)? {
            let message = "`separateListener` has no effect: the response arrives on the connection of the request";
            let help = "remove it if the service responds on that connection";
            self.warning(element, message, Some(help));
        }
        element.finish(self);
        Some(version)
    }

    pub(super) fn mark(&mut self, element: &Element<'_>, suspend: &mut Suspend) -> Option<()> {
        for part in element.children() {
            match part.name() {
                "errorCodes" => suspend.marking_codes = self.codes(&part)?,
                "retriesBeforeSuspension" => suspend.retries = self.number(&part)?,
                "retryDelay" => {
                    suspend.retry_delay_ms = self.duration(&part)?.unwrap_or_default();
                }
                _ => {
                    let known = ["errorCodes", "retriesBeforeSuspension", "retryDelay"];
                    element.ignores(self, &part, &known);
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
                    return self.reject(element, format!("`{code}` is not an error code"), None);
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
