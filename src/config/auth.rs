//! The key `auth`: where agents reach toolgate, and what of the issuers' keys lies in files.

use super::operators::of_public_url;
use crate::guards::identity::issued::settings::AuthSettings;
use crate::guards::identity::jwt::key_set::{KEY_SET_BYTES_MAX, KeySet};
use crate::model::diagnostic::Problems;
use bytes::Bytes;
use std::io::Read as _;
use std::path::Path;

/// The settings with whole paths, judged as far as files are concerned.
pub(super) fn settled(
    auth: AuthSettings,
    directory: &Path,
    problems: &mut Problems,
) -> AuthSettings {
    let AuthSettings {
        public_url,
        mut jwt,
    } = auth;
    let public_url = problems.under("public_url", |problems| {
        public_url.and_then(|written| of_public_url(&written, problems))
    });
    if jwt.is_empty() && public_url.is_some() {
        let hint = "add `jwt: [ { issuer: …, audience: …, jwks_url: …, claims: { agent: … } } ]`, or take `public_url` away";
        problems.error("names no issuer whose tokens it could speak of", hint);
    }
    problems.under("jwt", |problems| {
        for (index, issuer) in jwt.iter_mut().enumerate() {
            problems.under(index.to_string(), |problems| {
                settle_file(&mut issuer.jwks_file, directory, problems);
            });
        }
    });
    AuthSettings { public_url, jwt }
}

/// Makes a whole path of it, and judges what is there now.
pub(super) fn settle_file(file: &mut Option<String>, directory: &Path, problems: &mut Problems) {
    let Some(written) = file else { return };
    let path = directory.join(&*written);
    *written = path.display().to_string();
    if let Err(why) = judge_file(&path) {
        problems.under("jwks_file", |problems| {
            let hint = "name a file with the issuer's JWK set, such as it has at its `jwks_uri`";
            problems.error(format!("{} {why}", path.display()), hint);
        });
    }
}

fn judge_file(path: &Path) -> Result<(), String> {
    let unread = |error: std::io::Error| format!("cannot be read: {error}");
    let file = std::fs::File::open(path).map_err(unread)?;
    let mut text = Vec::new();
    let most = u64::try_from(KEY_SET_BYTES_MAX).unwrap_or(u64::MAX);
    let mut file = file.take(most.saturating_add(1));
    file.read_to_end(&mut text).map_err(unread)?;
    let set = KeySet::read(Bytes::from(text));
    set.map(drop).map_err(|why| format!("is no key set: {why}"))
}
