//! The served certificate, the trusted authorities, and the time of the next change.
//!
//! A successor of the authority is trusted before it signs anything, and its predecessor is trusted
//! until nobody serves a certificate of it any more:
//!
//! | step | authority | `caBundle` | served |
//! | --- | --- | --- | --- |
//! | usual | A | A | by A |
//! | A comes near its end | B, new | B, A | by A |
//! | B is in every `caBundle`, for [`SPREAD`] at least | B | B, A | by B, new |
//! | the new certificate is [`RELOAD`] old | B | B | by B |
//!
//! Nothing else is remembered than what is in the Secrets, and each step can be taken again, so a
//! crash between two writes is harmless.

use jiff::{SignedDuration, Timestamp};
use weft_plan::{Lifetime, Lifetimes};

use crate::{
    Error,
    x509::{Certificate, Pair, later},
};

/// How long every API server of a cluster may need to learn of a changed `caBundle`. (By watch;
/// seconds in practice.)
pub(crate) const SPREAD: SignedDuration = SignedDuration::from_mins(5);
/// How long every server may need to serve what is in its Secret: kubelet looks at it once a
/// minute, and then the server has to read the file.
pub(crate) const RELOAD: SignedDuration = SignedDuration::from_mins(30);
/// When to look again if something is late that no time is known of.
const SOON: SignedDuration = SignedDuration::from_mins(1);

/// The stored objects.
pub(crate) struct Found {
    /// The authority, if it is one.
    pub(crate) authority: Option<Pair>,
    /// Authorities that were trusted, the current one and repetitions included.
    pub(crate) earlier: Vec<Certificate>,
    /// The certificate that is served, whoever has signed it.
    pub(crate) serving: Option<Pair>,
    /// Whom each client trusts right now. Clients that do not exist yet will begin with what is
    /// decided here.
    pub(crate) trusted: Vec<Vec<Certificate>>,
}

/// The wanted objects.
pub(crate) struct Wanted {
    pub(crate) authority: Pair,
    /// Whom to trust, the current authority first.
    pub(crate) trusted: Vec<Certificate>,
    pub(crate) serving: Pair,
    /// When to look again.
    pub(crate) next: Timestamp,
}

/// Computes the objects to store, the certificate to serve and the authorities to trust at this
/// time. `name` is for people who look into the authority's certificate.
pub(crate) fn rotate(
    found: Found,
    name: &str,
    dns_names: &[String],
    lifetimes: &Lifetimes,
    now: Timestamp,
) -> Result<Wanted, Error> {
    let Found {
        authority: current,
        mut earlier,
        serving,
        trusted,
    } = found;
    let current = current.filter(|pair| pair.certificate.is_trusted(now));
    let authority = match current {
        Some(pair) if due(&pair.certificate, lifetimes.authority()) > now => pair,
        outdated => {
            earlier.extend(outdated.map(|pair| pair.certificate));
            Pair::new_authority(name, now, lifetimes.authority().validity)?
        }
    };
    let mut seen = vec![authority.certificate.clone()];
    earlier.retain(|certificate| {
        let is_new = !seen.contains(certificate);
        seen.push(certificate.clone());
        is_new && certificate.is_trusted(now)
    });

    let usable = serving.filter(|pair| {
        let mut authorities = earlier.iter().chain([&authority.certificate]);
        pair.certificate.serves(dns_names, now)
            && authorities.any(|authority| pair.certificate.is_signed_by(authority))
    });
    let ready_at = later(authority.certificate.made(), SPREAD);
    let is_ready = ready_at <= now
        && trusted
            .iter()
            .all(|bundle| bundle.contains(&authority.certificate));
    let is_outdated = |pair: &Pair| {
        due(&pair.certificate, lifetimes.serving()) <= now
            || !pair.certificate.is_signed_by(&authority.certificate)
    };
    let serving = match usable {
        Some(pair) if !is_outdated(&pair) || !is_ready => pair,
        _ => authority.new_serving(dns_names, now, lifetimes.serving().validity)?,
    };

    let waits = is_outdated(&serving);
    let reloaded = later(serving.certificate.made(), RELOAD);
    if !waits && reloaded <= now {
        earlier.clear();
    }
    let mut next = due(&authority.certificate, lifetimes.authority());
    if waits {
        next = next.min(ready_at.max(later(now, SOON)));
    } else {
        next = next.min(due(&serving.certificate, lifetimes.serving()));
    }
    if !waits && !earlier.is_empty() {
        next = next.min(reloaded);
    }
    next = earlier
        .iter()
        .map(|certificate| certificate.valid_until)
        .fold(next, Timestamp::min);
    let mut trusted = vec![authority.certificate.clone()];
    trusted.extend(earlier);
    Ok(Wanted {
        authority,
        trusted,
        serving,
        next,
    })
}

/// When a successor is made. Lifetimes may have become shorter since it was made.
fn due(certificate: &Certificate, lifetime: Lifetime) -> Timestamp {
    let end = later(certificate.made(), lifetime.validity).min(certificate.valid_until);
    end.saturating_sub(lifetime.overlap)
        .unwrap_or(Timestamp::MIN)
}
