//! How tasks end by themselves, and how many there may be, on paused time.

use super::questions::MAX_QUESTION_BYTES_PER_TASK;
use super::*;
use crate::model::reply::Sent;
use crate::upstream::caller_links::ReachedLink;
use crate::upstream::link::{Link, Tolerance};
use crate::upstream::stdio::Conversation;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};

const ALICE: &str = "alice";

struct TasksStage {
    all: Arc<ParkedTasks>,
    link: Arc<Link>,
    server: ServerName,
    theirs: DuplexStream,
}

impl TasksStage {
    fn new() -> Self {
        let (ours, theirs) = duplex(1 << 20);
        let (input, output) = tokio::io::split(ours);
        let server = ServerName::new("bank");
        let (conversation, _) = Conversation::start(&server, input, output, std::future::pending());
        let all = Arc::<ParkedTasks>::default();
        all.seal_with(Arc::new(RoundSeal::new(&[7; 32]).unwrap()));
        Self {
            all,
            link: Arc::new(Link::over(Arc::new(conversation))),
            server,
            theirs,
        }
    }

    /// A task whose server asks one question; none if there is no room.
    async fn begins(&self, agent: &str) -> Option<Message> {
        self.begins_with(agent, 0).await
    }

    /// The same with a question of so many bytes more.
    async fn begins_with(&self, agent: &str, bytes: usize) -> Option<Message> {
        let caller = Caller::named(agent);
        let call = Message::request(0, "tools/call", None);
        let mut exchange = self.link.request(call, Vec::new()).await.unwrap();
        exchange.begin().await.unwrap();
        let new = NewTask {
            caller: &caller,
            server: &self.server,
            changes: true,
            questions: vec![question_of(bytes)],
        };
        let (room, handle) = self.all.begin(new).ok()?;
        let run = TaskRun {
            questioner: TaskQuestioner {
                caller: caller.clone(),
                server: self.server.clone(),
                keeper: Arc::new(()),
                tolerance: Tolerance::Answer,
            },
            reached: ReachedLink::shared(self.link.clone()),
            exchange,
            asides: None,
            changes: true,
            ping_after: MAX_TASK_TIME,
        };
        run.start(room);
        Some(handle)
    }

    /// The server answers its first so many calls.
    async fn answers(&mut self, calls: usize) {
        let mut lines = BufReader::new(&mut self.theirs).lines();
        let mut ids = Vec::new();
        for _ in 0..calls {
            let line = lines.next_line().await.unwrap().unwrap();
            ids.push(serde_json::from_str::<Value>(&line).unwrap()["id"].clone());
        }
        for id in ids {
            let result = json!({ "content": [{ "type": "text", "text": "paid" }] });
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            let line = format!("{answer}\n");
            self.theirs.write_all(line.as_bytes()).await.unwrap();
        }
    }

    fn id(&self, agent: &str, handle: &Message) -> Option<ParkedTaskId> {
        let id = handle.body.as_ref().unwrap().get("taskId").unwrap();
        self.all.id_of(&Caller::named(agent), &self.server, &id)
    }

    fn standing(&self, handle: &Message) -> Value {
        let id = self.id(ALICE, handle).unwrap();
        self.all.standing(&id).body.unwrap().value()
    }

    /// The same as an agent reads it that may not call the tool any more.
    fn withheld(&self, handle: &Message) -> Value {
        let id = self.id(ALICE, handle).unwrap();
        self.all.withheld(&id).body.unwrap().value()
    }
}

fn question_of(bytes: usize) -> Message {
    let params = (bytes > 0).then(|| Text::string(&"x".repeat(bytes)));
    Message::request(1, "elicitation/create", params)
}

/// protocol §4.3: questions that wait take 4 MiB of one task, 16 MiB of one agent, 64 MiB in all; what
/// is beyond it is parked, or refused, and what has ended makes room.
#[tokio::test(start_paused = true)]
async fn questions_take_so_many_bytes() {
    let stage = TasksStage::new();
    let most = MAX_QUESTION_BYTES_PER_TASK - 1_000;
    assert!(stage.begins_with(ALICE, most + 1_000).await.is_none());
    let handle = stage.begins_with(ALICE, most).await.unwrap();
    let id = stage.id(ALICE, &handle).unwrap();
    let refused = stage.all.keep(&id.text, &question_of(2_000)).unwrap_err();
    assert!(refused.words.contains("4 MiB"));
    assert!(stage.all.keep(&id.text, &question_of(500)).is_ok());
    for _ in 1..4 {
        assert!(stage.begins_with(ALICE, most).await.is_some());
    }
    let small = stage.begins(ALICE).await.unwrap();
    let small = stage.id(ALICE, &small).unwrap();
    assert!(stage.begins_with(ALICE, most).await.is_none());
    let refused = stage.all.keep(&small.text, &question_of(most));
    assert!(refused.is_err(), "the agent has 16 MiB");
    for agent in ["bob", "carol", "dave"] {
        for _ in 0..4 {
            assert!(stage.begins_with(agent, most).await.is_some(), "{agent}");
        }
    }
    assert!(stage.begins_with("erin", most).await.is_none());
    stage.all.cancel(&id).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(stage.begins_with("erin", most).await.is_some());
}

