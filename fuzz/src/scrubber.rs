//! No secret gets through the scrubber, whatever stands around it, in whatever form it knows, and
//! however the bytes were cut into chunks (threat-model §3F F2).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::sync::{Arc, LazyLock};
use toolgate::model::scrub::Scrubber;
use toolgate::model::secret::Secret;

const SECRETS: [(&str, &str); 3] = [
    ("plain", "correct-horse-battery"),
    ("odd", "p\"a\\s/s%20w\u{f6}rd+="),
    ("hex", "00ff00ff7a7a7a7a00ff"),
];

static SCRUBBER: LazyLock<Arc<Scrubber>> = LazyLock::new(|| {
    let secrets = SECRETS.map(|(name, value)| (name, Secret::new(value.to_owned())));
    Arc::new(Scrubber::new(
        secrets.iter().map(|(name, value)| (*name, value)),
    ))
});

/// The first byte chooses a secret and its form, which is put between the halves of the rest, and
/// the size of chunks.
pub fn run(data: &[u8]) {
    let (first, around) = super::led(data);
    judge(around, usize::from(first >> 2) + 1);
    let (_, secret) = SECRETS[usize::from(first) % SECRETS.len()];
    let (before, after) = around.split_at(around.len() / 2);
    for form in forms(secret.as_bytes()) {
        let text = [before, form.as_bytes(), after].concat();
        let clean = judge(&text, usize::from(first >> 2) + 1);
        assert!(!holds(&clean, form.as_bytes()), "{form:?} got through");
    }
}

/// Scrubs, whole and in chunks.
fn judge(bytes: &[u8], size: usize) -> Vec<u8> {
    let clean = SCRUBBER.scrub(bytes).unwrap_or_else(|| bytes.to_vec());
    for (_, secret) in SECRETS {
        assert!(!holds(&clean, secret.as_bytes()), "{secret:?} got through");
    }
    assert_eq!(
        SCRUBBER.scrub(&clean).unwrap_or_else(|| clean.clone()),
        clean,
        "what is clean stays as it is"
    );
    let (mut stream, mut out) = (SCRUBBER.stream(), Vec::new());
    for chunk in bytes.chunks(size) {
        stream.push(chunk, &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(
        String::from_utf8_lossy(&out),
        String::from_utf8_lossy(&clean),
        "in chunks of {size}"
    );
    clean
}

fn holds(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

fn forms(secret: &[u8]) -> Vec<String> {
    let small: Vec<String> = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = small.concat();
    let percent: Vec<String> = secret.iter().map(|byte| format!("%{byte:02X}")).collect();
    let text = String::from_utf8_lossy(secret);
    let escaped = serde_json::Value::from(&*text)
        .to_string()
        .trim_matches('"')
        .to_owned();
    vec![
        text.into_owned(),
        hex.to_uppercase(),
        hex,
        percent.concat(),
        escaped,
        STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ]
}
