//! Why a TLS handshake failed, in words that say what to do. rustls tells it in its own: as an error inside of errors,
//! whose type is not ours to name.

/// What rustls says before it says what is wrong with a certificate.
const CERTIFICATE: &str = "invalid peer certificate: ";
/// What it says about an answer that is no TLS.
const NO_TLS: &str = "received corrupt message";

/// The reason, without the words around it, of an error that may be about something else.
pub(super) fn explain(error: &str) -> String {
    let Some((_, problem)) = error.split_once(CERTIFICATE) else {
        return if error.contains(NO_TLS) {
            "it does not speak TLS; http:// may be meant instead of https://".to_owned()
        } else {
            error.to_owned()
        };
    };
    match problem {
        "UnknownIssuer" => {
            "its certificate is signed by nobody who is trusted here; --cacert FILE or SSL_CERT_FILE \
                            names the authority to trust (a PEM file)"
                .to_owned()
        }
        _ if problem.starts_with("certificate expired") => "its certificate has expired".to_owned(),
        _ if problem.starts_with("certificate not valid yet") => {
            "its certificate is not valid yet; is the clock right?".to_owned()
        }
        _ => match problem.split_once("; certificate ") {
            Some((wrong, right)) if wrong.starts_with("certificate not valid for name") => {
                format!("its certificate is for another host: it {right}")
            }
            _ => format!("its certificate is not accepted: {problem}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn what_is_not_about_the_handshake_stays() {
        assert_eq!(explain("io: Connection refused"), "io: Connection refused");
        assert_eq!(
            explain("io: invalid peer certificate: BadEncoding"),
            "its certificate is not accepted: BadEncoding"
        );
        assert_eq!(
            explain("io: invalid peer certificate: certificate not valid yet: verification time 1 (UNIX)"),
            "its certificate is not valid yet; is the clock right?"
        );
    }
}
