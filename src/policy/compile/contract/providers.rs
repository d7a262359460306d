//! Is a caller's model of the providers that a contract names?

use crate::model::diagnostic::Problems;
use crate::model::spelling::{nearest, suggest};

/// A name of fewer bytes is not taken for another one, misspelt: `zai` and `xai` are two.
const MIN_MISSPELT_BYTES: usize = 5;

/// Notes what is no provider, and each one that is not among `known`, those of the callers and their
/// models: nobody would see the tool by it. One that is nearly spelt as another is misspelt; others
/// may wait for their first caller. As long as no caller has any model, nothing is said of these.
pub(super) fn judge(providers: &[String], known: &[String], problems: &mut Problems) {
    problems.under("providers_allowed", |problems| {
        for (index, provider) in providers.iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                judge_one(provider, known, problems);
            });
        }
    });
}

fn judge_one(provider: &String, known: &[String], problems: &mut Problems) {
    if provider.trim() != provider || provider.is_empty() || provider.contains('*') {
        let hint = "write a provider or provider/model, such as openai or openai/gpt-5";
        return problems.error("is no provider", hint);
    }
    if known.is_empty() || known.contains(provider) {
        return;
    }
    let message = format!("no caller has a model of `{provider}`");
    // Models are called nearly alike, and so are those with short names.
    let is_long = provider.len() >= MIN_MISSPELT_BYTES && !provider.contains('/');
    let hint = suggest(provider, known);
    if is_long && nearest(provider, known).is_some() {
        problems.error(message, hint);
    } else {
        problems.warning(message, hint);
    }
}
