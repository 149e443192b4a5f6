// What the lab servers of the TypeScript SDKs have in common: everything in wire form.
//
// A server gives each call a `peer` with what an answer may need on the way:
// progress, log, sample, elicit, touched and grown.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

export const LAB = JSON.parse(readFileSync(new URL('../lab.json', import.meta.url), 'utf8'));
const lists = { tools: [...LAB.tools], resources: LAB.resources, resourceTemplates: LAB.templates, prompts: LAB.prompts };

/// The N of --http N: serve over Streamable HTTP at that port of 127.0.0.1 (0 is any free one).
export const httpPort = () => process.argv[2] === '--http' ? Number(process.argv[3]) : undefined;

/// Streams can be gone on with: their events, ids in order.
export function eventStore() {
    const events = [];
    return {
        async storeEvent(stream, message) { return `${stream}::${events.push({ stream, message }) - 1}`; },
        async replayEventsAfter(last, { send }) {
            const [stream, at] = last.split('::');
            for (let n = Number(at) + 1; n < events.length; n++) {
                const { message } = events[n];
                if (events[n].stream === stream && Object.keys(message).length) await send(`${stream}::${n}`, message);
            }
            return stream;
        }
    };
}

export function serveHttp(handler) {
    const server = createServer(handler);
    server.listen(httpPort(), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}

export class Refused extends Error {
    constructor(code, message, data) {
        super(message);
        Object.assign(this, { code, data });
    }
}

export function page(key, cursor) {
    const start = Number(cursor ?? 0);
    const end = start + LAB.page;
    return { [key]: lists[key].slice(start, end), ...(end < lists[key].length ? { nextCursor: String(end) } : {}) };
}

const pause = (ms, signal) => new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => { clearTimeout(timer); reject(new Error('aborted')); });
});
const text = (value, more = {}) => ({ content: [{ type: 'text', text: value }], ...more });

export async function call(peer, name, args = {}) {
    switch (name) {
        case 'echo': return text(args.text);
        case 'add': return text(String(args.a + args.b), { structuredContent: { sum: args.a + args.b } });
        case 'slow': await pause(args.ms, peer.signal); return text(args.tag);
        case 'steps':
            for (let n = 1; n <= args.count; n++) {
                await peer.progress(n, args.count, `step ${n}`);
                await pause(20);
            }
            return text('done');
        case 'log':
            for (const [level, data] of LAB.logs) await peer.log(level, data);
            return text('logged');
        case 'sample': {
            const message = { role: 'user', content: { type: 'text', text: args.prompt } };
            const got = await peer.sample({ messages: [message], maxTokens: 50 });
            return text('sampled ' + got.content.text);
        }
        case 'elicit': {
            const got = await peer.elicit({ mode: 'form', message: args.message, requestedSchema: LAB.ask });
            return text(`${got.action} ${JSON.stringify(got.content ?? null)}`);
        }
        case 'fail':
            if (args.how === 'rpc') throw new Refused(-32050, 'refused on purpose', { why: ['lab', 1] });
            return text('failed on purpose', { isError: true });
        case 'account': {
            const structuredContent = args.broken ? { ...LAB.account, owner: 'nobody' } : LAB.account;
            return text(JSON.stringify(structuredContent), { structuredContent });
        }
        case 'big': return text('0123456789abcde\n'.repeat(args.bytes / 16 + 1).slice(0, args.bytes));
        case 'odd': return text(LAB.odd);
        case 'lone': return text('half \ud83d here, \udc1f there');
        case 'binary': return { content: [
            { type: 'image', mimeType: 'image/png', data: LAB.pixel },
            { type: 'audio', mimeType: 'audio/wav', data: LAB.blob },
            { type: 'resource', resource: { uri: 'lab://blob', mimeType: 'application/octet-stream', blob: LAB.blob } },
            { type: 'resource_link', uri: 'lab://text', name: 'text' }] };
        case 'touch': await peer.touched(args.uri); return text('touched');
        case 'grow':
            if (!lists.tools.includes(LAB.grown)) lists.tools.push(LAB.grown);
            await peer.grown();
            return text('grown');
        default: throw new Refused(-32602, 'no tool ' + name);
    }
}

export function read(uri) {
    if (uri === 'lab://text') return { contents: [{ uri, mimeType: 'text/plain', text: LAB.odd }] };
    if (uri === 'lab://blob') return { contents: [{ uri, mimeType: 'application/octet-stream', blob: LAB.blob }] };
    if (/^lab:\/\/(item|more)\//.test(uri)) return { contents: [{ uri, mimeType: 'text/plain', text: 'this is ' + uri }] };
    throw new Refused(-32602, 'no resource ' + uri, { uri });
}

export function prompt(name, args) {
    const message = content => ({ messages: [{ role: 'user', content }] });
    if (name === 'greet') return { description: 'Greets.', ...message({ type: 'text', text: `Hello, ${args.who}!` }) };
    if (name === 'look') return message({ type: 'image', mimeType: 'image/png', data: LAB.pixel });
    throw new Refused(-32602, 'no prompt ' + name);
}

export function complete({ value }) {
    const values = LAB.names.filter(name => name.startsWith(value));
    return { completion: { values, total: values.length, hasMore: false } };
}

export const capabilities = {
    tools: { listChanged: true }, resources: { subscribe: true }, prompts: {}, logging: {}, completions: {}
};
