//! `[control.ldap]`: how entries of an LDAP directory become users.

use std::sync::Arc;

use ldap3::SearchEntry;
use wire::tls::ClientTls;

use crate::outside::{LDAP, Mapping, Profile};

/// An LDAP directory of users.
#[derive(Clone, Default)]
pub struct DirectoryOptions {
    /// `ldap://HOST` or `ldaps://HOST`, of servers with the same entries.
    pub urls: Vec<String>,
    /// Whether TLS begins on connections of `ldap://`.
    pub start_tls: bool,
    /// For TLS; `None`: no server needs it.
    pub tls: Option<Arc<ClientTls>>,
    /// Who searches, and the password; both empty: anonymous.
    pub bind_dn: String,
    pub bind_password: String,
    /// Where users are searched.
    pub base: String,
    /// Which entry is the user `{user}`.
    pub filter: String,
    /// The attribute with the name of a user.
    pub name: String,
    /// The attribute with what stays the same if a user is renamed.
    pub id: String,
    /// The attribute with the groups of a user, or with the name of a group that `group_search` finds.
    pub groups: String,
    /// Where groups are searched, and which are those of `{dn}` or `{user}`.
    pub group_search: Option<(String, String)>,
    pub mapping: Mapping,
}

/// An entry that was found.
pub(crate) struct Found {
    pub(crate) dn: String,
    pub(crate) profile: Profile,
}

impl DirectoryOptions {
    /// The attributes of a user that are read.
    pub(crate) fn attributes(&self) -> Vec<&str> {
        let claims = self.mapping.claims.iter().map(|(_, attribute)| attribute.as_str());
        [&*self.name, &*self.id, &*self.groups].into_iter().chain(claims).collect()
    }

    pub(crate) fn groups_of(&self, entry: &SearchEntry) -> Vec<String> {
        values(entry, &self.groups).to_vec()
    }

    /// The user of `entry`. The error is for the log.
    pub(crate) fn found(&self, entry: &SearchEntry, groups: &[String]) -> Result<Found, String> {
        // Of several, always the same one.
        let name = values(entry, &self.name).iter().min();
        let name =
            name.ok_or_else(|| format!("`{}` has no attribute `{}`", entry.dn, self.name))?;
        // The names of groups do not differ by case alone. Source: RFC 4519 section 2.3.
        let is_in = |group: &str| groups.iter().any(|own| own.eq_ignore_ascii_case(group));
        let claim = |attribute: &str| values(entry, attribute).first().cloned();
        let profile = Profile {
            source: LDAP.to_owned(),
            name: name.clone(),
            id: id(entry, &self.id),
            roles: self.mapping.roles_of(is_in),
            claims: self.mapping.claims_of(claim),
        };
        Ok(Found { dn: entry.dn.clone(), profile })
    }
}

/// The names of attributes do not differ by case. Source: RFC 4512 section 2.5.
fn values<'e>(entry: &'e SearchEntry, attribute: &str) -> &'e [String] {
    let found = entry.attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    found.map_or(&[], |(_, values)| values.as_slice())
}

/// A text, or other bytes, as `objectGUID` of Active Directory.
fn id(entry: &SearchEntry, attribute: &str) -> Vec<u8> {
    let mut binary = entry.bin_attrs.iter();
    let binary = binary.find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let bytes = binary.and_then(|(_, values)| values.first()).cloned();
    let text = || values(entry, attribute).first().map(|text| text.clone().into_bytes());
    bytes.or_else(text).unwrap_or_default()
}
