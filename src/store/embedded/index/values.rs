//! How things are written in the index.

use super::super::packed::{pack, unpack};
use crate::store::claims::StoreError;
use crate::store::state::claim::Claim;
use crate::store::state::event::{decode, encode, fill};
use crate::store::state::grant::Grant;
use crate::store::state::hold::Hold;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(super) fn claim_text(claim: &Claim) -> Result<Vec<u8>, StoreError> {
    let body = claim
        .phase
        .stored()
        .map(|stored| stored.body.clone())
        .unwrap_or_default();
    encode(claim, &body)
        .map(|record| pack(&record))
        .map_err(|error| unreadable(&error))
}

pub(super) fn read_claim(value: &sled::IVec) -> Result<Claim, StoreError> {
    let record = Bytes::from(unpack(value));
    let (mut claim, body): (Claim, _) = decode(&record).map_err(|error| unreadable(&error))?;
    fill(&mut claim.phase, body);
    Ok(claim)
}

pub(super) fn hold_text(hold: &Hold) -> Result<Vec<u8>, StoreError> {
    let body = hold.question.body();
    body.and_then(|body| encode(hold, &body))
        .map_err(|error| unreadable(&error))
}

pub(super) fn read_hold(value: &sled::IVec) -> Result<Hold, StoreError> {
    let read = || {
        let (mut hold, body): (Hold, _) = decode(&Bytes::copy_from_slice(value))?;
        hold.question.fill(body).map(|()| hold)
    };
    read().map_err(|error: serde_json::Error| unreadable(&error))
}

pub(super) fn grant_text(grant: &Grant) -> Result<Vec<u8>, StoreError> {
    let body = grant.body();
    body.and_then(|body| encode(grant, &body))
        .map_err(|error| unreadable(&error))
}

pub(super) fn read_grant(value: &sled::IVec) -> Result<Grant, StoreError> {
    let read = || {
        let (mut grant, body): (Grant, _) = decode(&Bytes::copy_from_slice(value))?;
        grant.fill(body).map(|()| grant)
    };
    read().map_err(|error: serde_json::Error| unreadable(&error))
}

pub(super) fn read<T: for<'a> Deserialize<'a>>(value: &sled::IVec) -> Result<T, StoreError> {
    decode(&Bytes::copy_from_slice(value))
        .map(|(head, _)| head)
        .map_err(|error| unreadable(&error))
}

pub(super) fn text(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| unreadable(&error))
}

pub(super) fn unreadable(error: &serde_json::Error) -> StoreError {
    StoreError::Broken(format!("the index cannot be read: {error}"))
}
