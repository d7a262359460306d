//! `billing-server [--http ADDR]`: invoices as MCP tools. The state file is named by
//! `BILLING_STATE`.

use toolgate_examples::billing::Billing;
use toolgate_examples::serve::{Door, Failure, serve};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let door = Door::from_arguments(std::env::args().skip(1))?;
    let state = std::env::var_os("BILLING_STATE").unwrap_or_else(|| "billing-state.json".into());
    serve(Billing::new(state), door).await
}
