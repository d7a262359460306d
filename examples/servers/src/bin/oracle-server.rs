//! `oracle-server [--legacy | --modern] [--stubborn]`: notes what it executes in the file that
//! `ORACLE_LOG` names, and misbehaves by the name of the tool.

use std::path::PathBuf;
use toolgate_examples::oracle::script::Eras;
use toolgate_examples::oracle::stdio;
use toolgate_examples::serve::Failure;

fn main() -> Result<(), Failure> {
    let log = std::env::var_os("ORACLE_LOG")
        .map(PathBuf::from)
        .ok_or("ORACLE_LOG must name a file")?;
    let (mut eras, mut stubborn) = (Eras::Both, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--legacy" => eras = Eras::Legacy,
            "--modern" => eras = Eras::Modern,
            "--stubborn" => stubborn = true,
            other => return Err(format!("unknown argument {other:?}").into()),
        }
    }
    stdio::serve(&log, eras, stubborn)
}
