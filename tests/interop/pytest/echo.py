"""A server of a few lines, which notes each start."""
import json
import os
import sys

with open(os.environ.get("STARTS") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "starts"), "a") as starts:
    starts.write("echo\n")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
    else:
        result = {"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
