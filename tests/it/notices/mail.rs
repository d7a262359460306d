//! The same by mail, to a mail server that is real in what toolgate sees of it.

use super::{Stage, notify};
use crate::harness::gate::run;
use crate::harness::http2_server::authority;
use crate::harness::mail_server::{Encryption, Letter, MailServer};
use crate::harness::setup::Setup;
use crate::harness::until;

/// A receiver in the configuration.
fn reader(scheme: &str, server: &MailServer, more: &str) -> String {
    let (address, email) = (
        server.address,
        "from: toolgate@example.com, to: [ann@example.com, \"Bob <bob@example.com>\"]",
    );
    format!(
        "    - {{ name: mail, template: email, url: \"{scheme}://{address}\", events: [requested, decided]{more}, \
         email: {{ {email} }} }}\n"
    )
}

impl MailServer {
    async fn has(&self, count: usize) -> Vec<Letter> {
        until("letters", || async {
            let letters = self.letters();
            (letters.len() >= count).then_some(letters)
        })
        .await
    }
}

/// With TLS from the first byte, and with STARTTLS and a login; what is not taken is sent again, under the
/// same id; no argument but the marked one travels.
#[tokio::test]
async fn people_are_told_by_mail() {
    for (encryption, scheme, login) in [
        (Encryption::Tls, "smtps", None),
        (
            Encryption::StartTls,
            "smtp",
            Some("user: tg, password: the-password, "),
        ),
    ] {
        let server = MailServer::start(encryption, 1).await;
        let mut receiver = reader(scheme, &server, "");
        if let Some(login) = login {
            receiver = receiver.replace("email: { ", &format!("email: {{ {login}"));
        }
        let trusted = Setup::new().environment("SSL_CERT_FILE", authority().to_str().unwrap());
        let stage = Stage::on(trusted, &notify(&[receiver], "mail")).await;
        let id = stage.pays(500).await.unwrap();
        let asked = server.has(1).await.remove(0);
        assert!(asked.is_encrypted, "{asked:?}");
        assert_eq!(asked.login.is_some(), login.is_some(), "{asked:?}");
        assert!(asked.from.contains("toolgate@example.com"), "{asked:?}");
        assert_eq!(asked.to.len(), 2, "{asked:?}");
        for part in [
            "Subject: toolgate: A call waits for a person",
            "Tool: bank__pay",
            "Argument /amount: 500",
            &format!("https://toolgate.example/approvals/{id}"),
            &format!("Message-ID: <{id}.requested@"),
        ] {
            assert!(asked.text.contains(part), "{part}: {}", asked.text);
        }
        assert!(!asked.text.contains("the-secret-argument"), "{asked:?}");
        stage.says("allow", &id).await;
        let letters = server.has(2).await;
        assert!(
            letters[1].text.contains("A held call was allowed"),
            "{letters:?}"
        );
    }
}

/// A reader who has left costs the others nothing: they are told once, and where nobody is left it is tried again.
#[tokio::test]
async fn one_reader_who_is_gone_leaves_the_others_told() {
    let server = MailServer::start(Encryption::Never, 0).await;
    server.knows_nobody("bob@");
    let reader = reader("smtp", &server, ", unencrypted: true");
    let stage = Stage::new(&notify(&[reader], "mail")).await;
    let id = stage.pays(500).await.unwrap();
    let asked = server.has(1).await.remove(0);
    assert_eq!(asked.to, ["TO:<ann@example.com>"], "{asked:?}");
    let delivered = "toolgate_notifications_total{receiver=\"mail\",outcome=\"delivered\"}";
    until("a delivery", || async {
        (stage.gate.metric(delivered).await > 0.5).then_some(())
    })
    .await;

    server.knows_nobody("ann@");
    stage.says("allow", &id).await;
    let failed = "toolgate_notifications_total{receiver=\"mail\",outcome=\"failed\"}";
    until("a failure", || async {
        (stage.gate.metric(failed).await > 0.5).then_some(())
    })
    .await;
    assert_eq!(server.letters().len(), 1, "nobody is left to be told");
}

