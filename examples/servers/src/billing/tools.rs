//! The five tools of the billing server.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{JsonObject, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{Json, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::{Invoice, Ledger, LedgerFile, Status};

/// What toolgate adds to the `_meta` of a call starts with this.
const TOOLGATE_META: &str = "dev.toolgate/";

/// The billing server over one state file.
#[derive(Debug, Clone)]
pub struct Billing {
    file: LedgerFile,
}

/// Arguments of `create_invoice`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateInvoice {
    /// The tenant that bills.
    tenant_id: String,
    /// The customer that pays.
    customer_id: String,
    /// Amount in hundredths of the currency, above zero.
    amount_cents: i64,
    /// Three-letter currency code.
    currency: String,
    /// Free text for the customer.
    #[serde(default)]
    note: Option<String>,
}

/// Arguments of the tools that name one invoice.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneInvoice {
    /// Name of the invoice.
    id: String,
}

/// Arguments of `list_invoices`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInvoices {
    /// The tenant whose invoices are wanted.
    tenant_id: String,
}

/// Result of `list_invoices`.
#[derive(Debug, Serialize, JsonSchema)]
struct Invoices {
    /// The invoices of the tenant, oldest first.
    invoices: Vec<Invoice>,
}

/// Result of `delete_draft_invoice`.
#[derive(Debug, Serialize, JsonSchema)]
struct Deleted {
    /// Name of the invoice that is gone.
    id: String,
    /// Always true.
    deleted: bool,
}

#[tool_router]
impl Billing {
    /// The server over the state file of that name, which need not exist yet.
    pub fn new(state: impl Into<std::path::PathBuf>) -> Self {
        Self {
            file: LedgerFile::new(state),
        }
    }

    #[tool(
        description = "Create a draft invoice. It is not sent to the customer until send_invoice is called.",
        annotations(
            title = "Create invoice",
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn create_invoice(
        &self,
        Parameters(wanted): Parameters<CreateInvoice>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Invoice>, String> {
        if wanted.amount_cents <= 0 {
            return Err("amount_cents must be above zero.".to_owned());
        }
        let meta = toolgate_meta(&context.meta);
        self.write(move |ledger| {
            let CreateInvoice {
                tenant_id,
                customer_id,
                amount_cents,
                currency,
                note,
            } = wanted;
            let id = ledger.next_id();
            let invoice = Invoice {
                id,
                tenant_id,
                customer_id,
                amount_cents,
                currency,
                note,
                status: Status::Draft,
            };
            ledger.invoices.push(invoice.clone());
            ledger.record("create_invoice", invoice.clone(), meta);
            Ok(invoice)
        })
        .await
    }

    #[tool(
        description = "Delete an invoice that was not sent yet. An invoice that was sent stays.",
        annotations(
            title = "Delete draft invoice",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn delete_draft_invoice(
        &self,
        Parameters(OneInvoice { id }): Parameters<OneInvoice>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Deleted>, String> {
        let meta = toolgate_meta(&context.meta);
        self.write(move |ledger| {
            let invoice = ledger.find(&id)?.clone();
            if invoice.status == Status::Sent {
                return Err(format!("Invoice {id:?} was sent and cannot be deleted."));
            }
            ledger.invoices.retain(|kept| kept.id != id);
            ledger.record("delete_draft_invoice", invoice, meta);
            Ok(Deleted { id, deleted: true })
        })
        .await
    }

    #[tool(
        description = "Show one invoice.",
        annotations(title = "Get invoice", read_only_hint = true, open_world_hint = false)
    )]
    async fn get_invoice(
        &self,
        Parameters(OneInvoice { id }): Parameters<OneInvoice>,
    ) -> Result<Json<Invoice>, String> {
        self.read(move |ledger| ledger.find(&id).cloned()).await
    }

    #[tool(
        description = "List the invoices of a tenant, drafts included.",
        annotations(
            title = "List invoices",
            read_only_hint = true,
            open_world_hint = false
        )
    )]
    async fn list_invoices(
        &self,
        Parameters(ListInvoices { tenant_id }): Parameters<ListInvoices>,
    ) -> Result<Json<Invoices>, String> {
        self.read(move |ledger| {
            let of_tenant = ledger
                .invoices
                .iter()
                .filter(|invoice| invoice.tenant_id == tenant_id);
            Ok(Invoices {
                invoices: of_tenant.cloned().collect(),
            })
        })
        .await
    }

    #[tool(
        description = "Send an invoice to its customer. Each call sends it again; it cannot be taken back.",
        annotations(
            title = "Send invoice",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = true
        )
    )]
    async fn send_invoice(
        &self,
        Parameters(OneInvoice { id }): Parameters<OneInvoice>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Invoice>, String> {
        let meta = toolgate_meta(&context.meta);
        self.write(move |ledger| {
            ledger.find(&id)?;
            for invoice in ledger
                .invoices
                .iter_mut()
                .filter(|invoice| invoice.id == id)
            {
                invoice.status = Status::Sent;
            }
            let invoice = ledger.find(&id)?.clone();
            ledger.record("send_invoice", invoice.clone(), meta);
            Ok(invoice)
        })
        .await
    }
}

impl Billing {
    async fn read<T, F>(&self, look: F) -> Result<Json<T>, String>
    where
        T: Send + 'static,
        F: FnOnce(&Ledger) -> Result<T, String> + Send + 'static,
    {
        let file = self.file.clone();
        off_the_runtime(move || file.read(look)).await
    }

    async fn write<T, F>(&self, change: F) -> Result<Json<T>, String>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger) -> Result<T, String> + Send + 'static,
    {
        let file = self.file.clone();
        off_the_runtime(move || file.write(change)).await
    }
}

/// Waiting for a lock and for a disk must not hold up other calls.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<Json<T>, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| format!("The call did not finish: {error}."))?
        .map(Json)
}

fn toolgate_meta(meta: &RequestMetaObject) -> JsonObject {
    let own = meta
        .iter()
        .filter(|(key, _)| key.starts_with(TOOLGATE_META));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[tool_handler(name = "billing-server")]
impl ServerHandler for Billing {}
