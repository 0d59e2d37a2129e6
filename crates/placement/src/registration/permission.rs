//! Which values of Secrets may be sent to a Keystone, and to which one.
//!
//! The author of a PlacementAPI names Secrets, their keys and the address, and may have no right to
//! read these Secrets. So another user permits it: for a Secret whoever may write it, by
//! annotations. For an address the administrator of the operator, by a list, and then of the usual
//! keys alone.

use std::collections::BTreeSet;

use super::Address;
use crate::world::Secret;

/// The annotation of a Secret with the addresses that its values may be sent to.
pub const URLS: &str = "weft.network/keystone-url";
/// The annotation of a Secret with the keys whose values may be sent next to the usual ones.
pub const KEYS: &str = "weft.network/keystone-keys";
/// The annotation of an administrator's Secret with the users whom the administrator changes and
/// deletes next to [`USER`].
pub const USERS: &str = "weft.network/keystone-users";
/// The user whom every administrator changes.
pub const USER: &str = "placement";

/// The permission in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    namespace: String,
    secret: String,
    urls: BTreeSet<String>,
    keys: BTreeSet<String>,
    users: BTreeSet<String>,
}

/// The values of a Secret that Weft would send.
pub struct Ask<'a> {
    /// what the Secret permits
    pub permission: &'a Permission,
    /// the keys, each with the one that is usual in its place
    pub keys: &'a [(&'a str, &'a str)],
    /// the user whom it changes in Keystone
    pub user: Option<&'a str>,
}

/// A Keystone to which values may be sent. Only [`permitted`] makes one, so that nothing is sent
/// without having been asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    to: Address,
    is_listed: bool,
}

impl Permitted {
    /// Which Keystone.
    pub fn to(&self) -> &Address {
        &self.to
    }

    /// Reports whether the operator's administrator lists this Keystone. If not, any user who may
    /// write Secrets chooses it, and status must reveal nothing about other hosts.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }
}

/// A missing permission, and the way to give it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotPermitted(String);

impl Permission {
    /// Reads the permission in this Secret.
    pub fn of(namespace: &str, secret: &Secret) -> Self {
        let list = |annotation: &str| {
            let text = secret.annotation(annotation).unwrap_or_default();
            text.split(|c: char| c == ',' || c.is_whitespace())
                .filter(|one| !one.is_empty())
                .map(str::to_owned)
                .collect()
        };
        Self {
            namespace: namespace.to_owned(),
            secret: secret.name().to_owned(),
            urls: list(URLS),
            keys: list(KEYS),
            users: list(USERS),
        }
    }
}

