//! What is said of a request that broke: whether a byte of it may have left.

use super::*;
use crate::outlet::way_back;
use crate::upstream::server::tests::{over_http, server_over};
use crate::upstream::server_settings::Surroundings;
use crate::upstream::servers::Servers;
use crate::upstream::stdio::Conversation;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

mod followed;

/// A legacy agent, and a server of 2026-07-28 in the test's hands.
struct BrokenStage {
    servers: Arc<Servers>,
    links: Arc<Links>,
    server: DuplexStream,
    link: Arc<Link>,
}

impl BrokenStage {
    fn new() -> Self {
        let servers = servers();
        let (ours, server) = duplex(1 << 16);
        let (input, output) = tokio::io::split(ours);
        let name = &servers.all()[0].settings.name;
        let (conversation, _) = Conversation::start(name, input, output, std::future::pending());
        let link = Arc::new(Link::over(Arc::new(conversation)));
        servers.all()[0].stands(Some(link.clone()), None);
        let (caller, initialize) = (Arc::new(Caller::named("agent")), Text::of(&json!({})));
        let unsolicited = mpsc::channel(1).0;
        let links = Links::session(servers.clone(), caller, initialize, unsolicited);
        Self {
            links: Arc::new(links),
            servers,
            server,
            link,
        }
    }

    /// What breaks where this is asked of a task.
    async fn fault(&self, method: &str) -> Fault {
        let task = Text::of(&json!({ "taskId": "t-1" }));
        let message = &Message::request(1, method, Some(task));
        let waiting = &self.links.wait(&Text::string("1")).unwrap();
        let (outlet, _agent) = way_back();
        let context = ExchangeContext {
            caller: &Caller::named("agent"),
            outlet: &outlet,
            links: &self.links,
            waiting,
            stop_when_gone: true,
            outlives: None,
            shaping: None,
            tolerance: Tolerance::None,
            task_token: None,
        };
        let asked = context.exchange(Outbound {
            server: &self.servers.all()[0].settings.name,
            message,
            params: &[],
            timeout: Some(Duration::from_secs(3)),
            changes: false,
            terms: BridgeTerms::default(),
        });
        asked.await.unwrap_err()
    }
}

/// One server that nobody has connected to.
fn servers() -> Arc<Servers> {
    let around = Surroundings {
        connections: crate::upstream::http::connections().unwrap(),
        guard: "toolgate".into(),
        leftovers: Arc::default(),
    };
    let settings = vec![server_over(over_http()).settings];
    Arc::new(Servers::new(settings, &around))
}

/// guarantees §4: what was asked of a task of the other era and has no answer may have been heard; of
/// what could not leave nothing was.
#[tokio::test(start_paused = true)]
async fn what_was_asked_of_a_task_may_have_been_heard() {
    for method in ["tasks/get", "tasks/cancel"] {
        let silent = BrokenStage::new();
        assert_eq!(silent.fault(method).await.sent, Sent::Maybe, "{method}");

        let mut dying = BrokenStage::new();
        let mut server = std::mem::replace(&mut dying.server, duplex(1).0);
        let dies = async move {
            assert!(server.read_u8().await.is_ok());
            drop(server);
        };
        let (fault, ()) = tokio::join!(dying.fault(method), dies);
        assert_eq!(fault.sent, Sent::Maybe, "{method}: {fault}");

        let mut dead = BrokenStage::new();
        drop(std::mem::replace(&mut dead.server, duplex(1).0));
        dead.link.ended().await;
        let fault = dead.fault(method).await;
        assert_eq!(fault.sent, Sent::Nothing, "{method}: {fault}");
    }
}
