//! `[control.ldap]`: how entries of an LDAP directory become users.

use ldap3::SearchEntry;
use model::LdapSettings;

use crate::outside::{LDAP, Profile, claims_of, roles_of};

/// An entry that was found.
pub(crate) struct Found {
    pub(crate) dn: String,
    pub(crate) profile: Profile,
}

/// The attributes of a user that are read.
pub(crate) fn attributes(settings: &LdapSettings) -> Vec<&str> {
    let claims = settings.mapping.claims.iter().map(|(_, attribute)| attribute.as_str());
    [&*settings.name, &*settings.id, &*settings.groups].into_iter().chain(claims).collect()
}

pub(crate) fn groups_of(settings: &LdapSettings, entry: &SearchEntry) -> Vec<String> {
    values(entry, &settings.groups).to_vec()
}

/// The user of `entry`. The error is for the log.
pub(crate) fn found(
    settings: &LdapSettings,
    entry: &SearchEntry,
    groups: &[String],
) -> Result<Found, String> {
    // The choice among several values is always the same.
    let name = values(entry, &settings.name).iter().min();
    let name =
        name.ok_or_else(|| format!("`{}` has no attribute `{}`", entry.dn, settings.name))?;
    // The names of groups do not differ by case alone. Source: RFC 4519 section 2.3.
    let is_in = |group: &str| groups.iter().any(|own| own.eq_ignore_ascii_case(group));
    let claim = |attribute: &str| values(entry, attribute).first().cloned();
    let profile = Profile {
        source: LDAP.to_owned(),
        name: name.clone(),
        id: id(entry, &settings.id),
        roles: roles_of(&settings.mapping, is_in),
        claims: claims_of(&settings.mapping, claim),
    };
    Ok(Found { dn: entry.dn.clone(), profile })
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
