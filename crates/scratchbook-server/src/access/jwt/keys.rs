//! The keys with which JWTs are signed. The key decides the algorithm; a token that names another algorithm is refused.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::UnparsedPublicKey;
use ring::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use scratchbook::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::reload;

/// The minimum length of a secret, in bytes, which is the length of HS256's output.
const LEAST_SECRET: usize = 32;

/// The minimum length of an RSA modulus, in bytes.
const LEAST_MODULUS: usize = 256;

/// The keys of one file.
#[derive(Debug)]
pub(crate) struct JwtKeys {
    keys: Vec<NamedKey>,
}

#[derive(Debug)]
struct NamedKey {
    id: Option<String>,
    key: VerificationKey,
}

#[derive(Debug)]
enum VerificationKey {
    Hs256(hmac::Key),
    EdDsa(Vec<u8>),
    Rs256(RsaPublicKeyComponents<Vec<u8>>),
}

/// A JWKS file. Its other members are ignored.
#[derive(Deserialize)]
struct JwksFile {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl JwtKeys {
    /// Reads the secret in a file. A line end at the end of the file is not part of the secret.
    ///
    /// # Errors
    ///
    /// The errors of reading the file; `InvalidArgument` if the secret is too short or invalid.
    pub(super) fn secret(path: &Path) -> Result<Self> {
        let bytes = reload::read("the secret of JWTs", path)?;
        let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        let wrong = |message| Err(Error::invalid(format!("the secret of JWTs '{}' {message}", path.display())));
        // A public key is known to everyone. If it were used as the secret, everyone could sign tokens.
        if secret.trim_ascii_start().starts_with(b"-----BEGIN") || secret.trim_ascii_start().starts_with(b"{") {
            return wrong(
                "holds a key in PEM or JSON; public keys go into a JWKS file, a secret is random bytes".into(),
            );
        }
        if secret.len() < LEAST_SECRET {
            let length = secret.len();
            return wrong(format!("has {length} bytes; it takes {LEAST_SECRET} random ones at least"));
        }
        let key = VerificationKey::Hs256(hmac::Key::new(hmac::HMAC_SHA256, secret));
        Ok(Self { keys: vec![NamedKey { id: None, key }] })
    }

    /// Reads the public keys of a JWKS file for EdDSA (Ed25519) and RS256. Other keys are ignored.
    ///
    /// # Errors
    ///
    /// The errors of reading the file; `InvalidArgument` if it is no JWKS or contains a secret.
    pub(super) fn jwks(path: &Path) -> Result<Self> {
        let bytes = reload::read("the JWKS", path)?;
        let wrong = |message: String| Error::invalid(format!("the JWKS '{}': {message}", path.display()));
        let file: JwksFile = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        let mut keys = Vec::new();
        for (index, jwk) in file.keys.into_iter().enumerate() {
            let jwk: Jwk = serde_json::from_value(jwk).map_err(|e| wrong(format!("key {index}: {e}")))?;
            let id = jwk.kid.clone();
            let key = jwk.key().map_err(|e| wrong(format!("key {index}: {e}")))?;
            keys.extend(key.map(|key| NamedKey { id, key }));
        }
        if keys.is_empty() {
            tracing::warn!(file = %path.display(), "the JWKS has no usable key: nobody can log in by a JWT of it");
        }
        Ok(Self { keys })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns whether one of the keys made this signature. If the token names a key, only keys of that name are tried.
    pub(super) fn have_signed(&self, algorithm: &str, key_id: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
        let named = |named: &&NamedKey| key_id.is_none() || named.id.is_none() || named.id.as_deref() == key_id;
        let mut keys = self.keys.iter().filter(named).map(|named| &named.key);
        keys.any(|key| key.algorithm() == algorithm && key.has_signed(message, signature))
    }
}

impl VerificationKey {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Hs256(_) => "HS256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hs256(key) => hmac::verify(key, message, signature).is_ok(),
            Self::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok(),
            Self::Rs256(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok(),
        }
    }
}

impl Jwk {
    /// Returns the key, or `None` if it is for another algorithm or use.
    fn key(self) -> Result<Option<VerificationKey>> {
        if self.kty == "oct" {
            return Err(Error::invalid(
                "it is a secret, which does not belong with public keys; give it by its own file",
            ));
        }
        let is_for = |algorithm| self.alg.as_deref().is_none_or(|alg| alg == algorithm);
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return Ok(None);
        }
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("OKP", Some("Ed25519")) if is_for("EdDSA") || is_for("Ed25519") => {
                let x = bytes("x", self.x.as_deref())?;
                if x.len() != ED25519_PUBLIC_KEY_LEN {
                    return Err(Error::invalid(format!("its 'x' has {} bytes, and Ed25519's have 32", x.len())));
                }
                Ok(Some(VerificationKey::EdDsa(x)))
            }
            ("RSA", _) if is_for("RS256") => {
                let number = |member, text: &Option<String>| bytes(member, text.as_deref()).map(without_zeros);
                let key = RsaPublicKeyComponents { n: number("n", &self.n)?, e: number("e", &self.e)? };
                if key.n.len() < LEAST_MODULUS {
                    let bits = key.n.len() * 8;
                    return Err(Error::invalid(format!("it has {bits} bits; RSA takes 2048 at least")));
                }
                Ok(Some(VerificationKey::Rs256(key)))
            }
            _ => Ok(None),
        }
    }
}

/// Removes leading zeros from a number: some issuers write them, and ring refuses them.
fn without_zeros(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}

/// Returns the bytes that a member holds in base64url.
fn bytes(member: &str, text: Option<&str>) -> Result<Vec<u8>> {
    let text = text.ok_or_else(|| Error::invalid(format!("it has no '{member}'")))?;
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|e| Error::invalid(format!("its '{member}' is not base64url without padding: {e}")))
}
