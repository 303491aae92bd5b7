//! The page on which a user enters name and password, and with the same click grants a client its request. The page has
//! no scripts and no session: a forged request achieves nothing, since it has neither the password nor the proof of a
//! sign-in at a provider.

use http::StatusCode;
use store::User;

use crate::federation;
use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::provider::Provider;
use crate::reply::{self, Refusal, Reply};

/// The field with the proof of a sign-in at a provider.
const SIGNED_IN: &str = "signed_in";

/// A user who has signed in at a provider, and the proof of it, which the page sends back.
pub(crate) type SignedIn<'a> = Option<(&'a str, &'a str)>;

pub(crate) const NO_DIRECTORY: &str = "The directory of users does not respond. Try again later.";

pub(crate) const SIGN_IN_AGAIN: (StatusCode, &str) =
    (StatusCode::FORBIDDEN, "Your sign-in is no longer valid. Sign in again.");

/// The user who fills in the form of the page for `target`, and when they signed in (0: unknown); or status and message
/// of the page that they get again.
pub(crate) async fn signed_in(
    manager: &Manager,
    form: &Form,
    target: &str,
    peer: &Peer,
) -> Result<Result<(User, u64), (StatusCode, &'static str)>, Refusal> {
    if let Some(proof) = form.get(SIGNED_IN) {
        return Ok(federation::proven(manager, proof, target).await?.ok_or(SIGN_IN_AGAIN));
    }
    let user = form.get("username").unwrap_or_default();
    let password = form.get("password").unwrap_or_default();
    match manager.signed_in(user, password, peer).await {
        Ok(Some(user)) => Ok(Ok((user, manager.now_s()))),
        Ok(None) => Ok(Err((StatusCode::FORBIDDEN, "Unknown user or wrong password."))),
        Err(Refusal::OneTimePassword) => {
            let message = "You have to <a href=\"/account/password\" target=\"_blank\">change your \
                           password</a> first. Then sign in here.";
            Ok(Err((StatusCode::FORBIDDEN, message)))
        }
        Err(Refusal::Directory) => Ok(Err((StatusCode::SERVICE_UNAVAILABLE, NO_DIRECTORY))),
        Err(refusal) => Err(refusal),
    }
}

pub(crate) struct Page<'a> {
    /// Where the form is sent.
    pub(crate) action: &'static str,
    /// The name of the client.
    pub(crate) client: &'a str,
    pub(crate) scope: &'a str,
    /// A sentence for the user, or empty.
    pub(crate) note: &'a str,
    /// Why the last attempt failed, in HTML, or empty.
    pub(crate) message: &'a str,
    /// The name that the user entered before.
    pub(crate) user: &'a str,
    /// Parameters that the form sends back.
    pub(crate) hidden: &'a [(&'a str, &'a str)],
    /// Where the user can sign in instead.
    pub(crate) providers: &'a [Provider],
    /// A user who has.
    pub(crate) signed_in: SignedIn<'a>,
}

impl Page<'_> {
    pub(crate) fn reply(&self, status: StatusCode) -> Reply {
        let proof = self.signed_in.map(|(_, proof)| (SIGNED_IN, proof));
        let hidden = self.hidden.iter().copied().chain(proof).map(|(name, value)| {
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">\n", escaped(value))
        });
        let hidden: String = hidden.collect();
        let [client, scope, note] = [self.client, self.scope, self.note].map(escaped);
        let Self { action, message, .. } = self;
        let (who, allow, providers) = self.who();
        reply::page(
            status,
            &format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width\">\n<title>Sign in</title>\n\
                 <h1>Sign in</h1>\n<p><strong>{client}</strong> asks for access on your behalf: \
                 {scope}</p>\n<p>{note}</p>\n<p role=\"alert\">{message}</p>\n\
                 <form method=\"post\" action=\"{action}\">\n{hidden}{who}\
                 <p><button name=\"decision\" value=\"allow\">{allow}</button>\n\
                 <button name=\"decision\" value=\"deny\">Deny</button>\n{providers}</form>\n</html>\n"
            ),
        )
    }

    /// Who signs in, the text of the button for it, and other ways to sign in.
    fn who(&self) -> (String, &'static str, String) {
        if let Some((user, _)) = self.signed_in {
            let user = escaped(user);
            let who = format!("<p>You are signed in as <strong>{user}</strong>.</p>\n");
            return (who, "Allow", String::new());
        }
        let user = escaped(self.user);
        let who = format!(
            "<p><label>User name <input name=\"username\" value=\"{user}\" \
             autocomplete=\"username\"></label>\n\
             <p><label>Password <input name=\"password\" type=\"password\" \
             autocomplete=\"current-password\"></label>\n"
        );
        let button = |provider: &Provider| {
            let [name, title] = [&provider.settings.name, &provider.settings.title];
            let title = escaped(title);
            format!(
                "<p><button name=\"provider\" value=\"{name}\">Continue with {title}</button>\n"
            )
        };
        (who, "Sign in and allow", self.providers.iter().map(button).collect())
    }
}

/// `text` for HTML, also inside a quoted attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
