//! Golden listings, one per profile, of the real servers and of the hostile one (001-19): a change
//! of what models are shown is seen in review.

use super::*;
use std::fmt::Write as _;

/// Bytes of a schema that reviewers read; of a longer one its hash.
const REVIEWED_SCHEMA_BYTES_MAX: usize = 4 << 10;

/// Losses of one schema that they read.
const MAX_LOSSES_REVIEWED: usize = 12;

fn shown(profile: Profile, listings: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    for Listing { name, tools } in corpus()
        .into_iter()
        .filter(|listing| listings(listing.name))
    {
        for tool in tools {
            writeln!(out, "{name} {}", tool["name"].as_str().unwrap()).unwrap();
            match normalize(&tool["inputSchema"], profile) {
                Ok(normal) => {
                    let text = normal.schema.to_string();
                    let hash = || {
                        format!(
                            "{} bytes, {}",
                            text.len(),
                            crate::schema::schema_hash(&normal.schema)
                        )
                    };
                    writeln!(
                        out,
                        "  {}",
                        if text.len() > REVIEWED_SCHEMA_BYTES_MAX {
                            hash()
                        } else {
                            text.clone()
                        }
                    )
                    .unwrap();
                    for loss in normal.losses.named.iter().take(MAX_LOSSES_REVIEWED) {
                        writeln!(out, "  - {loss}").unwrap();
                    }
                    let more = normal
                        .losses
                        .named
                        .len()
                        .saturating_sub(MAX_LOSSES_REVIEWED)
                        + normal.losses.more;
                    if more > 0 {
                        writeln!(out, "  - {more} more").unwrap();
                    }
                    for (name, shown) in normal.back.renamed() {
                        writeln!(out, "  {name} = {shown}").unwrap();
                    }
                }
                Err(unfit) => writeln!(out, "  hidden: {unfit}").unwrap(),
            }
        }
    }
    out
}

/// 001-19, 002-17, 002-20: each profile's listing of the real servers.
#[test]
fn each_profile_shows_the_real_servers() {
    for profile in Profile::ALL
        .into_iter()
        .filter(|profile| *profile != Profile::None)
    {
        insta::assert_snapshot!(
            format!("listing_{profile}"),
            shown(profile, |name| name != "hostile")
        );
    }
}

/// 001-20, 001-21: each profile's listing of what a server could declare to be dropped, to hang or
/// to be misread; what is hidden has its reason there.
#[test]
fn each_profile_shows_the_hostile_server() {
    for profile in Profile::ALL
        .into_iter()
        .filter(|profile| *profile != Profile::None)
    {
        insta::assert_snapshot!(
            format!("hostile_{profile}"),
            shown(profile, |name| name == "hostile")
        );
    }
}

/// 001-19: without a profile a schema is shown as it was written.
#[test]
fn none_changes_nothing() {
    for tool in corpus().into_iter().flat_map(|listing| listing.tools) {
        let normal = normalize(&tool["inputSchema"], Profile::None).unwrap();
        assert_eq!(normal.schema.to_string(), tool["inputSchema"].to_string());
        assert!(normal.back.is_empty() && normal.losses.named.is_empty());
    }
}
