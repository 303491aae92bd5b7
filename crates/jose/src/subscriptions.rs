//! The subscriptions that a token itself lists, as API Microgateway and older API Managers issue them.

use crate::error::TokenError;
use crate::json::{Object, Value};

/// The claims `subscribedAPIs`, `tierInfo` and `application`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSubscriptions {
    /// The subscribed APIs, never empty.
    pub apis: Vec<SubscribedApi>,
    /// The identifier of the application: its UUID, else its number, else its name.
    pub application: Option<String>,
    /// The plan of the application.
    pub tier: Option<String>,
}

/// An entry of `subscribedAPIs`, with the limits of its tier from `tierInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribedApi {
    pub name: String,
    /// The version; `*` for any.
    pub version: String,
    /// `subscriptionTier`. Also absent if `stopOnQuotaReach` is false.
    pub tier: Option<String>,
    /// `spikeArrestLimit`: a number of requests, and the milliseconds in which they are allowed.
    pub burst: Option<(u64, u64)>,
}

impl TokenSubscriptions {
    /// Memory of the subscriptions, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let api = |api: &SubscribedApi| {
            let texts = [api.name.len(), api.version.len(), text(&api.tier)];
            texts.into_iter().fold(size_of::<SubscribedApi>(), usize::saturating_add)
        };
        let own = [size_of::<Self>(), text(&self.application), text(&self.tier)];
        self.apis.iter().map(api).chain(own).fold(0, usize::saturating_add)
    }

    /// The subscriptions among the claims; `None` without the claim, or with an empty list. API keys of Microgateway
    /// have the list in `allowedAPIs`.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if `subscribedAPIs` is not a list of APIs with name and version.
    pub(crate) fn of(claims: &Object<'_>) -> Result<Option<Box<Self>>, TokenError> {
        const PROBLEM: TokenError =
            TokenError::Malformed("`subscribedAPIs` is not a list of APIs with name and version");
        let list = claims.get("subscribedAPIs").or_else(|| claims.get("allowedAPIs"));
        let listed = match list {
            None => return Ok(None),
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err(PROBLEM),
        };
        let tiers = claims.get("tierInfo").and_then(Value::as_object);
        let api = |value: &Value<'_>| SubscribedApi::of(value.as_object()?, tiers);
        let apis: Vec<_> = listed.iter().map(api).collect::<Option<_>>().ok_or(PROBLEM)?;
        let application = claims.get("application").and_then(Value::as_object);
        let of_application = |name| application.and_then(|it| text(it, name));
        let found = Self {
            apis,
            application: ["uuid", "id", "name"].into_iter().find_map(of_application),
            tier: of_application("tier"),
        };
        Ok((!found.apis.is_empty()).then(|| Box::new(found)))
    }
}

impl SubscribedApi {
    fn of(api: &Object<'_>, tiers: Option<&Object<'_>>) -> Option<Self> {
        let tier = text(api, "subscriptionTier");
        let of_tier = tier.as_deref().and_then(|tier| tiers?.get(tier)).and_then(Value::as_object);
        let member = |name| of_tier.and_then(|tier| tier.get(name));
        let stops = member("stopOnQuotaReach") != Some(&Value::Bool(false));
        let unit_ms = match of_tier.and_then(|tier| text(tier, "spikeArrestUnit")).as_deref() {
            Some("min") => 60_000,
            _ => 1_000,
        };
        let burst = match member("spikeArrestLimit") {
            Some(Value::Unsigned(limit)) if *limit > 0 => Some((*limit, unit_ms)),
            _ => None,
        };
        let (name, version) = (text(api, "name")?, text(api, "version")?);
        Some(Self { name, version, tier: tier.filter(|_| stops), burst })
    }
}

/// A string, or the digits of a whole number.
fn text(object: &Object<'_>, name: &str) -> Option<String> {
    let value = object.get(name)?;
    if let Value::Unsigned(number) = value {
        return Some(number.to_string());
    }
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_object;

    #[test]
    fn subscriptions_are_read_with_their_tiers() {
        let found = read(
            r#"{"subscribedAPIs":[{"name":"Echo","version":"1.0.0","context":"/echo/1.0.0","subscriptionTier":"Gold"},
                {"name":"Pay","version":2,"subscriptionTier":"Free"},{"name":"X","version":"1","subscriptionTier":null}],
                "tierInfo":{"Gold":{"stopOnQuotaReach":true,"spikeArrestLimit":5,"spikeArrestUnit":"min"},
                "Free":{"stopOnQuotaReach":false,"spikeArrestLimit":0,"spikeArrestUnit":null}},
                "application":{"id":7,"name":"app","tier":"50PerMin"}}"#,
        );
        let api = |name: &str, version: &str, tier: Option<&str>, burst| SubscribedApi {
            name: name.to_owned(),
            version: version.to_owned(),
            tier: tier.map(str::to_owned),
            burst,
        };
        let apis = vec![
            api("Echo", "1.0.0", Some("Gold"), Some((5, 60_000))),
            api("Pay", "2", None, None),
            api("X", "1", None, None),
        ];
        let (application, tier) = (Some("7".to_owned()), Some("50PerMin".to_owned()));
        assert_eq!(found, Ok(Some(Box::new(TokenSubscriptions { apis, application, tier }))));
    }

    #[test]
    fn other_tokens_have_none_and_a_malformed_list_is_rejected() {
        for claims in [
            "{}",
            r#"{"subscribedAPIs":[]}"#,
            r#"{"subscribedAPIs":null}"#,
            r#"{"application":"x","tierInfo":[1]}"#,
        ] {
            assert_eq!(read(claims), Ok(None), "{claims}");
        }
        for list in [r#""Echo""#, "{}", "[1]", "[[]]", "[{}]", r#"[{"name":"a"}]"#] {
            assert!(read(&format!(r#"{{"subscribedAPIs":{list}}}"#)).is_err(), "{list}");
        }
        let lenient =
            r#"{"subscribedAPIs":[{"name":"a","version":"1"}],"application":1,"tierInfo":"x"}"#;
        assert!(read(lenient).is_ok_and(|found| found.is_some()));
        let allowed = read(r#"{"allowedAPIs":[{"name":"a","version":"*"}]}"#);
        assert!(allowed.is_ok_and(|found| found.is_some_and(|of| of.apis[0].version == "*")));
    }

    fn read(claims: &str) -> Result<Option<Box<TokenSubscriptions>>, TokenError> {
        let object = parse_object(claims.as_bytes()).map_err(|_| TokenError::Malformed("test"))?;
        TokenSubscriptions::of(&object)
    }
}
