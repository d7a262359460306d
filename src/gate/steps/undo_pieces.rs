//! The call that takes another one back, made of what was kept of that one (003-64): its arguments, and
//! what shows that the effect is gone.

use crate::gate::steps::undo_kept::{ARGUMENTS_PART, TOO_LONG, VALUES_PART};
use crate::guards::rollback::{RESULT_PREFIX, UndoCheck, filled, taken};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::store::claims::Store;
use crate::store::state::StoreKeys;
use crate::store::state::kept_text::KeptText;
use crate::store::state::undo::OpenUndo;
use crate::store::undos::NoUndo;
use serde_json::{Map, Value};

const GONE: &str = "what it needs of the result is not kept any more";
const UNREADABLE: &str = "what was kept for it cannot be read";

/// The arguments of the call that takes `undo.of` back, and what shows that the effect is gone.
pub(in crate::gate) async fn pieces(
    store: &dyn Store,
    undo: &OpenUndo,
) -> Result<(Map<String, Value>, Option<UndoCheck>), NoUndo> {
    let lacking = |why: &str| NoUndo::Lacking(why.to_owned());
    let mut kept = opened(store, undo, ARGUMENTS_PART, &undo.terms.arguments)?;
    let check = kept.remove("check");
    let check = check.as_ref().and_then(UndoCheck::of);
    let mut take = |name: &str| match kept.remove(name) {
        Some(Value::Object(members)) => Ok(members),
        _ => Err(lacking(UNREADABLE)),
    };
    let (named, mut parts) = (take("arguments")?, take("values")?);
    let of_result = if let Some(values) = &undo.values {
        opened(store, undo, VALUES_PART, values)?
    } else {
        let result = result(store, undo).await?;
        let mut values = taken(&named, RESULT_PREFIX, &result);
        let of_check = check
            .iter()
            .map(|check| check.taken(RESULT_PREFIX, &result));
        values.extend(of_check.flatten());
        values
    };
    parts.extend(of_result);
    let made = |named: &Map<String, Value>| {
        let made = filled(named, &parts, &undo.of.to_string());
        made.map_err(|missing| NoUndo::Lacking(missing.to_string()))
    };
    let check = check.map(|check| {
        let arguments = made(&check.arguments)?;
        Ok::<_, NoUndo>(UndoCheck { arguments, ..check })
    });
    Ok((made(&named)?, check.transpose()?))
}

fn opened(
    store: &dyn Store,
    undo: &OpenUndo,
    part: &str,
    kept: &KeptText,
) -> Result<Map<String, Value>, NoUndo> {
    let lacking = |why: &str| NoUndo::Lacking(why.to_owned());
    let text = store.open_text(undo.of, part, kept);
    let text = text.map_err(|error| NoUndo::Lacking(error.to_string()))?;
    let text = text.ok_or_else(|| lacking(TOO_LONG))?;
    let read = Text::read(text.into(), &SERVER_JSON_LIMITS);
    let read = read.map_err(|_| lacking(UNREADABLE))?;
    read.parse().map_err(|_| lacking(UNREADABLE))
}

/// The structured result, of the answer that is kept to be given again; nothing of one that has
/// none.
async fn result(store: &dyn Store, undo: &OpenUndo) -> Result<Value, NoUndo> {
    let place = StoreKeys {
        call: Some(undo.key),
        ..StoreKeys::default()
    };
    let claim = store.load_view(place).await?.claim;
    let claim = claim.filter(|claim| claim.action == undo.of);
    let stored = claim.and_then(|claim| claim.phase.stored().cloned());
    let Some(stored) = stored else {
        return Ok(Value::Null);
    };
    let body = store.body(&stored).await;
    let body = body.map_err(|_| NoUndo::Lacking(GONE.to_owned()))?;
    let read = Text::read_oddly(body, &SERVER_JSON_LIMITS);
    let (body, odd) = read.map_err(|_| NoUndo::Lacking(GONE.to_owned()))?;
    if odd.is_some() {
        // Two readers find two ids in it.
        return Err(NoUndo::Lacking(UNREADABLE.to_owned()));
    }
    let structured = body.get("structuredContent");
    Ok(structured.map_or(Value::Null, |structured| structured.value()))
}
