//! Whether a connection failed because one side refuses TLS as the other wants it. Another try ends in the same way.

use std::error::Error;

/// The driver's error for a server without TLS. It has no type of its own.
const WITHOUT_TLS: &str = "server does not support TLS";

/// Whether TLS was refused: the certificate, the protocol, or TLS as a whole. A handshake that broke off is not: the server may have
/// stopped.
pub fn is_tls_refused(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if is_refusal(error) || inner.is_some_and(|inner| is_refusal(inner)) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "tls")]
    if error.is::<rustls::Error>() {
        return true;
    }
    error.is::<tokio_postgres::tls::NoTlsError>() || error.to_string() == WITHOUT_TLS
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::TlsOptions;

    /// The error of a connection to a server that answers the request for TLS with this, and hangs up.
    fn error(answer: &'static [u8]) -> tokio_postgres::Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 8];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(answer).unwrap();
            if !answer.is_empty() {
                // The client answers, or hangs up.
                let _ = stream.read(&mut [0; 1024]);
            }
        });
        let mut options = TlsOptions::default();
        assert!(options.set("sslmode", "require").unwrap());
        let mut config = format!("postgres://u@127.0.0.1:{port}/x").parse().unwrap();
        let connector = options.connector(&mut config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { config.connect(connector).await.map(drop).unwrap_err() })
    }

    #[test]
    fn a_server_that_refuses_tls_is_told_from_one_that_hangs_up() {
        assert!(is_tls_refused(&error(b"N")), "a server without TLS");
        #[cfg(feature = "tls")]
        assert!(is_tls_refused(&error(b"Sno handshake")), "what follows is no TLS");
        assert!(!is_tls_refused(&error(b"")));
        #[cfg(feature = "tls")]
        assert!(!is_tls_refused(&error(b"S")));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_error_of_tls_is_found_among_the_causes() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(is_tls_refused(&io::Error::new(io::ErrorKind::InvalidData, unknown)));
        assert!(!is_tls_refused(&io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof")));
    }
}
