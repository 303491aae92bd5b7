//! The key manager as its clients see it: the built program, on real sockets, with a database on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod administrator;
mod applications;
mod attacks;
mod certificates;
mod codes;
mod dpop;
mod grants;
mod key_manager;
mod login;
mod oauth_clients;
mod openid;

mod path;
mod postgres;
mod restarts;
mod revocations;
mod tokens;
mod trusted;
mod users;
