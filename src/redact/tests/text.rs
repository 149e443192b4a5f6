//! Command lines, URLs and free text.

use super::*;
use crate::jsonrpc::string;

#[test]
fn command_lines() {
    for (given, expected) in [
        ("npx server --api-key k3y --port 80", "npx server --api-key REDACTED --port 80"),
        ("server --api-key=k3y --verbose", "server --api-key=REDACTED --verbose"),
        ("env API_TOKEN=abc=d server", "env API_TOKEN=REDACTED server"),
        ("docker run -e GITHUB_TOKEN=x -e A=b image", "docker run -e GITHUB_TOKEN=REDACTED -e A=b image"),
        ("server --token --verbose", "server --token --verbose"),
        ("server --token -abc -v", "server --token REDACTED -v"),
        ("server --max-tokens 100 --token-limit=5", "server --max-tokens 100 --token-limit=5"),
        ("server --url https://u:p@h/x?token=t&a=b", "server --url https://REDACTED@h/x?token=REDACTED&a=b"),
        ("server --url=https://h/x?token=t", "server --url=https://h/x?token=REDACTED"),
        (r#"server --config={"token":"x"}"#, r#"server --config={"token":"REDACTED"}"#),
        ("server --token REDACTED", "server --token REDACTED"),
        ("server --pin 1234", "server --pin 0000"),
    ] {
        let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let rules = rules(&["pin=0000"]);
        assert_eq!(rules.redact_command(&split(given)), split(expected), "{given}");
        assert_eq!(rules.redact_command(&split(expected)), split(expected), "{expected}");
    }
    let header = ["server".to_owned(), "--header".to_owned(), "Authorization: Bearer abc".to_owned()];
    assert_eq!(rules(&[]).redact_command(&header)[2], "Authorization: REDACTED");
}

#[test]
fn urls() {
    for (given, expected) in [
        ("https://h/mcp", "https://h/mcp"),
        ("https://h/mcp?api_key=k&x=1", "https://h/mcp?api_key=REDACTED&x=1"),
        ("https://user:pass@h:80/mcp", "https://REDACTED@h:80/mcp"),
        ("https://tok@h", "https://REDACTED@h"),
        ("https://h/a@b?q=c@d", "https://h/a@b?q=c@d"),
        ("https://h/#access_token=t", "https://h/#access_token=REDACTED"),
        ("not a url", "not a url"),
    ] {
        assert_eq!(rules(&[]).redact_url(given), expected);
        assert_eq!(rules(&[]).redact_url(expected), expected);
    }
    assert_eq!(
        Rules::new(false, &[]).unwrap().redact_url("https://u:p@h/?token=x"),
        "https://u:p@h/?token=x"
    );
}

#[test]
fn urls_in_header_fields() {
    for (given, expected) in [
        (
            r#"Bearer realm="x", resource_metadata="https://u:p@h/a?token=k3y-of-x&b=c", error="y""#,
            r#"Bearer realm="x", resource_metadata="https://REDACTED@h/a?token=REDACTED&b=c", error="y""#,
        ),
        ("resource_metadata=https://h/?token=k3y-of-x", "resource_metadata=https://h/?token=REDACTED"),
        ("://", "://"),
        ("no URL, token=k3y-of-x", "no URL, token=REDACTED"),
    ] {
        assert_eq!(rules(&[]).redact_plain(given), expected);
        assert_eq!(rules(&[]).redact_plain(expected), expected);
    }
}

#[test]
fn urls_in_urls() {
    for (given, expected) in [
        (
            "https://h/in?next=https%3A%2F%2Fb%2Fcb%3Faccess_token%3Dk3y%26a%3D1&b=2",
            "https://h/in?next=https%3A%2F%2Fb%2Fcb%3Faccess_token%3DREDACTED%26a%3D1&b=2",
        ),
        (
            "https://h/in?a=https%3A%2F%2Fb%2F%3Fc%3Dhttps%253A%252F%252Fd%253Ftoken%253Dk3y",
            "https://h/in?a=https%3A%2F%2Fb%2F%3Fc%3Dhttps%253A%252F%252Fd%253Ftoken%253DREDACTED",
        ),
        ("see https://h/in?next=https%3A%2F%2Fb%2F%3Ftoken%3Dk3y ok", "see https://h/in?next=REDACTED ok"),
        ("https://h/to/https%3A%2F%2Fb%2F%3Ftoken%3Dk3y/x?a=1", "https://h/to/REDACTED/x?a=1"),
        ("https://h/in?https%3A%2F%2Fb%2F%3Ftoken%3Dk3y&a=1", "https://h/in?REDACTED&a=1"),
        ("https://h/?a=1#/cb?access_token=k3y&b=2", "https://h/?a=1#/cb?access_token=REDACTED&b=2"),
        ("https://h/x;token=k3y?a=1", "https://h/x;token=REDACTED?a=1"),
        ("https://token-service:8080/x1?a=1", "https://token-service:8080/x1?a=1"),
        ("u=password%3A%20k3y&a=1", "u=password%3A%20REDACTED&a=1"),
        ("u=a%26access_token%3Dk3y", "u=a%26access_token%3DREDACTED"),
        ("u=%FF%26access_token%3Dk3y&a=%FF", "u=REDACTED&a=%FF"),
        ("a%26access_token%3Dk3y", "REDACTED"),
        ("u=x%20--token%20k3y", "u=x%20--token%20REDACTED"),
        ("u=%5B%22X-Api-Key%22%2C%22k3y%22%5D", "u=%5B%22X-Api-Key%22%2C%22REDACTED%22%5D"),
    ] {
        assert_eq!(rules(&[]).redact_plain(given), expected);
        assert_eq!(rules(&[]).redact_plain(expected), expected);
        let (given, expected) = (string::encode(given), string::encode(expected));
        assert_eq!(redact(&[], &given).replace("REDACTED-1", "REDACTED"), expected);
    }
}

#[test]
fn free_text() {
    for (given, expected) in [
        ("Authorization: Bearer abc.def", "Authorization: REDACTED"),
        ("a\n> X-Api-Key: abc def\r\nb", "a\n> X-Api-Key: REDACTED\r\nb"),
        ("curl -H 'Authorization: Bearer x' url", "curl -H 'Authorization: REDACTED' url"),
        ("connecting with token=abc, retry", "connecting with token=REDACTED, retry"),
        ("mail https://h/x?to=ann%40corp.example&n=1 now", "mail https://h/x?to=REDACTED&n=1 now"),
        ("mail ann%2540corp.example, 100%25 sure", "mail REDACTED, 100%25 sure"),
        ("a%zz 50% %41 %e9", "a%zz 50% %41 %e9"),
        ("see <https://h/?api_key=k3y-v>.", "see <https://h/?api_key=REDACTED>."),
        ("<https://h/?api_key=k3y>x-v> and", "<https://h/?api_key=REDACTED> and"),
        ("<b> password=k3y>x> next", "<b> password=REDACTED next"),
        ("password = x", "password = x"),
        ("got {\"token\": \"x\", \"tokens\": [1]} ok", "got {\"token\": \"REDACTED\", \"tokens\": [1]} ok"),
        ("torn {\"token\": \"x\", \"a", "torn {\"token\": \"REDACTED\", \"a"),
        ("run --api-key abc --port 1", "run --api-key REDACTED --port 1"),
        ("GET /x?access_token=abc&b=c HTTP/1.1", "GET /x?access_token=REDACTED&b=c HTTP/1.1"),
        ("Error: invalid token: expired", "Error: invalid token: expired"),
        ("the token is secret", "the token is secret"),
        ("token=null secret=false", "token=null secret=false"),
        ("token_count=5 max_tokens: 7", "token_count=5 max_tokens: 7"),
        ("", ""),
    ] {
        assert_eq!(rules(&[]).redact_plain(given), expected);
        assert_eq!(rules(&[]).redact_plain(expected), expected);
    }
}

#[test]
fn text_that_is_no_message_is_free_text() {
    let mut redactor = redactor(&[]);
    assert_eq!(
        redactor.redact("Authorization: Basic x", Side::Server).unwrap().text,
        "Authorization: REDACTED-1"
    );
    assert_eq!(
        redactor.redact(r#"{"token":"abc","x":"#, Side::Server).unwrap().text,
        r#"{"token":"REDACTED-2","x":"#
    );
    assert_eq!(redactor.redact("hello", Side::Server), None);
}
