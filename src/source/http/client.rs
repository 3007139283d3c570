//! The HTTP client: TLS with the system's roots (SSL_CERT_FILE, SSL_CERT_DIR), proxies from the
//! environment (http_proxy, https_proxy, all_proxy, no_proxy), redirects that never lead from
//! https to http, and no content coding: what is stored is what was sent, because that is what
//! digests are published for. Knows nothing of files.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderName,
    LAST_MODIFIED, RETRY_AFTER, TRANSFER_ENCODING,
};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};

use super::head::Head;
use crate::digest::Hasher;
use crate::error::{Error, Result};
use crate::text::printable;

/// Redirects that are followed; browsers follow about as many.
const REDIRECTS: usize = 10;
/// A server that does not answer within this will not.
const CONNECT: Duration = Duration::from_secs(20);
/// A connection on which nothing came for so long is dead.
const SILENCE: Duration = Duration::from_secs(60);

/// Makes a client.
pub(super) fn client() -> Result<reqwest::Client> {
    static PROVIDER: Once = Once::new();
    // Fails only when a provider is there already.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    // A system without certificates can still fetch what is not encrypted; the rest fails with the
    // name of what is missing.
    let none = || builder().tls_certs_only(std::iter::empty()).build();
    builder().build().or_else(|_| none()).map_err(|e| {
        Error::new(crate::error::Kind::Io, format!("no HTTP client can be made: {}", cause(&e)))
    })
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("mediawriter/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .redirect(Policy::custom(|attempt| {
            let from_https = attempt.previous().iter().any(|url| url.scheme() == "https");
            if from_https && attempt.url().scheme() != "https" {
                attempt.error("it leads from https to an address without encryption")
            } else if attempt.previous().len() > REDIRECTS {
                attempt.error("it leads on and on: too many redirects")
            } else {
                attempt.follow()
            }
        }))
        .http1_only()
}

/// Reads an address. Only http and https.
pub fn parse(text: &str) -> Result<Url> {
    let bad = |why: &str| {
        Error::usage(format!("'{}' is no address: {why}", printable(text)))
            .hint("give it as http://HOST/FILE or https://HOST/FILE")
    };
    let url = Url::parse(text).map_err(|e| bad(&e.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(bad(&format!("{} is not supported", printable(other)))),
    }
}

/// An address for people: without password, query and fragment, which may hold secrets and
/// tokens.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail for addresses without a host, which have no login.
    url.set_password(None).ok();
    url.set_query(None);
    url.set_fragment(None);
    printable(url.as_str())
}

/// The last part of an address' path, percent-decoded; what a file would be called.
pub fn file_name(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?;
    let decoded = percent_decode(last);
    let name = String::from_utf8(decoded).ok()?;
    let usable = !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c.is_control());
    usable.then_some(name)
}

/// RFC 3986, 2.1.
fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.filter(|_| bytes[at] == b'%');
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    decoded
}

/// Who answered: the address without its query, in which tokens change.
pub(super) fn who(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    mark(&url)
}

/// An address as states know it: they are kept, and the address itself may hold secrets.
pub(super) fn mark(url: &Url) -> String {
    let mut hasher = Hasher::default();
    hasher.update(url.as_str().as_bytes());
    hasher.finish().to_string()
}

/// What layers say of themselves.
const LAYERS: [&str; 2] = ["client error (", "request or response body error"];

/// What went wrong, down to its cause, without the address.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next = error.source();
    while let Some(error) = next {
        let said = error.to_string();
        // Layers repeat what the layer below says, or say only which layer they are.
        if !text.contains(&said) && !LAYERS.iter().any(|layer| said.starts_with(layer)) {
            let separator = if text.is_empty() { "" } else { ": " };
            write!(text, "{separator}{said}").ok();
        }
        next = error.source();
    }
    if text.is_empty() {
        text = if error.is_timeout() { "timed out".to_owned() } else { error.to_string() };
    }
    printable(&text)
}

/// Whether trying again cannot help: a certificate that is not accepted, a redirect that is not
/// followed, an address that cannot be used.
pub(super) fn is_final(error: &reqwest::Error) -> bool {
    if error.is_redirect() || error.is_builder() {
        return true;
    }
    is_tls(error)
}

/// Whether TLS is the cause. An [`std::io::Error`] does not name what it carries as its source,
/// and one may carry another.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    if error.is::<rustls::Error>() {
        return true;
    }
    let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    carried.is_some_and(|inner| is_tls(inner)) || error.source().is_some_and(is_tls)
}

/// What to do about it.
pub(super) fn advice(error: &reqwest::Error) -> &'static str {
    let text = cause(error).to_lowercase();
    if text.contains("certificate") {
        "check the computer's clock, and that no proxy is in between; the system's authorities come with the package ca-certificates, SSL_CERT_FILE=FILE names others"
    } else if text.contains("dns") || text.contains("lookup") || text.contains("resolve") {
        "check the address and the network"
    } else if error.is_redirect() {
        "give the address that it leads to, if you trust it"
    } else {
        "check the network, then run the same command again: it goes on where it stopped"
    }
}

/// The fields of a reply that matter.
pub(super) fn head(reply: &Response) -> Head {
    // Byte by byte: what is not ASCII is kept apart, and is no number, tag or word of ours.
    let field = |name: HeaderName| {
        let lines = reply.headers().get_all(name);
        let text = |line: &[u8]| line.iter().map(|byte| char::from(*byte)).collect::<String>();
        let lines: Vec<String> = lines.iter().map(|line| text(line.as_bytes())).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    Head {
        status: reply.status().as_u16(),
        by: who(reply.url()),
        content_length: field(CONTENT_LENGTH),
        content_range: field(CONTENT_RANGE),
        transfer_encoding: field(TRANSFER_ENCODING),
        content_encoding: field(CONTENT_ENCODING),
        content_type: field(CONTENT_TYPE),
        etag: field(ETAG),
        last_modified: field(LAST_MODIFIED),
        date: field(DATE),
        retry_after: field(RETRY_AFTER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        let url = parse("https://joe:pw@host:8443/a/x.iso?token=t#f").unwrap();
        assert_eq!(shown(&url), "https://joe@host:8443/a/x.iso");
        for bad in ["ftp://host/x", "file:///etc/passwd", "x.iso", "http://", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_files_come_from_the_path_alone() {
        for (url, name) in [
            ("https://h/a/b%20c.iso?x=/y", Some("b c.iso")),
            ("https://h/a/%zz.iso", Some("%zz.iso")),
            ("https://h/a/", None),
            ("https://h/%2e%2e", None),
            ("https://h/..%2Fetc", None),
            ("https://h/a%0Ab", None),
            ("https://h", None),
        ] {
            assert_eq!(file_name(&parse(url).unwrap()).as_deref(), name, "{url}");
        }
    }
}
