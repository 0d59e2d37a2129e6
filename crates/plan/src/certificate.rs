//! Serving certificates that Weft makes and renews itself.

use jiff::SignedDuration;

use crate::ObjectKey;

/// A certificate for a webhook's server, signed by a certificate authority of Weft.
///
/// The objects named here are part of the decision's units like all others, and are left empty
/// there: `data` of the two Secrets, and `caBundle` of the webhooks. Each reconcile fills them from
/// the objects in the cluster (`weft-certificates`). So labels, inventory, drift repair and removal
/// are the same as for any other object.
///
/// Another source of certificates (cert-manager, OpenShift's service-ca) needs none of this: a
/// domain that chooses it by [`crate::Facts`] writes that source's objects or annotations into its
/// units and names no `Certificate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The Secret (type `kubernetes.io/tls`) that the server mounts: `tls.crt`, `tls.key`, and
    /// `ca.crt` with what to trust.
    pub secret: ObjectKey,
    /// The Secret of the same type that holds the authority. It belongs to this certificate alone.
    pub authority: ObjectKey,
    /// The names by which clients call the server, see [`Certificate::service_names`].
    pub dns_names: Vec<String>,
    /// The webhook configurations whose `caBundle` is filled in, every webhook in them.
    pub trusted_by: Vec<ObjectKey>,
    /// How long authority and certificate live.
    pub lifetimes: Lifetimes,
}

impl Certificate {
    /// The names of a Service: the API server calls a webhook by `<service>.<namespace>.svc`
    /// (<https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#service-reference>).
    pub fn service_names(service: &str, namespace: &str) -> Vec<String> {
        vec![
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ]
    }
}

/// How long something is valid, and how long before its end its successor is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// From making to end.
    pub validity: SignedDuration,
    /// From the making of its successor to its end.
    pub overlap: SignedDuration,
}

/// How long an authority and the certificates signed by it live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Lifetime,
    serving: Lifetime,
}

/// Why lifetimes cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LifetimesError {
    /// The overlap is too short for all parts of a cluster to learn of the successor.
    #[error(
        "the overlap of the {of}, {overlap:#}, is too short: it takes up to {least:#} until everybody knows the successor"
    )]
    TooShort {
        /// authority or serving certificate
        of: &'static str,
        /// duration in the configuration
        overlap: SignedDuration,
        /// [`Lifetimes::LEAST_OVERLAP`]
        least: SignedDuration,
    },
    /// The successor would be made before the thing itself.
    #[error(
        "the overlap of the {of}, {overlap:#}, must be shorter than its validity, {validity:#}"
    )]
    Order {
        /// authority or serving certificate
        of: &'static str,
        /// duration in the configuration
        overlap: SignedDuration,
        /// duration in the configuration
        validity: SignedDuration,
    },
    /// An authority near its end would sign certificates that have to be renewed at once.
    #[error(
        "the overlap of the serving certificate, {serving:#}, must not be longer than that of the authority, {authority:#}"
    )]
    Overlaps {
        /// duration in the configuration
        serving: SignedDuration,
        /// duration in the configuration
        authority: SignedDuration,
    },
}

impl Lifetimes {
    /// The shortest overlap.
    pub const LEAST_OVERLAP: SignedDuration = SignedDuration::from_mins(10);

    /// These lifetimes.
    ///
    /// # Errors
    /// They contradict each other, or an overlap is shorter than [`Lifetimes::LEAST_OVERLAP`].
    pub fn new(authority: Lifetime, serving: Lifetime) -> Result<Self, LifetimesError> {
        for (of, Lifetime { validity, overlap }) in
            [("authority", authority), ("serving certificate", serving)]
        {
            if overlap < Self::LEAST_OVERLAP {
                return Err(LifetimesError::TooShort {
                    of,
                    overlap,
                    least: Self::LEAST_OVERLAP,
                });
            }
            if overlap >= validity {
                return Err(LifetimesError::Order {
                    of,
                    overlap,
                    validity,
                });
            }
        }
        if serving.overlap > authority.overlap {
            return Err(LifetimesError::Overlaps {
                serving: serving.overlap,
                authority: authority.overlap,
            });
        }
        Ok(Self { authority, serving })
    }

    /// Of the authority.
    pub fn authority(&self) -> Lifetime {
        self.authority
    }

    /// Of the serving certificate.
    pub fn serving(&self) -> Lifetime {
        self.serving
    }
}

/// Certificates of 90 days, renewed 30 days before their end, as cert-manager makes them by default
/// (<https://cert-manager.io/docs/usage/certificate/>, `duration` and `renewBefore`). An authority
/// of a year.
impl Default for Lifetimes {
    fn default() -> Self {
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        Self {
            authority: Lifetime {
                validity: days(365),
                overlap: days(90),
            },
            serving: Lifetime {
                validity: days(90),
                overlap: days(30),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetime(validity: i64, overlap: i64) -> Lifetime {
        Lifetime {
            validity: SignedDuration::from_mins(validity),
            overlap: SignedDuration::from_mins(overlap),
        }
    }

    #[test]
    fn lifetimes_that_contradict_each_other_are_refused() {
        let usual = Lifetimes::default();
        assert_eq!(Lifetimes::new(usual.authority, usual.serving), Ok(usual));
        let error = |authority, serving| Lifetimes::new(authority, serving).err();
        assert!(matches!(
            error(lifetime(60, 9), lifetime(60, 9)),
            Some(LifetimesError::TooShort {
                of: "authority",
                ..
            })
        ));
        assert!(matches!(
            error(lifetime(60, 20), lifetime(20, 20)),
            Some(LifetimesError::Order {
                of: "serving certificate",
                ..
            })
        ));
        assert!(matches!(
            error(lifetime(60, 20), lifetime(60, 21)),
            Some(LifetimesError::Overlaps { .. })
        ));
    }
}
