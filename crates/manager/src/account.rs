//! `/account/password`: the page on which a user replaces their password. As on the page of a sign-in, there are no
//! scripts and no session: a forged request achieves nothing, since it does not have the password.

use http::StatusCode;
use store::NewPassword;

use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{self, Refusal, Reply};
use crate::sign_in::escaped;

pub(crate) const PATH: &str = "/account/password";

/// GET: the page.
pub(crate) fn ask() -> Reply {
    page(StatusCode::OK, "", "")
}

/// POST: the password is replaced, and the user's tokens are revoked.
pub(crate) async fn replace(manager: &Manager, form: &Form, peer: &Peer) -> Result<Reply, Refusal> {
    let text = |name| form.get(name).unwrap_or_default();
    let (name, password, new) = (text("username"), text("password"), text("new_password"));
    let again = |status, message| Ok(page(status, message, name));
    let lengths = base::limits::PASSWORD_BYTES_MIN..=base::limits::PASSWORD_BYTES_MAX;
    if !lengths.contains(&new.len()) {
        let [least, most] = [lengths.start(), lengths.end()];
        let message = format!("A password has {least} to {most} bytes.");
        return again(StatusCode::BAD_REQUEST, &message);
    }
    if text("repeated") != new {
        return again(StatusCode::BAD_REQUEST, "The new passwords differ.");
    }
    if new == password {
        return again(StatusCode::BAD_REQUEST, "The new password is the old one.");
    }
    let Some(user) = manager.with_password(name, password, peer).await? else {
        return again(StatusCode::FORBIDDEN, "Unknown user or wrong password.");
    };
    if !user.source.is_empty() {
        return again(StatusCode::CONFLICT, "This password is replaced in the directory of users.");
    }
    let hash = manager.hashed(new).await?;
    let earlier = Some(user.password.as_str());
    let new = NewPassword { hash: &hash, one_time: false, earlier };
    if !manager.store.set_password(&user.name, new).await? {
        return again(StatusCode::CONFLICT, "The password has just been replaced by another one.");
    }
    tracing::info!(user = user.name, "the user has replaced their password");
    Ok(reply::message(StatusCode::OK, "Your password is replaced."))
}

fn page(status: StatusCode, message: &str, user: &str) -> Reply {
    let user = escaped(user);
    let field = |label: &str, name: &str, kind: &str| {
        format!(
            "<p><label>{label} <input name=\"{name}\" type=\"password\" autocomplete=\"{kind}\">\
             </label>\n"
        )
    };
    let fields = [
        field("Password", "password", "current-password"),
        field("New password", "new_password", "new-password"),
        field("New password, again", "repeated", "new-password"),
    ]
    .concat();
    reply::page(
        status,
        &format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>Replace your password</title>\n<h1>Replace your password</h1>\n\
             <p>Applications in which you are signed in will ask you to sign in again.</p>\n\
             <p role=\"alert\">{message}</p>\n<form method=\"post\" action=\"{PATH}\">\n\
             <p><label>User name <input name=\"username\" value=\"{user}\" \
             autocomplete=\"username\"></label>\n{fields}\
             <p><button>Replace</button>\n</form>\n</html>\n"
        ),
    )
}
