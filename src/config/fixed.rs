//! What of the configuration stays as it is until a restart (`RESTART_KEYS`).

use serde_json::Value;

/// What is written under `key`, as far as only a restart applies it.
pub(super) fn fixed(tree: &Value, key: &str) -> String {
    match key {
        "admin" => without_tokens(&tree[key]).to_string(),
        _ => tree[key].to_string(),
    }
}

/// What of the operators' door stays as it is until a restart: not the tokens of operators who stay.
fn without_tokens(admin: &Value) -> Value {
    let mut fixed = admin.clone();
    if let Some(operators) = fixed.get_mut("tokens").and_then(Value::as_array_mut) {
        for operator in operators.iter_mut().filter_map(|one| one.as_object_mut()) {
            operator.remove("token");
            operator.remove("previous");
        }
        let mut seen = Vec::new();
        operators.retain(|operator| {
            let is_new = !seen.contains(operator);
            seen.push(operator.clone());
            is_new
        });
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::without_tokens;
    use serde_json::json;

    #[test]
    fn a_token_that_changes_needs_no_restart_and_a_role_does() {
        let before = json!({ "listen": "x", "tokens": [{ "name": "ann", "token": "a", "roles": ["approver"] }] });
        let rotating = json!({ "listen": "x", "tokens": [
            { "name": "ann", "token": "b", "roles": ["approver"], "previous": [{ "token": "a" }] },
            { "name": "ann", "token": "c", "roles": ["approver"] },
        ] });
        assert_eq!(without_tokens(&before), without_tokens(&rotating));
        let other = json!({ "listen": "x", "tokens": [{ "name": "ann", "token": "a", "roles": ["auditor"] }] });
        assert_ne!(without_tokens(&before), without_tokens(&other));
        assert_eq!(without_tokens(&json!(null)), json!(null));
    }
}
