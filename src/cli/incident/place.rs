//! Where an incident is: in a data directory of this machine, or behind an operators' door that may be another's.

use super::{Args, place_of};
use crate::cli::operator::AskedDoor;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::whose::DoorNaming;
use crate::config::DataPlace;
use crate::store::incidents;
use serde::de::DeserializeOwned;

/// One of the two.
pub(super) enum IncidentPlace<'a> {
    /// A directory, whether a toolgate has it or not.
    Here(Box<DataPlace>),
    /// A running toolgate, whose directory need not be of this machine.
    Door(Box<AskedDoor<'a>>),
}

impl<'a> IncidentPlace<'a> {
    /// The one that is meant: the door, where an operator names one and no directory, or where the directory is
    /// another user's.
    pub(super) fn of(args: &'a Args) -> anyhow::Result<Self> {
        if let Some(door) = door_alone(args)? {
            return Ok(Self::Door(Box::new(door)));
        }
        let place = place_of(args)?;
        if incidents::read(&place.data).is_ok() {
            return Ok(Self::Here(Box::new(place)));
        }
        let door = args.door.of_record(&args.place)?;
        Ok(Self::Door(Box::new(door)))
    }
}

/// The door that is named, where nothing else says which toolgate is meant.
pub(super) fn door_alone(args: &Args) -> anyhow::Result<Option<AskedDoor<'_>>> {
    let is_alone = args.door.naming(&args.place) == DoorNaming::Address;
    is_alone
        .then(|| args.door.of_record(&args.place))
        .transpose()
}

/// What the door answers, or in words why it refuses.
pub(super) fn ask<T: DeserializeOwned>(
    door: &AskedDoor<'_>,
    request: DoorRequest,
) -> anyhow::Result<Result<T, String>> {
    match door.ask(request, &nobody(door))? {
        Ok(text) => Ok(Ok(text.parse()?)),
        Err(why) => Ok(Err(why)),
    }
}

fn nobody(door: &AskedDoor<'_>) -> String {
    format!("no operators' door answers at {}", door.address)
}
