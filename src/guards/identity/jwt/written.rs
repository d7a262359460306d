//! What the configuration says of an issuer at either door, as written. It is a macro, since serde refuses unknown
//! keys only in the struct that has them all.

/// Settings of an issuer: what both doors are told of one, and then the door's own keys.
macro_rules! issuer_settings {
    ($(#[$about:meta])* struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        pub(crate) struct $name {
            /// what `iss` of its tokens says, letter by letter
            pub issuer: String,
            /// what `aud` of its tokens has to name: this door
            pub audience: String,
            /// The address of its public keys (a JWK set): `https://`, or `http://` on this machine.
            pub jwks_url: Option<String>,
            /// The file that its public keys are in, instead.
            pub jwks_file: Option<String>,
            /// The algorithms that may sign: `[ES256, RS256, EdDSA]` if absent.
            #[serde(default)]
            pub algs: Vec<$crate::guards::identity::jwt::SigningAlgorithm>,
            /// How far its clock and toolgate's may be apart: `30s` if absent, `5m` at most.
            pub leeway: Option<String>,
            /// For how long its last keys count while they cannot be fetched anew: `1h` if absent, 1m to
            /// 24h. Then its tokens are answered 503.
            pub max_stale: Option<String>,
            $($own)*
        }

        impl $name {
            /// What both doors are told of an issuer.
            pub(crate) fn terms(&self) -> $crate::guards::identity::jwt::IssuerTerms {
                $crate::guards::identity::jwt::IssuerTerms {
                    issuer: self.issuer.clone(),
                    audience: self.audience.clone(),
                    jwks_url: self.jwks_url.clone(),
                    jwks_file: self.jwks_file.clone(),
                    algs: self.algs.clone(),
                    leeway: self.leeway.clone(),
                    max_stale: self.max_stale.clone(),
                }
            }
        }
    };
}
pub(crate) use issuer_settings;
