//! What a secret looks like, by its name and by itself. In doubt it is one.

/// Parts of a name that say that its value is secret.
const SECRET_NAME_PARTS: &[&str] = &[
    "token",
    "secret",
    "key",
    "pass",
    "pwd",
    "credential",
    "auth",
    "private",
    "cookie",
    "session",
    "dsn",
    "connection",
    "bearer",
    "cert",
    "signature",
    "webhook",
    "mnemonic",
    "jwt",
    "otp",
    "salt",
    "seed",
];
/// What well-known secrets begin with.
const SECRET_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "-----BEGIN",
    "npm_",
    "hf_",
    "lin_",
    "secret_",
    "ntn_",
    "gsk_",
    "shpat_",
    "whsec_",
    "xapp-",
    "dckr_pat_",
    "dop_v1_",
    "AGE-SECRET-KEY-",
];
/// Characters from which on a text can be a key.
const MIN_KEY_CHARS: usize = 20;
/// Changes between letters and digits that words do not have.
const MIN_LETTER_DIGIT_CHANGES: usize = 4;

/// Keys of toolgate's files below which a value may be a secret, whatever it looks like.
const SECRET_KEYS: [&str; 8] = [
    "token",
    "secret",
    "client_secret",
    "headers",
    "env",
    "url",
    "token_url",
    "password",
];
/// Keys below which a value may be one unless it surely is none.
const DOUBTFUL_KEYS: [&str; 2] = ["args", "command"];

/// May a value below this key of a file be a secret, so that no other place repeats it?
pub(crate) fn is_secret_key(key: &str) -> bool {
    SECRET_KEYS.contains(&key) || DOUBTFUL_KEYS.contains(&key)
}

/// May the value at this place of a file be shown there, to who wrote it?
pub(crate) fn may_show(path: &[String], value: &str) -> bool {
    let below = |keys: &[&str]| path.iter().any(|step| keys.contains(&step.as_str()));
    !below(&SECRET_KEYS) && (!below(&DOUBTFUL_KEYS) || is_harmless(value))
}

/// Does a name say that what it names is secret?
pub(crate) fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pat", "pin", "pw", "sig"]
        .iter()
        .any(|word| name == *word || name.ends_with(&format!("_{word}")))
        || SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Is this a secret by its looks?
pub(crate) fn is_secret(value: &str) -> bool {
    let with_password = value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.split('/').next().unwrap_or("").contains('@'));
    let known = SECRET_PREFIXES
        .iter()
        .any(|prefix| value.starts_with(prefix));
    let kinds: Vec<bool> = value
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|one| one.is_ascii_digit())
        .collect();
    let mixed =
        kinds.windows(2).filter(|pair| pair[0] != pair[1]).count() >= MIN_LETTER_DIGIT_CHANGES;
    let leads = |text: &str| text.starts_with(['/', '.', '~']) && text.contains('/');
    let is_path = leads(value)
        || value
            .split_once('=')
            .is_some_and(|(name, rest)| !is_telling(name) && leads(rest));
    let is_version = value.contains("==") || value.starts_with('@');
    with_password
        || known
        || (value.len() >= MIN_KEY_CHARS
            && mixed
            && !is_path
            && !is_version
            && !value.contains(' '))
}

/// Is this surely none? Numbers, words, paths and addresses.
pub(crate) fn is_harmless(value: &str) -> bool {
    let number = value.len() <= 6
        && value
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let word = value.len() <= MIN_KEY_CHARS
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || b"-_/ ,;=.".contains(&byte));
    let path = value.starts_with('/') || value.starts_with("./") || value.starts_with("~/");
    let address = value.starts_with("https://") || value.starts_with("http://");
    (number || word || path || (address && !value.contains(['?', '@', '#'])))
        && !value.split('/').any(is_secret)
}
