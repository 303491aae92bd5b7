//! The key manager as its clients see it: the built program, on real sockets, with a database on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod administrator;
mod attacks;
mod codes;
mod grants;
mod key_manager;
mod login;
mod openid;
mod openid_client;
mod path;
mod postgres;
mod restarts;
mod revocations;
mod tokens;
mod users;
