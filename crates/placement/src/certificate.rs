//! A certificate and its private key, as Apache wants them. Apache starts with no others, and
//! writes the reason to its log only.

use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

/// Returns the mistake in the values of `tls.crt` and `tls.key`, if there is one. Clients decide
/// about trust and validity. Apache judges a key of a kind that Weft cannot read.
pub fn problem(certificates: &[u8], key: &[u8]) -> Option<&'static str> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
        .filter_map(Result::ok)
        .collect();
    if chain.is_empty() {
        return Some("tls.crt holds no certificate in PEM");
    }
    let Ok(key) = PrivateKeyDer::from_pem_slice(key) else {
        return Some("tls.key holds no private key in PEM, or an encrypted one");
    };
    let key = any_supported_type(&key).ok()?;
    match CertifiedKey::new(chain, key).keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => Some(
            "tls.key is not the key of the first certificate in tls.crt: both have to be renewed together",
        ),
        Err(rustls::Error::InvalidCertificate(_)) => {
            Some("the first certificate in tls.crt cannot be read")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        let pair = || {
            let made =
                rcgen::generate_simple_self_signed(["placement.example".to_owned()]).unwrap();
            (
                made.cert.pem().into_bytes(),
                made.signing_key.serialize_pem().into_bytes(),
            )
        };
        let ((certificate, key), (other, other_key)) = (pair(), pair());
        assert_eq!(problem(&certificate, &key), None);
        let chain = [certificate.clone(), other.clone()].concat();
        assert_eq!(problem(&chain, &key), None);
        for (certificates, key, expected) in [
            (&certificate, &other_key, "not the key of the first"),
            (
                &[other, certificate.clone()].concat(),
                &key,
                "not the key of the first",
            ),
            (&b"C".to_vec(), &key, "no certificate"),
            (&certificate, &b"K".to_vec(), "no private key"),
            (
                &b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(),
                &key,
                "cannot be read",
            ),
        ] {
            let found = problem(certificates, key).unwrap_or_default();
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
