//! `/account/password`: the page on which a user replaces their password. As on the page of a sign-in, there are no
//! scripts and no session: a forged request achieves nothing, since it does not have the password.

use http::StatusCode;
use http::header::RETRY_AFTER;
use store::NewPassword;

use crate::form::Form;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{self, Refusal, Reply};
use crate::sign_in::{NO_DIRECTORY, escaped};

pub(crate) const PATH: &str = "/account/password";

/// GET: the page.
pub(crate) fn ask() -> Reply {
    page(StatusCode::OK, "", "")
}

/// POST: the password is replaced, and the user's tokens are revoked. Users get a page also if that cannot be now.
pub(crate) async fn replace(manager: &Manager, form: &Form, peer: &Peer) -> Result<Reply, Refusal> {
    let again = |status, message| page(status, message, form.get("username").unwrap_or_default());
    match replaced(manager, form, peer).await {
        Err(Refusal::Slowed { wait_s }) => {
            let message = "Too many failed attempts. Try again later.";
            let mut reply = again(StatusCode::TOO_MANY_REQUESTS, message);
            reply::set(&mut reply, RETRY_AFTER, &wait_s.to_string());
            Ok(reply)
        }
        Err(Refusal::Directory) => Ok(again(StatusCode::SERVICE_UNAVAILABLE, NO_DIRECTORY)),
        Err(Refusal::Unavailable) => {
            let message = "The password cannot be changed now. Try again later.";
            Ok(again(StatusCode::SERVICE_UNAVAILABLE, message))
        }
        done => done,
    }
}

async fn replaced(manager: &Manager, form: &Form, peer: &Peer) -> Result<Reply, Refusal> {
    let text = |name| form.get(name).unwrap_or_default();
    let (name, password, new) = (text("username"), text("password"), text("new_password"));
    let again = |status, message| Ok(page(status, message, name));
    let lengths = base::limits::PASSWORD_BYTES_MIN..=base::limits::PASSWORD_BYTES_MAX;
    if !lengths.contains(&new.len()) {
        let [least, most] = [lengths.start(), lengths.end()];
        let message = format!("A password must be {least} to {most} bytes long.");
        return again(StatusCode::BAD_REQUEST, &message);
    }
    if text("repeated") != new {
        return again(StatusCode::BAD_REQUEST, "The new passwords differ.");
    }
    if new == password {
        return again(
            StatusCode::BAD_REQUEST,
            "The new password must differ from the current one.",
        );
    }
    let Some(user) = manager.with_password(name, password, peer).await? else {
        return again(StatusCode::FORBIDDEN, "Unknown user or wrong password.");
    };
    if !user.source.is_empty() {
        return again(StatusCode::CONFLICT, "Change this password in your user directory.");
    }
    if (1..=manager.now_s()).contains(&user.one_time_until_s) {
        let message = "This password has expired. Ask an administrator for a new one.";
        return again(StatusCode::FORBIDDEN, message);
    }
    let hash = manager.hashed(new).await?;
    let earlier = Some(user.password.as_str());
    let new = NewPassword { hash: &hash, one_time_until_s: 0, earlier };
    if !manager.store.set_password(&user.name, new).await? {
        return again(
            StatusCode::CONFLICT,
            "The password has just been changed by another request.",
        );
    }
    tracing::info!(user = user.name, "the user has replaced their password");
    Ok(reply::message(StatusCode::OK, "Your password has been changed."))
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
             <title>Change your password</title>\n<h1>Change your password</h1>\n\
             <p>Applications in which you are signed in will ask you to sign in again.</p>\n\
             <p role=\"alert\">{message}</p>\n<form method=\"post\" action=\"{PATH}\">\n\
             <p><label>User name <input name=\"username\" value=\"{user}\" \
             autocomplete=\"username\"></label>\n{fields}\
             <p><button>Change</button>\n</form>\n</html>\n"
        ),
    )
}
