//! TLS connections with rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Opens connections, with or without TLS.
#[derive(Clone)]
pub struct Connector(MakeRustlsConnect);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// For connections without TLS.
    pub(crate) fn disabled() -> Result<Connector, String> {
        trusting(RootCertStore::empty())
    }

    /// Checks the server's certificate against the authorities in a file, or else those of the system.
    pub(crate) fn verified(authority: Option<&Path>) -> Result<Connector, String> {
        let mut roots = RootCertStore::empty();
        match authority {
            Some(file) => {
                let bad = |why: &dyn std::fmt::Display| {
                    format!("`sslrootcert`: cannot read a certificate from {}: {why}", file.display())
                };
                let found = CertificateDer::pem_file_iter(file).map_err(|error| bad(&error))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| bad(&error))?;
                    roots.add(certificate).map_err(|error| bad(&error))?;
                }
                if roots.is_empty() {
                    return Err(bad(&"the file contains none"));
                }
            }
            // An unreadable certificate among many must not disable the others.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        trusting(roots)
    }

    /// Encrypts, without checking the server's certificate.
    pub(crate) fn unverified() -> Result<Connector, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth();
        Ok(Connector(MakeRustlsConnect::new(config)))
    }
}

fn trusting(roots: RootCertStore) -> Result<Connector, String> {
    // An explicit provider: a program that embeds us may have installed none, or another.
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Connector(MakeRustlsConnect::new(config)))
}

impl<S> MakeTlsConnect<S> for Connector
where
    MakeRustlsConnect: MakeTlsConnect<S>,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        self.0.make_tls_connect(host)
    }
}

/// `sslmode=require`, as in libpq: the connection is encrypted, and the server is not authenticated.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
