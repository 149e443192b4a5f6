//! A server's end of TLS, with the certificates of `testdata/tls`. It needs nothing else of this folder, so that
//! measurements can use it, too.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection; the handshake is made by its first read.
pub type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A file of `testdata/tls`.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
}

/// A server that shows the certificate of this name.
pub fn config(name: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).expect("its key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the protocol's versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.expect("a certificate and its key"))
}

/// Talks TLS on an accepted connection.
pub fn accept(config: &Arc<ServerConfig>, socket: TcpStream) -> Stream {
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).expect("a connection"), socket)
}
