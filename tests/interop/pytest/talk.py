"""A client on bare pipes."""
import json
import subprocess

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "talk", "version": "1"}}


class Talk:
    def __init__(self, command):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.asked = 0
        self.ask("initialize", HELLO)

    def ask(self, method, params):
        self.asked += 1
        line = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        self.child.stdin.write(json.dumps(line).encode() + b"\n")
        self.child.stdin.flush()
        got = self.child.stdout.readline()
        return json.loads(got) if got else None

    def say(self, text):
        got = self.ask("tools/call", {"name": "echo", "arguments": {"text": text}})
        return got["result"]["content"][0]["text"] if got and "result" in got else got

    def close(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def say(command, *texts):
    """One process that is told all of it."""
    with Talk(command) as talk:
        return [talk.say(text) for text in texts]