/// Checks that all of this may be sent to a Keystone. `listed` are the addresses that the
/// operator's administrator allows.
///
/// # Errors
/// Something may not.
pub fn permitted(
    to: &Address,
    listed: &[Address],
    asks: &[Ask<'_>],
) -> Result<Permitted, NotPermitted> {
    let is_listed = listed.contains(to);
    let lacks: Vec<_> = asks
        .iter()
        .filter_map(|ask| lack(to, is_listed, ask))
        .collect();
    if lacks.is_empty() {
        return Ok(Permitted {
            to: to.clone(),
            is_listed,
        });
    }
    let listing = format!(
        "; or the operator's administrator lists the address, for the usual keys of all Secrets: --keystone-urls {to}"
    );
    let is_about_address = asks
        .iter()
        .any(|ask| !is_listed && !permits(ask.permission, to));
    Err(NotPermitted(format!(
        "{}{}",
        lacks.join("; "),
        if is_about_address {
            listing.as_str()
        } else {
            ""
        }
    )))
}

fn permits(permission: &Permission, to: &Address) -> bool {
    permission
        .urls
        .iter()
        .any(|url| url.parse().is_ok_and(|url: Address| url == *to))
}

/// Returns the missing permission with the command that gives it.
fn lack(to: &Address, is_listed: bool, ask: &Ask<'_>) -> Option<String> {
    let Ask {
        permission,
        keys,
        user,
    } = ask;
    let (mut whats, mut annotations) = (Vec::new(), Vec::new());
    if !is_listed && !permits(permission, to) {
        whats.push(format!("nothing of it may be sent to {to}"));
        annotations.push(format!("{URLS}={to}"));
    }
    let unusual = keys
        .iter()
        .filter(|(key, usual)| key != usual && !permission.keys.contains(*key))
        .map(|(key, _)| *key);
    let unusual: BTreeSet<_> = unusual.collect();
    if !unusual.is_empty() {
        let all = unusual.into_iter().collect::<Vec<_>>();
        whats.push(format!(
            "of '{}' nothing may be sent to any Keystone",
            all.join("' and '")
        ));
        annotations.push(format!("{KEYS}={}", all.join(",")));
    }
    if let Some(user) = user.filter(|user| *user != USER && !permission.users.contains(*user)) {
        whats.push(format!(
            "its user may not change the user {user:?} in Keystone"
        ));
        annotations.push(format!("{USERS}={user}"));
    }
    let Permission {
        namespace, secret, ..
    } = permission;
    (!whats.is_empty()).then(|| {
        format!(
            "secret/{secret}: {}. Whoever may write that Secret permits it: kubectl -n {namespace} annotate secret {secret} {}",
            whats.join(", and "),
            annotations.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    const USUAL: [(&str, &str); 2] = [("username", "username"), ("password", "password")];

    fn keystone() -> Address {
        "https://keystone.example:5000".parse().unwrap()
    }

    fn permission(annotations: &[(&str, &str)]) -> Permission {
        let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
        let secret = json!({"metadata": {"name": "admin", "annotations": annotations}});
        Permission::of("cloud", &Secret::new(Arc::new(secret)))
    }

    fn said(
        permission: &Permission,
        listed: &[Address],
        keys: &[(&str, &str)],
        user: Option<&str>,
    ) -> String {
        permitted(
            &keystone(),
            listed,
            &[Ask {
                permission,
                keys,
                user,
            }],
        )
        .map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn debug_output_of_an_access_shows_where_and_no_secret() {
        let access = super::super::task::Access {
            keystone: Permitted {
                to: keystone(),
                is_listed: true,
            },
            bundle: None,
            user: "root-user".into(),
            password: "hunter2".into(),
            called: "the user of field 'u'".into(),
        };
        let shown = format!("{access:?}");
        assert!(
            shown.contains("keystone.example") && shown.contains("the user of field 'u'"),
            "{shown}"
        );
        assert!(
            !shown.contains("root-user") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn an_unannotated_secret_goes_to_a_listed_keystone_alone() {
        let none = permission(&[]);
        assert_eq!(
            said(&none, &[], &USUAL, Some("placement")),
            "secret/admin: nothing of it may be sent to https://keystone.example:5000. Whoever may write that Secret permits it: \
             kubectl -n cloud annotate secret admin weft.network/keystone-url=https://keystone.example:5000; \
             or the operator's administrator lists the address, for the usual keys of all Secrets: --keystone-urls https://keystone.example:5000"
        );
        assert!(
            !said(
                &none,
                &["https://keystone.example".parse().unwrap()],
                &USUAL,
                None
            )
            .is_empty(),
            "another port"
        );
        assert_eq!(said(&none, &[keystone()], &USUAL, Some("placement")), "");
    }

    #[test]
    fn an_annotation_permits_the_addresses_that_it_names() {
        for urls in [
            "https://keystone.example:5000/v3",
            "https://a, https://KEYSTONE.example:5000/",
            "nonsense https://keystone.example:5000",
        ] {
            assert_eq!(
                said(&permission(&[(URLS, urls)]), &[], &USUAL, None),
                "",
                "{urls}"
            );
        }
        for urls in [
            "",
            "*",
            "https://keystone.example",
            "http://keystone.example:5000",
            "https://keystone.example:5000/other",
        ] {
            assert!(
                !said(&permission(&[(URLS, urls)]), &[], &USUAL, None).is_empty(),
                "{urls}"
            );
        }
    }

    #[test]
    fn another_key_or_user_needs_the_secret_also_where_the_address_is_listed() {
        let keys = [("AdminUser", "username"), ("AdminPassword", "password")];
        let listed = [keystone()];
        assert_eq!(
            said(&permission(&[]), &listed, &keys, Some("nova")),
            "secret/admin: of 'AdminPassword' and 'AdminUser' nothing may be sent to any Keystone, and its user may not change the user \
             \"nova\" in Keystone. Whoever may write that Secret permits it: kubectl -n cloud annotate secret admin \
             weft.network/keystone-keys=AdminPassword,AdminUser weft.network/keystone-users=nova"
        );
        let all = permission(&[(KEYS, "AdminUser,AdminPassword"), (USERS, "nova")]);
        assert_eq!(said(&all, &listed, &keys, Some("nova")), "");
        let swapped = [("password", "username"), ("password", "password")];
        assert!(
            said(&all, &listed, &swapped, None).contains("of 'password' nothing"),
            "a password is no name of a user"
        );
        assert!(said(&all, &[], &keys, None).contains(URLS));
    }

    #[test]
    fn each_secret_has_to_permit_what_is_sent_of_it() {
        let (own, foreign) = (
            permission(&[(URLS, "https://keystone.example:5000")]),
            permission(&[]),
        );
        let ask = |permission| Ask {
            permission,
            keys: &USUAL,
            user: None,
        };
        assert!(permitted(&keystone(), &[], &[ask(&own), ask(&foreign)]).is_err());
        assert!(
            !permitted(&keystone(), &[], &[ask(&own), ask(&own)])
                .unwrap()
                .is_listed()
        );
    }
}