/// protocol §4.3: while its agent asks after it a task waits, at most an hour; after five minutes
/// without it is given up, and the call is told so once.
#[tokio::test(start_paused = true)]
async fn a_task_that_its_agent_forgets_is_given_up() {
    let stage = TasksStage::new();
    let (asked, left) = (
        stage.begins(ALICE).await.unwrap(),
        stage.begins(ALICE).await.unwrap(),
    );
    let ending = stage.all.ending_of(&left).unwrap();
    assert!(stage.all.ending_of(&left).is_none(), "it is told once");
    for minute in 0..59 {
        assert_eq!(
            stage.standing(&asked)["status"],
            "input_required",
            "{minute}"
        );
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
    let fault = ending.ended.await.unwrap().unwrap_err();
    assert_eq!(fault.sent, Sent::Maybe);
    ending.settling.keeps();
    assert_eq!(stage.standing(&left)["status"], "failed");
    tokio::time::sleep(Duration::from_mins(2)).await;
    let told = stage.standing(&asked);
    assert_eq!(told["status"], "failed", "{told}");
    assert!(
        told["error"]["message"]
            .as_str()
            .unwrap()
            .contains("outcome_unknown")
    );
}

/// guarantees §2, step 15: that a call has ended is told once it is written down, by whom the end was
/// taken; of an end that nobody settles at once. What cannot be written down is not told as done.
#[tokio::test(start_paused = true)]
async fn an_end_is_told_once_it_is_durable() {
    let mut stage = TasksStage::new();
    let begins = async |stage: &TasksStage| stage.begins(ALICE).await.unwrap();
    let handles = [
        begins(&stage).await,
        begins(&stage).await,
        begins(&stage).await,
    ];
    let [kept, lost, unsettled] = &handles;
    let (keeping, losing) = (
        stage.all.ending_of(kept).unwrap(),
        stage.all.ending_of(lost).unwrap(),
    );
    stage.answers(handles.len()).await;
    assert!(keeping.ended.await.unwrap().is_ok());
    assert!(losing.ended.await.unwrap().is_ok());
    let status = |handle| stage.standing(handle)["status"].clone();
    while status(unsettled) != "completed" {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    for handle in [kept, lost] {
        for told in [stage.standing(handle), stage.withheld(handle)] {
            assert_eq!(told["status"], "working", "{told}");
            assert!(told.get("result").is_none(), "{told}");
        }
    }
    // One whose end is being written down is not forgotten for others.
    for _ in handles.len()..MAX_TASKS_PER_AGENT {
        begins(&stage).await;
    }
    begins(&stage).await;
    assert_eq!(stage.standing(unsettled)["status"], "failed", "forgotten");
    assert!(
        stage.begins(ALICE).await.is_none(),
        "nothing else has ended for good"
    );
    assert_eq!(stage.standing(kept)["status"], "working");
    keeping.settling.keeps();
    drop(losing.settling);
    let withheld = stage.withheld(lost);
    assert_eq!(withheld["status"], "failed", "{withheld}");
    assert!(
        withheld.to_string().contains("executed_but_not_recorded"),
        "{withheld}"
    );
    assert_eq!(stage.standing(kept)["result"]["content"][0]["text"], "paid");
    let told = stage.standing(lost);
    assert_eq!(told["status"], "failed", "{told}");
    assert!(told.to_string().contains("executed_but_not_recorded"));
}

/// protocol §4.3: 64 of one agent, 1,000 in all; what has ended makes room.
#[tokio::test(start_paused = true)]
async fn there_are_so_many_tasks() {
    let stage = TasksStage::new();
    let first = stage.begins(ALICE).await.unwrap();
    for _ in 1..MAX_TASKS_PER_AGENT {
        assert!(stage.begins(ALICE).await.is_some());
    }
    assert!(stage.begins(ALICE).await.is_none());
    stage.all.cancel(&stage.id(ALICE, &first).unwrap()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(stage.standing(&first)["status"], "cancelled");
    assert!(stage.begins(ALICE).await.is_some());
    let told = stage.standing(&first);
    assert_eq!(told["status"], "failed", "it is forgotten: {told}");
    for number in MAX_TASKS_PER_AGENT..MAX_TASKS {
        let agent = format!("agent {}", number % 50);
        assert!(stage.begins(&agent).await.is_some(), "{number}");
    }
    assert!(stage.begins("another").await.is_none());
    stage.all.close().await;
    assert!(stage.begins("another").await.is_some());
}

/// protocol §4.3: results of 64 MiB in all are kept; those that ended first are forgotten, and told so.
#[tokio::test(start_paused = true)]
async fn so_much_of_results_is_kept() {
    let stage = TasksStage::new();
    let mut handles = Vec::new();
    for _ in 0..4 {
        let new = NewTask {
            caller: &Caller::named(ALICE),
            server: &stage.server,
            changes: true,
            questions: Vec::new(),
        };
        let (room, handle) = stage.all.begin(new).ok().unwrap();
        let result = Text::string(&"x".repeat(MAX_RESULT_BYTES * 3 / 8));
        let answer = Message::response(None, result, false);
        *room.standing.lock() = TaskStanding::Ended(TaskEnd::Answered(answer));
        stage.all.end(&room.id);
        handles.push(handle);
    }
    let status = |handle| stage.standing(handle)["status"].clone();
    let all: Vec<_> = handles.iter().map(status).collect();
    assert_eq!(all, ["failed", "failed", "completed", "completed"]);
}

/// threat-model §3C C4: an id is its agent's, and says so without anything being known of the task.
#[tokio::test(start_paused = true)]
async fn an_id_is_its_agents() {
    let stage = TasksStage::new();
    let handle = stage.begins(ALICE).await.unwrap();
    assert!(stage.id("bob", &handle).is_none());
    let other = TasksStage::new();
    let id = other.id(ALICE, &handle).unwrap();
    let told = other.all.standing(&id).body.unwrap().value();
    assert_eq!(told["status"], "failed", "{told}");
    assert_eq!(told["createdAt"], stage.standing(&handle)["createdAt"]);
    let forged = Text::string("tg1.AAAA.toolgate-task:w:2026-11-23T00:00:00Z:0");
    let caller = Caller::named(ALICE);
    assert!(stage.all.id_of(&caller, &stage.server, &forged).is_none());
}
