//! The key manager as its clients see it: the built program, on real sockets, with a database on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod administrator;
mod api_keys;
mod applications;
mod attacks;
mod authentication;
mod certificates;
mod codes;
mod databases;
mod directory;
mod dpop;
mod federation;
mod grants;
mod key_manager;
mod kills;
mod ldap;
mod login;
mod oauth_clients;
mod openid;
mod outages;
mod path;
mod restarts;
mod revocation_speed;
mod revocations;
mod servers;
mod tokens;
mod trusted;
mod users;
