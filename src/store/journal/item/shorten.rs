//! Entries as they are written: no larger than 32 KiB (threat-model §8). What an agent made too
//! long is cut, never the entry left out: that would be a way to call without a trace.

use super::written::append;
use crate::model::entry::Entry;
use serde_json::Value;

/// Bytes of the largest entry.
pub(super) const MAX_ENTRY_BYTES: usize = 32 << 10;
/// Bytes left of each text, as JSON, in an entry that was too large.
const MAX_TEXT_BYTES: usize = 512;
/// Roles and actions left in an entry that was too large.
const MAX_LIST_ITEMS: usize = 16;

/// Appends `entry` to `out` as JSON.
pub(super) fn write(entry: &mut Entry, out: &mut Vec<u8>) {
    // JSON has no word for these; the entry could not be read back.
    for number in [
        &mut entry.latency_ms,
        &mut entry.gate_ms,
        &mut entry.upstream_ms,
    ] {
        if !number.is_finite() {
            *number = 0.0;
        }
    }
    let start = out.len();
    append(entry, out);
    let size = out.len() - start;
    if size > MAX_ENTRY_BYTES {
        out.truncate(start);
        shorten(entry, size);
        append(entry, out);
    }
}

fn shorten(entry: &mut Entry, size: usize) {
    if !entry.audit.is_empty() {
        entry.audit.clear();
        let note = Value::String(format!("left out: the entry had {size} bytes"));
        entry.audit.insert("toolgate".to_owned(), note);
    }
    let Entry {
        roles,
        actions,
        rewritten_by,
        unasked,
        allowed_by,
        resources,
        tenant_id,
        session,
        schema_hash,
        aborted_reason,
        ..
    } = entry;
    let lists = [roles, actions, rewritten_by, unasked, allowed_by, resources];
    let items = lists.into_iter().flat_map(|list| {
        list.truncate(MAX_LIST_ITEMS);
        list
    });
    let options = [
        &mut entry.agent_id,
        &mut entry.certificate,
        tenant_id,
        session,
        schema_hash,
        aborted_reason,
        &mut entry.original_params_hash,
        &mut entry.task,
        &mut entry.state_before,
        &mut entry.decided_by,
        &mut entry.would_refuse,
        &mut entry.fault,
        &mut entry.result_hash,
        &mut entry.issuer,
        &mut entry.subject,
    ];
    let texts = [
        &mut entry.time,
        &mut entry.action_id,
        &mut entry.request_id,
        &mut entry.trace_id,
        &mut entry.user_id,
        &mut entry.revision,
        &mut entry.tool,
        &mut entry.params_hash,
        &mut entry.state,
        &mut entry.event,
        &mut entry.outcome,
        &mut entry.stage,
        &mut entry.policy,
    ];
    for text in items.chain(options.into_iter().flatten()).chain(texts) {
        cut(text);
    }
}

fn cut(text: &mut String) {
    let mut size = 0;
    let end = text.char_indices().find(|(_, letter)| {
        // As JSON writes it.
        size += if letter.is_control() {
            6
        } else {
            letter.len_utf8() + usize::from(matches!(letter, '"' | '\\'))
        };
        size > MAX_TEXT_BYTES
    });
    if let Some((end, _)) = end {
        text.truncate(end);
        text.push('…');
    }
}
