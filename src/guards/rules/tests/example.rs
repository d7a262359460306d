//! The example of requirement 003: an invoice, behind a role, a tenant and three rules.

use super::*;
use crate::guards::{arguments, permission};
use crate::schema::Schema;

/// The script's order: contract, role, tenant, amount, currency, customer (003-29), with the
/// script's values (003-30).
fn example() -> (permission::Rule, Rule) {
    let permission = json!({ "roles": ["billing_admin"], "tenant": "/tenant_id" });
    let permission: permission::Settings = serde_json::from_value(permission).unwrap();
    let mut problems = Problems::default();
    let permission = permission.compile(&mut problems);
    let (rules, found) = compile(&[
        (
            "amount_out_of_range",
            "arguments.amount_cents < 1 || arguments.amount_cents > 5000000",
        ),
        (
            "currency_not_allowed",
            "!(arguments.currency in ['CNY', 'USD'])",
        ),
        (
            "customer_id_invalid",
            "size(arguments.customer_id) < 1 || size(arguments.customer_id) > 64",
        ),
    ]);
    assert_eq!((problems.into_found(), found), (vec![], vec![]));
    (permission, rules)
}

fn judge(caller: &Caller, call: &Value) -> Result<(), String> {
    let (permission, rules) = example();
    let server = Schema::compile(&json!({ "type": "object" })).unwrap();
    let judged = arguments::Rule::default()
        .check(&server, call)
        .and_then(|checked| {
            let permit = permission.allow(caller, call, &checked)?;
            rules.apply(caller, call, &DeclaredArguments::of(&server, None), &permit)
        });
    judged
        .map(drop)
        .map_err(|refusal| refusal.code().to_owned())
}

fn legal() -> Value {
    json!({ "tenant_id": "t_001", "amount_cents": 1200, "currency": "CNY", "customer_id": "c_123" })
}

fn with(mut call: Value, name: &str, value: &Value) -> Value {
    call[name] = value.clone();
    call
}

fn without(mut call: Value, name: &str) -> Value {
    call.as_object_mut().unwrap().shift_remove(name);
    call
}

/// 003-22 … 003-26, 003-31, 003-32.
#[test]
fn the_example_gate_answers_by_its_codes() {
    assert_eq!(judge(&caller(), &legal()), Ok(()));
    let amount = "amount_out_of_range";
    for (value, code) in [
        (json!(0), Some(amount)),
        (json!(1), None),
        (json!(5_000_000), None),
        (json!(5_000_001), Some(amount)),
        (json!(-1), Some(amount)),
        (json!("1200"), Some(amount)),
        (json!(null), Some(amount)),
        (json!([1200]), Some(amount)),
        (json!(1200.0), None),
        (json!(0.5), Some(amount)),
        (json!(1e300), Some(amount)),
        (json!(u64::MAX), Some(amount)),
    ] {
        let judged = judge(&caller(), &with(legal(), "amount_cents", &value));
        assert_eq!(judged.err().as_deref(), code, "{value}");
    }
    for (name, value, code) in [
        ("currency", json!("EUR"), Some("currency_not_allowed")),
        ("currency", json!("USD"), None),
        ("currency", json!("cny"), Some("currency_not_allowed")),
        ("customer_id", json!(""), Some("customer_id_invalid")),
        ("customer_id", json!("x".repeat(64)), None),
        ("customer_id", json!("客".repeat(64)), None),
        (
            "customer_id",
            json!("x".repeat(65)),
            Some("customer_id_invalid"),
        ),
        (
            "customer_id",
            json!("客".repeat(65)),
            Some("customer_id_invalid"),
        ),
        ("customer_id", json!(7), Some("customer_id_invalid")),
        ("tenant_id", json!("t_999"), Some("tenant_mismatch")),
    ] {
        let judged = judge(&caller(), &with(legal(), name, &value));
        assert_eq!(judged.err().as_deref(), code, "{name} {value}");
    }
    for (name, code) in [
        ("amount_cents", amount),
        ("currency", "currency_not_allowed"),
        ("customer_id", "customer_id_invalid"),
        ("tenant_id", "tenant_mismatch"),
    ] {
        assert_eq!(
            judge(&caller(), &without(legal(), name)),
            Err(code.to_owned()),
            "without {name}"
        );
    }
}

/// 003-29: of two faults the earlier one answers.
#[test]
fn of_two_faults_the_earlier_one_answers() {
    type Fault = fn(Caller, Value) -> (Caller, Value);
    let faults: [(&str, Fault); 5] = [
        ("rbac_denied", |caller, call| {
            (
                Caller {
                    roles: vec![],
                    ..caller
                },
                call,
            )
        }),
        ("tenant_mismatch", |caller, call| {
            (caller, with(call, "tenant_id", &json!("t_999")))
        }),
        ("amount_out_of_range", |caller, call| {
            (caller, with(call, "amount_cents", &json!(0)))
        }),
        ("currency_not_allowed", |caller, call| {
            (caller, with(call, "currency", &json!("EUR")))
        }),
        ("customer_id_invalid", |caller, call| {
            (caller, with(call, "customer_id", &json!("")))
        }),
    ];
    for (first, (code, one)) in faults.iter().enumerate() {
        for (_, two) in &faults[first..] {
            let (caller, call) = one(caller(), legal());
            let (caller, call) = two(caller, call);
            assert_eq!(judge(&caller, &call), Err((*code).to_owned()));
        }
    }
}
