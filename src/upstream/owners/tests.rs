//! How many tasks are remembered, and of whom. What agents read of them is tested through toolgate.

use super::*;
use crate::model::ids::UserId;
use serde_json::json;

/// A contract that changes nothing of what a tool says.
struct AsSaid(AgentId);

impl Shaping for AsSaid {
    fn agent(&self) -> &AgentId {
        &self.0
    }

    fn result(&self, answer: Message) -> Message {
        answer
    }

    fn standing(&self, said: Message) -> Message {
        said
    }

    fn remark(&self, said: Message) -> Option<Message> {
        Some(said)
    }

    fn too_costly(&self, said: Message) -> Message {
        said
    }

    fn is_held(&self) -> bool {
        false
    }

    fn owned(&self) -> Arc<dyn Shaping> {
        Arc::new(Self(self.0.clone()))
    }
}

/// The caller's call at a server has become the task of this number.
fn notes(all: &TaskOwners, agent: &str, server: &str, number: usize) {
    let caller = Caller::named(agent);
    let task = json!({ "resultType": "task", "taskId": number });
    let owned = || OwnedTask {
        server: ServerName::new(server),
        tool: ToolName::new("pay"),
        token: None,
        shaping: Arc::new(AsSaid(caller.agent.clone())),
    };
    assert!(all.note(&caller, &Text::of(&task), owned).is_some());
}

fn knows(all: &TaskOwners, agent: &str, number: usize) -> bool {
    let id = Text::of(&json!(number));
    all.owned(&Caller::named(agent), &id, |_| true).is_some()
}

/// What a server says of a task in a session of several people is for the one whose task it is at that
/// server; what names no task is for nobody of them.
#[test]
fn what_is_said_of_a_task_is_for_its_user() {
    let all = TaskOwners::default();
    let agent = Caller {
        names_users: true,
        ..Caller::named("bot")
    };
    for (user, server) in [("ada", "bank"), ("bob", "shop")] {
        let caller = agent.for_user(UserId::new(user));
        let task = json!({ "resultType": "task", "taskId": "1" });
        let owned = || OwnedTask {
            server: ServerName::new(server),
            tool: ToolName::new("pay"),
            token: Some(Text::of(&json!("t"))),
            shaping: Arc::new(AsSaid(caller.agent.clone())),
        };
        assert!(all.note(&caller, &Text::of(&task), owned).is_some());
    }
    let agent = Arc::new(agent);
    let heard = |server: &str, params: serde_json::Value| {
        let said = Message::notification("notifications/tasks/status", Some(Text::of(&params)));
        let caller = all.spoken_for(&agent, &ServerName::new(server), &said);
        caller.user.clone().map(|user| user.to_string())
    };
    for params in [json!({ "taskId": "1" }), json!({ "progressToken": "t" })] {
        assert_eq!(heard("bank", params.clone()).as_deref(), Some("ada"));
        assert_eq!(heard("shop", params.clone()).as_deref(), Some("bob"));
        assert_eq!(heard("depot", params), None);
    }
    assert_eq!(heard("bank", json!({})), None);
    assert_eq!(heard("bank", json!({ "taskId": "2" })), None);
}

/// threat-model §3C C4: 10,000 tasks are remembered, and the oldest is forgotten first. Where two servers
/// give one id, it is one task of that order; a task that is forgotten is nobody's.
#[test]
fn so_many_tasks_are_remembered() {
    let all = TaskOwners::default();
    notes(&all, "alice", "bank", 0);
    notes(&all, "bob", "bank", 1);
    notes(&all, "alice", "shop", 0);
    let id = Text::of(&json!(0));
    let at = |name: &str| {
        let server = ServerName::new(name);
        let alice = Caller::named("alice");
        all.owned(&alice, &id, |owned| owned.server == server)
            .is_some()
    };
    assert!(at("bank") && at("shop") && !knows(&all, "alice", 0));
    for number in 2..MAX_TASKS_REMEMBERED {
        notes(&all, "carol", "bank", number);
    }
    assert!(at("bank") && at("shop") && knows(&all, "bob", 1));
    notes(&all, "carol", "bank", MAX_TASKS_REMEMBERED);
    assert!(!at("bank") && !at("shop"));
    assert!(knows(&all, "bob", 1) && knows(&all, "carol", MAX_TASKS_REMEMBERED));
    let kept = all.kept.lock();
    assert_eq!(kept.order.len(), MAX_TASKS_REMEMBERED);
    assert_eq!(kept.owners.len(), MAX_TASKS_REMEMBERED);
}

/// The same by what they take: a server that gives long ids makes that fewer are remembered, and the
/// count goes back with what is forgotten.
#[test]
fn long_ids_are_remembered_as_far_as_there_is_room() {
    const ID_BYTES: usize = 1 << 20;
    const FITTING: usize = MAX_TASK_BYTES_REMEMBERED / (2 * (ID_BYTES + 10));
    let (all, caller) = (TaskOwners::default(), Caller::named("alice"));
    let long = |nth: usize| json!(format!("{nth:08}{}", "x".repeat(ID_BYTES - 8)));
    let note = |id: &serde_json::Value, token: Option<Text>| {
        let task = Text::of(&json!({ "resultType": "task", "taskId": id }));
        let shaping = Arc::new(AsSaid(caller.agent.clone()));
        let owned = || OwnedTask {
            server: ServerName::new("bank"),
            tool: ToolName::new("pay"),
            token,
            shaping,
        };
        all.note(&caller, &task, owned);
    };
    let knows = |id: &serde_json::Value| all.owned(&caller, &Text::of(id), |_| true).is_some();
    for nth in 0..3 * FITTING {
        note(&long(nth), None);
        assert!(all.kept.lock().bytes <= MAX_TASK_BYTES_REMEMBERED);
    }
    assert!(!knows(&long(0)) && knows(&long(3 * FITTING - 1)));
    assert_eq!(all.kept.lock().order.len(), FITTING);
    // What is noted again counts once, with the token it has last.
    let token = Text::of(&json!("t".repeat(100)));
    for given in [None, Some(token.clone()), Some(token)] {
        note(&json!("short"), given);
    }
    for nth in 0..=FITTING {
        note(&long(nth), None);
    }
    assert!(!knows(&json!("short")));
    let kept = all.kept.lock();
    let bytes: usize = kept.order.iter().map(|(_, id)| 2 * id.len()).sum();
    assert_eq!(kept.bytes, bytes);
}
