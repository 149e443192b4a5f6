// Runs scripted sessions through a client and prints what its user sees, one JSON object a line.
//
// A driver gives `main` a function that connects: (command, mode, hooks) => { about, modern, close, list, call,
// read, prompt, complete, level, watch, unwatch }. Command line: DRIVER [--mode legacy|auto|pinned] SESSION... -- SERVER...
// SERVER... may be @FILE with the command in it as a JSON array, or the URL of a server.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const load = name => JSON.parse(readFileSync(new URL('../' + name, import.meta.url), 'utf8'));
const SESSIONS = load('sessions.json');
const LAB = load('lab.json');
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/// Keys sorted, long strings cut to their digest.
function plain(value) {
    if (Array.isArray(value)) return value.map(plain);
    if (value && typeof value === 'object') {
        return Object.fromEntries(Object.keys(value).sort().map(key => [key, plain(value[key])]));
    }
    if (typeof value === 'string' && value.length > 2000) {
        return `${value.length} characters, sha256 ${createHash('sha256').update(value).digest('hex')}`;
    }
    return value;
}

const say = line => process.stdout.write(JSON.stringify(plain(line)) + '\n');

async function outcome(make) {
    try {
        return { result: await make() };
    } catch (error) {
        const { code, message, data } = error;
        return { error: { type: error.constructor.name, code, message, data } };
    }
}

async function runStep(it, step) {
    const call = (c, more) => outcome(() => it.call(c.name, c.arguments, more));
    switch (step.op) {
        case 'list': {
            const pages = [];
            for (let cursor; ;) {
                const got = await outcome(() => it.list(step.what, cursor));
                pages.push(got);
                cursor = got.result?.nextCursor;
                if (!cursor) return { pages };
            }
        }
        case 'call': return call(step, { progress: step.progress, timeout: step.limit && step.limit * 1000 });
        case 'together': return { answers: await Promise.all(step.calls.map(c => call(c))) };
        case 'cancel': {
            const stop = new AbortController();
            setTimeout(() => stop.abort('lab'), step.after);
            return call(step, { signal: stop.signal });
        }
        case 'read': return outcome(() => it.read(step.uri));
        case 'prompt': return outcome(() => it.prompt(step.name, step.arguments));
        case 'complete': return outcome(() => it.complete(step.ref, step.argument));
        case 'level': return it.modern ? {} : outcome(() => it.level(step.level));
        case 'watch': return outcome(() => it.watch(step.uris));
        case 'unwatch': return outcome(() => it.unwatch(step.uris));
        default: throw new Error(step.op);
    }
}

export async function main(connect) {
    const args = process.argv.slice(2);
    const cut = args.indexOf('--');
    const names = args.slice(0, cut);
    const mode = names[0] === '--mode' ? names.splice(0, 2)[1] : 'legacy';
    let events = [];
    const late = [];
    const seen = (event, what) => events.push({ event, ...what });
    let command = args.slice(cut + 1);
    if (command[0].startsWith('@')) command = JSON.parse(readFileSync(command[0].slice(1), 'utf8'));
    const it = await connect(command, mode, {
        seen,
        // Progress that is read together with its result reaches the program as an error (a busy machine brings that
        // about without anyone in between). It came over the wire all the same, and that is what is compared.
        failed(error) {
            const token = /unknown token: (\{.*\})$/s.exec(String(error));
            // The answer to a cancelled call, which some servers give over HTTP, comes at any time.
            if (/unknown message ID: .*Request cancelled/s.test(String(error))) {
                return late.push(String(error).replace(/"id":[0-9]+/, '"id"'));
            }
            if (!token) return seen('onerror', { message: String(error) });
            const { progressToken, _meta, ...progress } = JSON.parse(token[1]).params;
            seen('progress', progress);
        },
        sampling(params) {
            seen('sampling', { params });
            const text = 'an answer to ' + params.messages[0].content.text;
            return { role: 'assistant', content: { type: 'text', text }, model: 'lab', stopReason: 'endTurn' };
        },
        elicitation(params) {
            seen('elicitation', { params });
            return params.message.includes('decline') ? { action: 'decline' } : { action: 'accept', content: LAB.answer };
        }
    });
    say({ connected: it.about });
    for (const name of names) {
        for (const [n, step] of SESSIONS[name].entries()) {
            const got = await runStep(it, step);
            for (let i = 0; i < 300 && events.length < (step.expect ?? 0); i++) await sleep(10);
            say({ session: name, step: n, op: step.op, events, ...got });
            events = [];
        }
    }
    await sleep(100);
    await it.close();
    say({ left: events, ...(late.length ? { late } : {}) });
}
