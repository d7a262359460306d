//! Whether a toolgate at an operators' door is that of a data directory: what it says of itself is what
//! stands in the directory's lock. Several have the same address in their configurations, and only one
//! of them can run; what is meant for one is not for another, nor is an operator's token.

use super::door::{self, LookedAtDoor};
use crate::cli::configured;
use crate::config::DoorAddress;
use crate::mcp::json::Text;
use crate::store::journal::DataHolder;
use std::path::Path;
use std::time::Duration;

/// Whether a toolgate that answers is the one that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum DoorOwner {
    /// It has the directory; or nobody can tell, because the directory is another user's.
    Own,
    /// It has another one.
    Other,
}

/// How the door that is asked was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum DoorNaming {
    /// An operator typed its address, and no directory: it is the one that is meant, unless the
    /// directory of the configuration has another toolgate.
    Address,
    /// The directory, or the configuration, that was named or found says which toolgate is meant.
    Directory,
}

/// What a toolgate that answers says to everyone.
pub(in crate::cli) struct DoorWord {
    /// What `/readyz` answers.
    pub told: Text,
    /// Whether it is ready.
    pub ready: bool,
    /// Which opening of a data directory it has; none where its version does not say.
    instance: Option<String>,
}

impl DoorWord {
    /// That of the toolgate at `address`; none where nothing answers within `bound` that speaks as one.
    ///
    /// # Errors
    /// Why what is open there cannot be trusted.
    pub(in crate::cli) async fn of(
        address: DoorAddress,
        bound: Duration,
    ) -> anyhow::Result<Option<Self>> {
        let (told, instance) = match door::look(address, "/readyz", bound).await {
            LookedAtDoor::Answers(told, instance) => (told, instance),
            LookedAtDoor::Untrusted(why) => return Err(why),
            LookedAtDoor::Closed => return Ok(None),
        };
        let ready = told.get("ready").and_then(|ready| ready.parse().ok());
        Ok(ready.map(|ready| Self {
            told,
            ready,
            instance,
        }))
    }

    /// Whether that toolgate is the one that `holder` says has the directory.
    pub(in crate::cli) fn owner(&self, holder: &DataHolder, naming: DoorNaming) -> DoorOwner {
        owner(self.instance.as_deref(), holder, naming)
    }
}

fn owner(instance: Option<&str>, holder: &DataHolder, naming: DoorNaming) -> DoorOwner {
    let is_own = match holder {
        DataHolder::Process(note) => note.instance.as_deref() == instance,
        DataHolder::Free => naming == DoorNaming::Address,
        DataHolder::Hidden => true,
    };
    if is_own {
        DoorOwner::Own
    } else {
        DoorOwner::Other
    }
}

/// Looks at the door at `address` before anything is asked there about the directory `data`; it has
/// `bound` to answer.
///
/// # Errors
/// [`configured::PlaceUnknown`]: the toolgate of another data directory answers there. Else what is open there cannot
/// be trusted.
pub(super) async fn judge(
    data: &Path,
    address: DoorAddress,
    naming: DoorNaming,
    bound: Duration,
) -> anyhow::Result<()> {
    let Some(word) = DoorWord::of(address, bound).await? else {
        // Who asks hears that nothing answers.
        return Ok(());
    };
    // The lock is read last: who answers has had it since before.
    match word.owner(&DataHolder::of(data), naming) {
        DoorOwner::Own => Ok(()),
        DoorOwner::Other => Err(configured::door_of_another(data, address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::journal::LockNote;

    fn held(instance: Option<&str>) -> DataHolder {
        DataHolder::Process(LockNote {
            pid: Some(17),
            instance: instance.map(ToOwned::to_owned),
        })
    }

    /// Never the wrong data: two directories whose configurations have one address.
    #[test]
    fn a_toolgate_answers_for_its_own_directory() {
        use DoorNaming::{Address, Directory};
        use DoorOwner::{Other, Own};
        for (instance, holder, naming, expected) in [
            (Some("a"), held(Some("a")), Directory, Own),
            (Some("a"), held(Some("b")), Directory, Other),
            (Some("a"), held(Some("b")), Address, Other),
            (Some("a"), held(None), Directory, Other),
            (None, held(Some("b")), Directory, Other),
            (None, held(None), Directory, Own),
            (Some("a"), DataHolder::Free, Directory, Other),
            (Some("a"), DataHolder::Free, Address, Own),
            (Some("a"), DataHolder::Hidden, Directory, Own),
        ] {
            let found = owner(instance, &holder, naming);
            assert_eq!(found, expected, "{instance:?} {holder:?} {naming:?}");
        }
    }
}
