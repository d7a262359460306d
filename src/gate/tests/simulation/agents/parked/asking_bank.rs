//! The bank as a legacy server, which asks in the middle of each call.

use crate::gate::tests::simulation::{SERVER, SimulatedWorld};
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::ids::ActionId;
use crate::upstream::lines::Lines;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// One connection to the bank, as the bank has it.
pub(in crate::gate::tests::simulation) struct AskingLine {
    says: mpsc::UnboundedSender<String>,
    /// The bank hangs up.
    pub(super) ends: CancellationToken,
    /// Who waits for the answer to a question, by the id of this.
    asked: RefCell<BTreeMap<u64, oneshot::Sender<Value>>>,
    /// Questions that were answered.
    answered: RefCell<BTreeSet<u64>>,
}

impl SimulatedWorld {
    /// The bank of one agent's connection, until it ends. What was heard happens all the same.
    pub(super) async fn serve_asking(self: Rc<Self>, deed: u64, stream: DuplexStream) {
        let (input, mut output) = tokio::io::split(stream);
        let (says, mut said) = mpsc::unbounded_channel();
        let line = Rc::new(AskingLine {
            says,
            ends: CancellationToken::new(),
            asked: RefCell::default(),
            answered: RefCell::default(),
        });
        self.lines.borrow_mut().insert(deed, line.clone());
        let mut lines = Lines::new(input);
        loop {
            tokio::select! {
                biased;
                () = line.ends.cancelled() => break,
                Some(text) = said.recv() => drop(output.write_all(text.as_bytes()).await),
                heard = lines.next() => match heard {
                    Ok(Some(text)) => {
                        let message = Text::read(text, &AGENT_JSON_LIMITS).unwrap().value();
                        self.hear_asked(&line, &message);
                    }
                    Ok(None) | Err(_) => break,
                },
            }
        }
        // Nobody answers any more what was asked on it.
        line.ends.cancel();
        line.asked.borrow_mut().clear();
    }

    fn hear_asked(self: &Rc<Self>, line: &Rc<AskingLine>, message: &Value) {
        let Some(id) = message["id"].as_u64() else {
            return self.count("notifications");
        };
        let Some(method) = message["method"].as_str() else {
            let is_new = line.answered.borrow_mut().insert(id);
            assert!(is_new, "question {id} was answered twice");
            let asker = line.asked.borrow_mut().remove(&id);
            return drop(asker.map(|asker| asker.send(message.clone())));
        };
        if method != "tools/call" {
            return say(line, &json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
        }
        let params = &message["params"];
        assert!(params.get("requestState").is_none(), "a round was sent");
        let deed = params["arguments"]["deed"].as_u64().unwrap();
        let fence = &params["_meta"]["dev.toolgate/fence"];
        let action: ActionId = fence["action"].as_str().unwrap().parse().unwrap();
        *self.book.borrow_mut().held.entry(action).or_default() += 1;
        let (world, line) = (self.clone(), line.clone());
        self.schedule.spawn(SERVER, async move {
            world.ask_in_the_middle(&line, id, (action, deed)).await;
            world.book.borrow_mut().held.remove(&action);
        });
    }

    /// The call happens before the question or after its answer; without one, the bank gives it up.
    async fn ask_in_the_middle(&self, line: &AskingLine, id: u64, (action, deed): (ActionId, u64)) {
        self.some(300).await;
        let happens_first = self.once_in(2);
        if happens_first {
            self.happens_once(action, deed);
        }
        if line.ends.is_cancelled() {
            return;
        }
        let (asks, answer) = oneshot::channel();
        line.asked.borrow_mut().insert(id, asks);
        let schema = json!({ "type": "object", "properties": {} });
        let question = json!({ "message": "sure?", "requestedSchema": schema });
        say(
            line,
            &json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": question }),
        );
        self.count("asked");
        let Ok(answer) = answer.await else { return };
        self.some(300).await;
        let is_accepted = answer["result"]["action"] == "accept";
        if is_accepted && !happens_first {
            self.happens_once(action, deed);
        }
        let result = if is_accepted || happens_first {
            let receipt = format!("receipt of {deed}");
            json!({ "content": [], "structuredContent": { "receipt": receipt } })
        } else {
            json!({ "content": [], "isError": true })
        };
        say(
            line,
            &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        );
    }

    /// I1, I3: once, and after its intent was durable.
    fn happens_once(&self, action: ActionId, deed: u64) {
        assert!(self.has_intent(action), "I3: {action} has no intent");
        let mut book = self.book.borrow_mut();
        assert_eq!(book.actions.get(&action), Some(&deed), "nobody's action");
        let before = book.done.insert(action, format!("receipt of {deed}"));
        assert!(before.is_none(), "I1: {action} happened twice");
    }
}

fn say(line: &AskingLine, message: &Value) {
    drop(line.says.send(format!("{message}\n")));
}
