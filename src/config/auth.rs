//! The key `auth`: where agents reach toolgate, and what of the issuers' keys lies in files.

use super::exposed;
use super::operators::of_public_url;
use crate::guards::identity::issued::settings::AuthSettings;
use crate::guards::identity::jwt::key_set::{KEY_SET_BYTES_MAX, KeySet};
use crate::model::diagnostic::Problems;
use crate::owners::regular;
use bytes::Bytes;
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
    problems.under("jwks_file", |problems| {
        exposed::keys(&path, problems);
        match judge_file(&path) {
            Ok(KeySet { weak: 0, .. }) => {}
            Ok(_) => problems.warning(
                "RSA keys of fewer than 2048 bits are left out",
                "have the issuer sign with longer keys, or by ES256",
            ),
            Err(why) => {
                let hint =
                    "name a file with the issuer's JWK set, such as it has at its `jwks_uri`";
                problems.error(format!("{} {why}", path.display()), hint);
            }
        }
    });
}

fn judge_file(path: &Path) -> Result<KeySet, String> {
    let most = u64::try_from(KEY_SET_BYTES_MAX).unwrap_or(u64::MAX);
    let text = regular::read(path, most).map_err(|fault| format!("cannot be read: {fault}"))?;
    let set = KeySet::read(Bytes::from(text));
    set.map_err(|why| format!("is no key set: {why}"))
}
