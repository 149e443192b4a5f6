// A client on bare pipes.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export class Talk {
    constructor({ command, args }) {
        this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
        this.child.stdin.on('error', () => {});
        this.left = new Promise(done => this.child.on('close', done).on('error', done));
        this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
        this.asked = 0;
    }

    async ask(method, params) {
        this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id: ++this.asked, method, params }) + '\n');
        const { value } = await this.lines.next();
        return value && JSON.parse(value);
    }

    async say(text) {
        if (!this.asked) {
            await this.ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'talk', version: '1' } });
        }
        const got = await this.ask('tools/call', { name: 'echo', arguments: { text } });
        return got?.result?.content[0].text;
    }

    async close() {
        this.child.stdin.end();
        await this.left;
    }
}

/** One process that is told all of it. */
export async function say(command, ...texts) {
    const talk = new Talk(command);
    const got = [];
    for (const text of texts) got.push(await talk.say(text));
    await talk.close();
    return got;
}