/// What offers no encryption is told nothing, unless the configuration says so; a certificate that nobody
/// vouches for is none.
#[tokio::test]
async fn nothing_is_told_unencrypted() {
    let (open, strange) = (
        MailServer::start(Encryption::Never, 0).await,
        MailServer::start(Encryption::Tls, 0).await,
    );
    let receivers = [
        reader("smtp", &open, ""),
        reader("smtps", &strange, "").replace("name: mail", "name: strange"),
        reader("smtp", &open, ", unencrypted: true").replace("name: mail", "name: plain"),
    ];
    let stage = Stage::new(&notify(&receivers, "mail, strange, plain")).await;
    stage.pays(5).await.unwrap();
    let letters = open.has(1).await;
    assert!(!letters[0].is_encrypted, "{letters:?}");
    for name in ["mail", "strange"] {
        let series =
            format!("toolgate_notifications_total{{receiver=\"{name}\",outcome=\"failed\"}}");
        until("a failure", || async {
            (stage.gate.metric(&series).await > 0.5).then_some(())
        })
        .await;
    }
    assert_eq!(
        open.letters().len(),
        1,
        "only where the configuration says so"
    );
    assert!(strange.letters().is_empty());
}

/// What cannot be meant is said before anything starts.
#[tokio::test]
async fn check_knows_mail() {
    for (receiver, said) in [
        (
            "{ name: a, template: email, url: \"smtp://mail.example.com\" }",
            "says nothing of who writes to whom",
        ),
        (
            "{ name: a, url: \"https://example.com/\", email: { from: a@b.c, to: [a@b.c] } }",
            "goes with `template: email`",
        ),
        (
            "{ name: a, template: email, url: \"https://example.com/\", email: { from: a@b.c, to: [a@b.c] } }",
            "is no mail server",
        ),
        (
            "{ name: a, template: email, url: \"smtp://example.com\", email: { from: nobody, to: [a@b.c] } }",
            "is no address of mail",
        ),
        (
            "{ name: a, template: email, url: \"smtp://example.com\", unencrypted: true, email: { from: a@b.c, to: [a@b.c], user: u, password: p } }",
            "a password would travel unencrypted",
        ),
        (
            "{ name: a, url: \"https://example.com/\", quiet: { from: \"22:00\", to: \"07:00\", zone: Europe/Bonn } }",
            "is no time zone",
        ),
    ] {
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy("contracts: {}\n")
            .more(&format!("notify: {{ receivers: [ {receiver} ] }}\n"));
        setup.write();
        let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert!(code != 0 && out.contains(said), "{said}: {out}{err}");
    }
}

/// Issue 17: what would never be told, or not as it is written, is said where it stands.
#[tokio::test]
async fn check_says_where_mail_cannot_be_meant() {
    let reader = "email: { from: a@b.example, to: [a@b.example] }";
    for (url, more, place, said) in [
        (
            "smtp://mail.example:0",
            "",
            "\"smtp://mail.example:0\"",
            "has port 0, at which nothing listens",
        ),
        (
            "smtps://mail.example",
            ", unencrypted: true",
            "true }",
            "contradicts smtps://, which encrypts everything",
        ),
        (
            "smtp://mail.example",
            ", headers: { X-Team: lead }",
            "headers: { X-Team",
            "stand in no mail",
        ),
        (
            "smtp://mail.example",
            ", roles: [approver, aprover]",
            "aprover]",
            "no operator of `admin.tokens` has the role `aprover`",
        ),
        (
            "smtp://mail.example",
            ", operator: anne",
            "anne }",
            "is no operator of `admin.tokens`",
        ),
    ] {
        // What is wrong with the first does not move the places of the second.
        let wrong = "{ name: wrong, template: email, url: \"smtp://mail.example\" }";
        let receiver = format!("{{ name: a, template: email, url: \"{url}\", {reader}{more} }}");
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy("contracts: {}\n")
            .operators(
                "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [approver] } ]",
            )
            .more(&format!(
                "notify: {{ receivers: [ {wrong}, {receiver} ] }}\n"
            ));
        let path = setup.write();
        let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        assert!(code == 1 && out.contains(said), "{said}: {out}{err}");
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines().enumerate();
        let (line, text) = lines.find(|(_, line)| line.starts_with("notify")).unwrap();
        let column = text.find(place).unwrap() + 1;
        let place = format!("toolgate.yaml:{}:{column}", line + 1);
        assert!(out.contains(&place), "{said}: {place}: {out}");
    }
}
