//! `[[user]]`: users who may call APIs with a password.

use jose::PasswordHash;
use model::User;

use super::table::Table;
use crate::report::{Report, shorten};

pub(super) fn read(root: &Table<'_>, report: &mut Report) -> Vec<User> {
    let mut users: Vec<User> = Vec::new();
    for table in root.sections("user", "user", report) {
        for key in ["name", "password_hash"] {
            if table.get(key).is_none() {
                let message = format!("[[user]] has no `{key}`");
                report.error(table.place, message, format!("add `{key} = \"...\"`"));
            }
        }
        let (name, hash) = (table.text("name", report), table.text("password_hash", report));
        let scopes = table.texts("scopes", report).unwrap_or_default();
        let (Some((name, place)), Some((hash, hash_place))) = (name, hash) else { continue };
        if name.contains(':') || name.contains(char::is_control) {
            report.error(place, "a name of a user that no client can send", "remove colons");
        }
        if users.iter().any(|user| user.name == name) {
            let message = format!("duplicate user `{}`", shorten(name));
            report.error(place, message, "remove one of them");
        }
        let Some(password) = PasswordHash::parse(hash) else {
            // The hash is not repeated in a diagnostic.
            let help = "generate one with `argon2 SALT -id -t 2 -k 19456 -p 1 -e`";
            report.error(hash_place, "`password_hash` is no argon2id hash, or too costly", help);
            continue;
        };
        let scopes = scopes.into_iter().map(|(scope, _)| scope.to_owned()).collect();
        users.push(User { name: name.to_owned(), password, scopes });
    }
    users
}
