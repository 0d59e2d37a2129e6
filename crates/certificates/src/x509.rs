//! Certificates and keys as they stand in a Secret or a bundle: read, judged, made.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use x509_parser::{extensions::GeneralName, prelude::X509Certificate};

use crate::Error;

/// A new certificate is valid from this long before it is made: clocks of other machines may be
/// behind.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
const CERTIFICATE: &str = "CERTIFICATE";

/// A certificate that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    der: Vec<u8>,
    valid_from: Timestamp,
    /// The last second at which it is valid.
    pub(crate) valid_until: Timestamp,
    public_key: Vec<u8>,
    /// Sorted names.
    dns_names: Vec<String>,
    is_authority: bool,
}

impl Certificate {
    /// All certificates in this text. None, if anything in it is not readable.
    pub(crate) fn all(text: &[u8]) -> Vec<Self> {
        let blocks = pem::parse_many(text).unwrap_or_default();
        let read: Option<Vec<_>> = blocks
            .into_iter()
            .map(|block| Self::read(block.into_contents()))
            .collect();
        read.unwrap_or_default()
    }

    fn read(der: Vec<u8>) -> Option<Self> {
        let (rest, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
        let second =
            |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let names = parsed
            .subject_alternative_name()
            .ok()?
            .map(|extension| &extension.value.general_names);
        let mut dns_names = Vec::new();
        for name in names.into_iter().flatten() {
            // A name of another sort is none that we write.
            let GeneralName::DNSName(name) = name else {
                return None;
            };
            dns_names.push((*name).to_owned());
        }
        dns_names.sort();
        let certificate = Self {
            valid_from: second(parsed.validity().not_before)?,
            valid_until: second(parsed.validity().not_after)?,
            public_key: parsed.public_key().raw.to_vec(),
            dns_names,
            is_authority: parsed.is_ca(),
            der: Vec::new(),
        };
        rest.is_empty().then_some(())?;
        Some(Self { der, ..certificate })
    }

    /// When it was made, if we made it.
    pub(crate) fn made(&self) -> Timestamp {
        self.valid_from
            .saturating_add(BACKDATE)
            .unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.valid_from <= now && now < self.valid_until
    }

    /// An authority that signs certificates at this time.
    pub(crate) fn is_trusted(&self, now: Timestamp) -> bool {
        self.is_authority && self.is_valid(now)
    }

    /// Reports whether a server of these names can use it at this time.
    pub(crate) fn serves(&self, names: &[String], now: Timestamp) -> bool {
        let mut names = names.to_vec();
        names.sort();
        !self.is_authority && self.dns_names == names && self.is_valid(now)
    }

    pub(crate) fn is_signed_by(&self, authority: &Certificate) -> bool {
        let (Some(own), Some(authority)) = (parse(&self.der), parse(&authority.der)) else {
            return false;
        };
        own.issuer() == authority.subject()
            && own.verify_signature(Some(authority.public_key())).is_ok()
    }

    pub(crate) fn pem(&self) -> String {
        // Lines end as everywhere else in a Secret. The library's own default is that of RFC 7468's
        // strictest readers.
        pem::encode_config(
            &pem::Pem::new(CERTIFICATE, self.der.clone()),
            pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
        )
    }
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    x509_parser::parse_x509_certificate(der)
        .ok()
        .map(|(_, parsed)| parsed)
}

/// A certificate and its private key.
pub(crate) struct Pair {
    pub(crate) certificate: Certificate,
    key: KeyPair,
}

impl Pair {
    /// The first of these certificates, if this is its key.
    pub(crate) fn read(certificates: &[u8], key: &[u8]) -> Option<Self> {
        let certificate = Certificate::all(certificates).into_iter().next()?;
        let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?;
        (key.subject_public_key_info() == certificate.public_key)
            .then_some(Self { certificate, key })
    }

    /// A new authority, signed by itself. Its name is its own, so that nobody takes it for its
    /// predecessor.
    pub(crate) fn new_authority(
        name: &str,
        now: Timestamp,
        validity: SignedDuration,
    ) -> Result<Self, Error> {
        let mut params = params(
            &format!("{name} {}", now.as_second()),
            now,
            later(now, validity),
        )?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        Self::made(params.self_signed(&key)?, key)
    }

    /// A new certificate for a server of these names. It ends with the authority at the latest.
    pub(crate) fn new_serving(
        &self,
        names: &[String],
        now: Timestamp,
        validity: SignedDuration,
    ) -> Result<Self, Error> {
        let end = later(now, validity).min(self.certificate.valid_until);
        // The common name is no more than a label, and may have 64 characters (RFC 5280,
        // ub-common-name).
        let label: String = names
            .first()
            .map(String::as_str)
            .unwrap_or_default()
            .chars()
            .take(64)
            .collect();
        let mut params = params(&label, now, end)?;
        params.subject_alt_names = names
            .iter()
            .map(|name| Ok(SanType::DnsName(name.as_str().try_into()?)))
            .collect::<Result<_, Error>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_ca_cert_der(&self.certificate.der.as_slice().into(), &self.key)?;
        Self::made(params.signed_by(&key, &issuer)?, key)
    }

    fn made(certificate: rcgen::Certificate, key: KeyPair) -> Result<Self, Error> {
        let certificate = Certificate::read(certificate.der().to_vec()).ok_or(Error::Unreadable)?;
        Ok(Self { certificate, key })
    }

    /// The private key, PKCS #8.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem().replace("\r\n", "\n")
    }
}

/// A certificate that vouches for itself, for a server whose clients do not ask who it is.
pub struct SelfSigned {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key, PKCS #8, DER.
    pub key: Vec<u8>,
    /// When the next one should take its place.
    pub renew_at: Timestamp,
}

impl SelfSigned {
    /// A new one for a server of this name. It is due for renewal after two thirds of its time.
    ///
    /// # Errors
    /// The crypto library refuses, or the time cannot be written into a certificate.
    pub fn new(name: &str, now: Timestamp, validity: SignedDuration) -> Result<Self, Error> {
        let mut params = params(name, now, later(now, validity))?;
        params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.der().to_vec();
        Ok(Self {
            certificate,
            key: key.serialize_der(),
            renew_at: later(now, validity / 3 * 2),
        })
    }
}

fn params(common_name: &str, now: Timestamp, end: Timestamp) -> Result<CertificateParams, Error> {
    let date = |time: Timestamp| {
        time::OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|_| Error::Date(time))
    };
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date(now.saturating_sub(BACKDATE).unwrap_or(Timestamp::MIN))?;
    params.not_after = date(end)?;
    Ok(params)
}

/// This much later, or the end of time.
pub(crate) fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
