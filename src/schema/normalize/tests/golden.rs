//! Golden listings of the real servers, one per profile (001-19): a change of what models are shown is seen in review.

use super::*;
use std::fmt::Write as _;

fn shown(profile: Profile) -> String {
    let mut out = String::new();
    for Listing { name, tools } in corpus().into_iter().filter(|listing| listing.name != "hostile") {
        for tool in tools {
            writeln!(out, "{name} {}", tool["name"].as_str().unwrap()).unwrap();
            match normalize(&tool["inputSchema"], profile) {
                Ok(normal) => {
                    writeln!(out, "  {}", normal.schema).unwrap();
                    for loss in &normal.losses.named {
                        writeln!(out, "  - {loss}").unwrap();
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
    for profile in Profile::ALL.into_iter().filter(|profile| *profile != Profile::None) {
        insta::assert_snapshot!(format!("listing_{profile}"), shown(profile));
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
