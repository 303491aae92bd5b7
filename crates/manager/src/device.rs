//! Devices without a browser: the user signs in on another one, with a short code. Source: RFC 8628.

use base::Entropy;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use store::{Client, Decision, Device};

use crate::attempts::{Who, network};
use crate::form::Form;
use crate::manager::Manager;
use crate::metadata::origin;
use crate::oidc::{OPENID, SignIn, with_parameters};
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::sign_in::{Page, SignedIn};
use crate::token::{Grant, Requester, granted, has, issue};
use crate::{federation, limits, outside, reply, secrets, sign_in};

pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

pub(crate) const PAGE: &str = "/oauth2/device";

/// Without vowels, which could spell words. Source: RFC 8628 section 6.1.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const HALF: usize = 4;

/// `/oauth2/device_authorize`: a device asks for its two codes.
pub(crate) async fn authorize(
    manager: &Manager,
    head: &HeaderMap,
    form: &Form,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let client = manager.client_or_public(head, form, peer).await?;
    if !has(&client.grants, GRANT) {
        return Err(Refusal::UnauthorizedClient);
    }
    manager.admit_device(&client.id)?;
    if client.is_public() {
        // Anybody can ask. No attempt has succeeded before a user decides.
        let who = [Who::Devices(network(peer.address))];
        manager.begin(&who).await?;
        manager.failed(&who).await;
    }
    let (code, user_code) = (secrets::secret(manager.entropy()), user_code(manager.entropy()));
    let device = Device {
        hash: secrets::hash(&code),
        user_code: user_code.clone(),
        family: secrets::identifier(manager.entropy()),
        scope: granted(form.get("scope"), &client.scopes, Some(OPENID)),
        client: client.id,
        expires_s: manager.now_s().saturating_add(limits::DEVICE_CODE_S),
        decision: Decision::Pending,
        subject: String::new(),
        decided_s: 0,
        auth_s: 0,
    };
    if !manager.store.add_device(&device).await? {
        return Err(Refusal::Unavailable);
    }
    let page = format!("{}/oauth2/device", origin(&manager.issuer));
    let body = json!({
        "device_code": code,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": with_parameters(&page, [("user_code", user_code.as_str())]),
        "expires_in": limits::DEVICE_CODE_S,
        "interval": limits::DEVICE_POLL_S,
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// GET: the page on which the user enters the code, or, with a code, decides.
pub(crate) async fn ask(
    manager: &Manager,
    form: &Form,
    signed_in: SignedIn<'_>,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    match form.get("user_code") {
        None => Ok(code_page(StatusCode::OK, "")),
        Some(code) => match waiting(manager, code, peer).await? {
            Some((device, client)) => {
                let page = DecisionPage { manager, device: &device, client: &client, signed_in };
                Ok(page.reply(StatusCode::OK, "", ""))
            }
            None => Ok(code_page(StatusCode::BAD_REQUEST, "The code is not valid.")),
        },
    }
}

/// POST: the user's decision.
pub(crate) async fn decide(manager: &Manager, form: &Form, peer: &Peer) -> Result<Reply, Refusal> {
    let code = form.required("user_code", "`user_code` is missing")?;
    let Some((device, client)) = waiting(manager, code, peer).await? else {
        return Ok(code_page(StatusCode::BAD_REQUEST, "The code is not valid."));
    };
    let target = with_parameters(PAGE, [("user_code", device.user_code.as_str())]);
    if let Some(provider) = form.get("provider") {
        return federation::begin(manager, provider, (target, None)).await;
    }
    let user = if form.get("decision") == Some("allow") {
        match sign_in::signed_in(manager, form, &target, peer).await? {
            Ok(signed_in) => Some(signed_in),
            Err((status, message)) => {
                let name = form.get("username").unwrap_or_default();
                let page =
                    DecisionPage { manager, device: &device, client: &client, signed_in: None };
                return Ok(page.reply(status, name, message));
            }
        }
    } else {
        None
    };
    let now_s = manager.now_s();
    let allowed = user.as_ref().map(|(user, auth_s)| (user, *auth_s));
    let done = manager.store.decide_device(&device.user_code, allowed, now_s).await?;
    let message = match (done, user) {
        (true, Some(_)) => "You are signed in on your device.",
        (true, None) => "The device was denied.",
        (false, _) => "The code is not valid.",
    };
    let status = if done { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    Ok(reply::message(status, message))
}

/// The device that waits with `code`. Guesses are slowed.
async fn waiting(
    manager: &Manager,
    code: &str,
    peer: &Peer,
) -> Result<Option<(Device, Client)>, Refusal> {
    let who = [Who::Address(network(peer.address))];
    manager.begin(&who).await?;
    let letters: String = code.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_uppercase();
    let found = match letters.split_at_checked(HALF) {
        Some((first, second)) => {
            let code = format!("{first}-{second}");
            manager.store.waiting_device(&code, manager.now_s()).await?
        }
        None => None,
    };
    let Some(device) = found else {
        manager.failed(&who).await;
        return Ok(None);
    };
    manager.succeeded(&who).await;
    let client = manager.store.client(&device.client).await?;
    Ok(client.map(|client| (device, client)))
}

/// The grant: the device asks again and again until the user has decided. Source: RFC 8628 section 3.5.
pub(crate) async fn poll(
    manager: &Manager,
    client: &Requester,
    form: &Form,
) -> Result<Value, Refusal> {
    const WRONG: Refusal = Refusal::InvalidGrant("the device code is not valid");
    let code = form.required("device_code", "`device_code` is missing")?;
    let (hash, now_s) = (secrets::hash(code), manager.now_s());
    let polled = manager.store.poll_device(&hash, &client.id, now_s, limits::DEVICE_POLL_S);
    let (device, in_time) = polled.await?.ok_or(WRONG)?;
    if device.expires_s <= now_s {
        return Err(Refusal::Other("expired_token", "the device code has expired"));
    }
    match device.decision {
        Decision::Denied => Err(Refusal::Other("access_denied", "the user denied the device")),
        Decision::Pending if !in_time => Err(Refusal::Other("slow_down", "poll less often")),
        Decision::Pending => {
            Err(Refusal::Other("authorization_pending", "the user has not decided yet"))
        }
        Decision::Allowed => {
            let user = manager.renewed(&device.subject, device.decided_s).await?.ok_or(WRONG)?;
            let mut grant =
                Grant::new(manager, client, Some(&device.subject), device.scope.clone());
            grant.claims = outside::claims(&user);
            grant.family = Some(&device.family);
            grant.with_refresh = has(&client.grants, "refresh_token");
            grant.sign_in = Some(SignIn { nonce: "", time_s: device.auth_s });
            let issued = issue(manager, grant).await?;
            let first = manager.store.exchange_device(&device, &issued.rows).await?;
            if first { Ok(issued.body) } else { Err(WRONG) }
        }
    }
}

/// `XXXX-XXXX`, each of 20 letters with the same probability.
fn user_code(entropy: &dyn Entropy) -> String {
    let mut code = String::new();
    while code.len() < 2 * HALF + 1 {
        let mut byte = [0];
        entropy.fill(&mut byte);
        let [byte] = byte;
        // 240 is the last multiple of 20.
        let letter = LETTERS.get(usize::from(byte % 20)).filter(|_| byte < 240);
        if code.len() == HALF {
            code.push('-');
        }
        code.extend(letter.map(|letter| char::from(*letter)));
    }
    code
}

fn code_page(status: StatusCode, message: &str) -> Reply {
    reply::page(
        status,
        &format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>Connect a device</title>\n\
             <h1>Connect a device</h1>\n<p role=\"alert\">{message}</p>\n\
             <form method=\"get\" action=\"/oauth2/device\">\n\
             <p><label>The code that the device shows <input name=\"user_code\" \
             autocomplete=\"off\"></label>\n<p><button>Continue</button>\n</form>\n</html>\n"
        ),
    )
}

/// The page on which a user decides about a device.
struct DecisionPage<'a> {
    manager: &'a Manager,
    device: &'a Device,
    client: &'a Client,
    signed_in: SignedIn<'a>,
}

impl DecisionPage<'_> {
    fn reply(&self, status: StatusCode, user: &str, message: &str) -> Reply {
        let Self { manager, device, client, signed_in } = *self;
        let note = format!("Continue only if your own device shows the code {}.", device.user_code);
        Page {
            action: PAGE,
            client: &client.name,
            scope: &device.scope,
            note: &note,
            message,
            user,
            hidden: &[("user_code", device.user_code.as_str())],
            providers: &manager.providers,
            signed_in,
        }
        .reply(status)
    }
}
