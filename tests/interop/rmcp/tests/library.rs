//! The test that docs/guide/rust.md shows: an rmcp client against a cassette. The server of the demo stands for a
//! server of the user's.

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;
use tokio::process::Command;

#[tokio::test]
async fn the_agent_echoes() -> Result<(), Box<dyn std::error::Error>> {
    let mut cassette = mcpreel::use_cassette("tests/cassettes/echo.cassette.json");
    let line = cassette.server_command("demo", ["mcpreel", "demo", "server"])?;
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);

    let client = ().serve(TokioChildProcess::new(command)?).await?;
    let arguments = serde_json::json!({ "text": "hello" }).as_object().cloned();
    let call = CallToolRequestParams::new("echo").with_arguments(arguments.unwrap_or_default());
    let result = client.call_tool(call).await?;
    assert!(format!("{result:?}").contains("hello"));
    client.cancel().await?;

    cassette.finish()?;
    Ok(())
}
