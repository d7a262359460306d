//! Agents that speak only HTTP+SSE of 2024-11-05 (protocol §4.6).

use super::Bridge;

/// Such an agent begins with `GET`. It reads what it can do instead, under a status that newer agents
/// take for "no stream" and go on; with a session the stream is there.
#[tokio::test]
async fn an_agent_of_the_old_transport_reads_what_to_do() {
    let bridge = Bridge::legacy().await;
    for place in ["/mcp", "/mcp/s"] {
        let mut refused = bridge.gate.agent().at(place).get(None).await;
        assert_eq!(refused.head.status, 405, "{:?}", refused.head);
        assert_eq!(refused.head.header("allow"), Some("POST"));
        let said = refused.whole().await;
        for words in [
            "Streamable HTTP",
            "2024-11-05 is not served",
            "`initialize`",
        ] {
            assert!(said.to_string().contains(words), "{said}");
        }
    }
    let mut lost = bridge.gate.agent().at("/sse").get(None).await;
    assert_eq!(lost.head.status, 404);
    let said = lost.whole().await;
    assert!(said.to_string().contains("Streamable HTTP"), "{said}");
    let agent = bridge.legacy_agent().await;
    assert!(agent.get(None).await.is_stream());
}
