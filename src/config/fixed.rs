//! What of the configuration stays as it is until a restart (`RESTART_KEYS`).

use serde_json::Value;

/// What is written under `key`, as far as only a restart applies it.
pub(super) fn fixed(tree: &Value, key: &str) -> String {
    match key {
        "admin" => without_operators(&tree[key]).to_string(),
        // Whose receivers are silent depends on who is away.
        "notify" if !tree[key].is_null() => format!("{} {}", tree[key], tree["admin"]["operators"]),
        _ => tree[key].to_string(),
    }
}

/// What of the operators' door stays as it is until a restart: where it is, and how it is reached; not who comes in.
fn without_operators(admin: &Value) -> Value {
    let mut fixed = admin.clone();
    if let Some(fixed) = fixed.as_object_mut() {
        for key in ["tokens", "operators", "verbs", "jwt"] {
            fixed.remove(key);
        }
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::{fixed, without_operators};
    use serde_json::json;

    #[test]
    fn who_comes_in_needs_no_restart_and_where_the_door_is_does() {
        let before = json!({ "listen": "x", "tokens": [{ "name": "ann", "token": "a", "roles": ["approver"] }] });
        let other = json!({
            "listen": "x",
            "tokens": [{ "name": "bob", "token": "b", "roles": [] }],
            "operators": { "bob": { "away_until": "2026-12-24T08:00:00Z", "delegate": "ann" } },
            "verbs": { "audit": ["bob"] },
            "jwt": [{ "issuer": "https://login.example.com" }],
        });
        assert_eq!(without_operators(&before), without_operators(&other));
        let elsewhere = json!({ "listen": "y", "tokens": before["tokens"].clone() });
        assert_ne!(without_operators(&before), without_operators(&elsewhere));
        assert_eq!(without_operators(&json!(null)), json!(null));
    }

    /// Who decides for one who is away changes at once; who is told in the place of that one, at a restart.
    #[test]
    fn receivers_go_by_the_absences_of_the_start() {
        let away = json!({ "ann": { "away_until": "2026-12-24T08:00:00Z", "delegate": "bob" } });
        for notify in [json!(null), json!({ "receivers": [] })] {
            let before = json!({ "notify": notify.clone() });
            let now = json!({ "notify": notify.clone(), "admin": { "operators": away } });
            let is_same = fixed(&before, "notify") == fixed(&now, "notify");
            assert_eq!(is_same, notify.is_null());
        }
    }
}
