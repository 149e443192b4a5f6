// Records the MCP servers of a test on its first run, and replays them ever after.
//
//     test('weather', async (context) => {
//         const cassette = await useCassette(context);
//         const transport = new StdioClientTransport(cassette.serverCommand(['npx', '-y', 'server-weather']));
//         ...
//     });
//
// The cassette is cassettes/<file>/<test>.cassette.json beside this file; commit it. A request that was not recorded, a
// server that was never started and a recording that failed make the test fail. `context` is what vitest and node:test
// give to a test; where there is none (jest, a script): `await withCassette({ cassette: 'c.json' }, async (cassette) =>
// { ... })`, or `try { ... } finally { await cassette.end(); }`.
//
// MCPREEL_MODE (once, none, all, new_episodes) goes before the mode in the options. This file needs Node 18 and the
// program `mcpreel`, found in PATH or by MCPREEL_BIN. Do not edit it: `mcpreel init vitest` writes it anew, and
// `mcpreel init vitest --check` tells changes.

/* eslint-disable */
// prettier-ignore-file
import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const NOT_BEGUN = 'not begun: '; // how a report begins to say why
const PATIENCE = 5000; // milliseconds that a process has to end, and after that to end by SIGTERM

/** What was asked and what was recorded do not agree, or something could not be recorded. */
export class CassetteError extends Error {
    constructor(message) {
        super(message);
        this.name = 'CassetteError';
    }
}

const fault = (type, params, target) => {
    const known = entries => Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
    return { target: known({ method: 'tools/call', ...target }), type, params: known(params) };
};

/** Faults for `withFaults`, each for a target: `Fault.timeout({ name: 'search', nth: 2 })`. */
export const Fault = {
    delay: (ms, target) => fault('delay', { ms }, target),
    timeout: target => fault('timeout', {}, target),
    error: ({ code, message, data } = {}, target) => fault('error', { code, message, data }, target),
    malformed: (strategy = 'truncate', target) => fault('malformed', { strategy }, target),
    disconnect: ({ afterResponse } = {}, target) => fault('disconnect', { after_response: afterResponse }, target),
    httpStatus: (status, { headers, body } = {}, target) => fault('http_status', { status, headers, body }, target),
    sessionExpired: target => fault('session_expired', {}, target),
    cutStream: (afterEvents = 0, target) => fault('cut_stream', { after_events: afterEvents }, target),
    drip: (bytesPerSecond, target) => fault('drip', { bytes_per_second: bytesPerSecond }, target),
    duplicate: target => fault('duplicate', {}, target),
    late: target => fault('late', {}, target),
    reorder: (withinMs, target) => fault('reorder', { within_ms: withinMs }, target),
    stderrNoise: ({ text, repeat } = {}, target) => fault('stderr_noise', { text, repeat }, target),
    exit: ({ code = 1, afterResponse } = {}, target) => fault('exit', { code, after_response: afterResponse }, target)
};

/** The settings, and what of `mcpreel use` they are; those without an option are for this file. */
const SETTINGS = {
    name: null, cassette: null, dir: null, mode: null, claimWait: null, requireAllUsed: null, required: null,
    allowMisses: null, binary: null, ordering: '--ordering', matchInputs: '--match-inputs', repeat: '--repeat',
    ignore: '--ignore', ignoreValue: '--ignore-value', strict: '--strict',
    rewriteProtocolVersion: '--rewrite-protocol-version', pace: '--pace', paceScale: '--pace-scale',
    paceCapMs: '--pace-cap-ms', redact: '--redact', noDefaultRedactions: '--no-default-redactions', piiPacks: '--pii-pack'
};
const RECORDING = ['redact', 'noDefaultRedactions', 'piiPacks'];

/** A cassette while a test, or a script, uses it. */
export class Cassette {
    #faults;
    #requireFaults;
    #does;
    #told;
    #session;
    #folder;
    #servers = new Map();
    #doors = [];
    #derived = [];
    #judged = false;

    constructor(path, options = {}, faults = [], requireFaults = true) {
        for (const name of Object.keys(options)) {
            if (!(name in SETTINGS)) {
                throw new TypeError(`mcpreel: ${name} is no setting; there are ${Object.keys(SETTINGS).join(', ')}`);
            }
        }
        this.path = resolve(path);
        this.options = { claimWait: 30, required: true, ...options };
        this.#faults = faults;
        this.#requireFaults = requireFaults;
    }

    get mode() {
        return this.#said || this.#told || 'once';
    }

    get #said() {
        return process.env.MCPREEL_MODE || process.env.MCP_CASSETTE_MODE || this.options.mode;
    }

    get recording() {
        return this.#does === 'record';
    }

    /** Settles whether it is recorded or replayed; waits for others that record it. */
    async begin() {
        if (this.#does) return this;
        mkdirSync(dirname(this.path), { recursive: true });
        // Threads of one process have one number, and a session ends with the process at the latest.
        this.#session = `node-${randomBytes(6).toString('hex')}@${process.pid}`;
        if (this.#faults.length) {
            this.#does = 'replay';
        } else {
            const begun = await this.#run('begin', this.path, '--session', this.#session,
                '--claim-wait', String(this.options.claimWait), ...(this.#said ? ['--mode', this.#said] : []));
            if (begun.code !== 0) throw new CassetteError(begun.stderr.trim());
            [this.#does, this.#told] = begun.stdout.trim().split(' ');
        }
        // Nobody else can look into it: a URL may hold a secret.
        this.#folder = mkdtempSync(join(tmpdir(), 'mcpreel-'));
        mkdirSync(join(this.#folder, 'reports'));
        return this;
    }

    /** What the client starts in place of the server: `{ command, args }`, as StdioClientTransport takes it. */
    serverCommand(command, { server } = {}) {
        const words = typeof command === 'string' ? command.trim().split(/\s+/)
            : Array.isArray(command) ? command.map(String) : [command.command, ...(command.args ?? [])];
        if (!words[0]) throw new TypeError("mcpreel: the server's command is empty");
        this.#handOut(server ?? basename(words[0]), words.join(' '), server !== undefined);
        const args = [...this.#front(), ...(server ? ['--server', server] : [])];
        args.push(...(this.#faults.length ? ['--stdio'] : ['--', ...words]));
        return { command: this.#binary(), args };
    }

    /** The URL for the client to use in place of the server's. `headers` are sent to the server, never recorded. */
    async serverUrl(url, { server, headers = {}, headerEnv = {} } = {}) {
        this.#handOut(server ?? 'server', String(url), server !== undefined);
        const ready = join(this.#folder, `url${this.#doors.length}`);
        const args = [...this.#front(), ...(server ? ['--server', server] : []), '--ready-file', ready, '--listen', '127.0.0.1:0'];
        if (!this.#faults.length) {
            args.push('--url', String(url));
            for (const [name, value] of Object.entries(headers)) args.push('--header', `${name}: ${value}`);
            for (const [name, value] of Object.entries(headerEnv)) args.push('--header-env', `${name}=${value}`);
        }
        const said = openSync(`${ready}.stderr`, 'w');
        const door = { child: spawn(this.#binary(), args, { stdio: ['ignore', said, said] }), ended: null };
        closeSync(said);
        door.exit = new Promise(done => {
            door.child.on('error', error => done(door.ended = String(error)));
            door.child.on('exit', (code, signal) => done(door.ended = `it ended with ${code ?? signal}`));
        });
        this.#doors.push(door);
        while (!existsSync(ready)) {
            if (door.ended) {
                throw new CassetteError(`mcpreel: ${url}: ${door.ended}\n${readFileSync(`${ready}.stderr`, 'utf8').trim()}`);
            }
            await sleep(5);
        }
        return readFileSync(ready, 'utf8').trim();
    }

    /** The same cassette with faults in its replay. With `require`, a fault that never fired fails the test. */
    async withFaults(faults, { require = true, ...options } = {}) {
        const listed = [faults].flat();
        if (!listed.length) throw new TypeError("mcpreel: withFaults needs a fault, such as Fault.timeout({ name: 'search' })");
        if (this.#does === 'record') {
            // What was recorded so far is what is replayed.
            await this.#awaitProcesses();
            await this.#end();
        }
        if (!existsSync(this.path)) {
            throw new CassetteError(`mcpreel: ${shown(this.path)}: withFaults replays a cassette, and there is none yet: run `
                + 'the test without faults first');
        }
        const derived = new Cassette(this.path, { ...this.options, ...options }, listed, require);
        this.#derived.push(derived);
        return derived.begin();
    }

    /** Waits for the servers, ends the session, and throws a CassetteError if something went wrong. */
    async end() {
        const text = await this.finish();
        if (text) throw new CassetteError(text);
    }

    async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
        await this.end();
    }

    /** As `end`, but gives what went wrong in words, or nothing. */
    async finish() {
        const wrong = [];
        for (const derived of this.#derived) wrong.push(await derived.finish());
        const first = !this.#judged && !this.#derived.length;
        this.#judged = true;
        this.#derived = [];
        if (!this.#folder) return wrong.filter(Boolean).join('\n');
        await this.#awaitProcesses();
        const does = this.#does ?? 'record';
        const ended = this.#does ? await this.#end() : null;
        const reports = this.#reports();
        const here = this.#faulty(reports, first);
        if (ended && !here.length && (reports.length || this.options.required)) here.push(ended);
        rmSync(this.#folder, { recursive: true, force: true });
        this.#folder = undefined;
        this.#servers.clear();
        if (here.length) {
            wrong.push(`mcpreel: ${here.join('\n').replaceAll('\n', '\n  ')}\n  cassette ${shown(this.path)}, mode ${this.mode}\n`
                + `  --options are settings of useCassette, such as ignore: [...]; MCPREEL_MODE=all records again`);
        }
        return wrong.filter(Boolean).join('\n');
    }

    #binary() {
        return this.options.binary ?? process.env.MCPREEL_BIN ?? 'mcpreel';
    }

    #run(...args) {
        return new Promise((done, failed) => {
            execFile(this.#binary(), args, { encoding: 'utf8' }, (error, stdout, stderr) => {
                if (error?.code === 'ENOENT') {
                    failed(new CassetteError(`mcpreel: cannot find the program ${this.#binary()}; install it, or say where it is in MCPREEL_BIN`));
                } else {
                    done({ code: error ? error.code ?? 1 : 0, stdout, stderr });
                }
            });
        });
    }

    #handOut(name, what, named) {
        if (!this.#does) throw new CassetteError('mcpreel: the cassette is not in use; `await cassette.begin()` comes first');
        if (!named && this.#servers.has(name) && this.#servers.get(name) !== what) {
            throw new TypeError(`mcpreel: two servers cannot both be ${name} in ${shown(this.path)}; name them with { server }`);
        }
        if (!this.#servers.has(name)) this.#servers.set(name, what);
    }

    /** The command line as far as it is the same for every server. */
    #front() {
        const shared = ['--session', this.#session, '--report', join(this.#folder, 'reports')];
        const options = [];
        for (const [name, option] of Object.entries(SETTINGS)) {
            const value = this.options[name];
            if (!option || value === undefined || value === false || (this.#faults.length && RECORDING.includes(name))) continue;
            for (const one of [value].flat()) options.push(option, ...(one === true ? [] : [String(one)]));
        }
        if (this.#faults.length) {
            const overlay = join(this.#folder, 'faults.json');
            writeFileSync(overlay, JSON.stringify({ faults: this.#faults }));
            return ['serve', this.path, ...shared, '--faults', overlay, ...options];
        }
        return ['use', '--cassette', this.path, '--mode', this.recording ? this.mode : 'none', ...shared,
            '--claim-wait', String(this.options.claimWait), ...options];
    }

    /** What each process has said of itself. Nothing: it still runs, or was killed. */
    #reports() {
        const folder = join(this.#folder, 'reports');
        return readdirSync(folder).sort().map(name => {
            const lines = readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean);
            return { pid: parseInt(name, 10), row: lines.length ? JSON.parse(lines.at(-1)) : null };
        });
    }

    async #awaitProcesses() {
        for (const door of this.#doors) door.child.kill('SIGTERM');
        for (const door of this.#doors) {
            const late = setTimeout(() => door.child.kill('SIGKILL'), PATIENCE);
            await door.exit;
            clearTimeout(late);
        }
        this.#doors = [];
        const living = () => this.#reports().filter(({ pid, row }) => !row && isAlive(pid));
        if (await noLonger(living)) return;
        for (const { pid } of living()) {
            console.error(`mcpreel: process ${pid} was still running after the test, and is ended`);
            process.kill(pid, 'SIGTERM');
        }
        await noLonger(living);
    }

    async #end() {
        const ended = await this.#run('end', this.path, '--session', this.#session);
        const recorded = this.recording;
        this.#does = undefined;
        return recorded && (ended.code !== 0 || !existsSync(this.path)) ? ended.stderr.trim().replace(/^mcpreel: /, '') : null;
    }

    #faulty(reports, first) {
        const wrong = [];
        const rows = reports.map(({ row }) => row).filter(Boolean);
        for (const { pid, row } of reports) {
            if (!row) wrong.push(`process ${pid} was killed before it could say what was asked of it`);
            else if (row.failed) wrong.push(row.failed);
            else if (row.ended?.startsWith(NOT_BEGUN)) wrong.push(row.ended.slice(NOT_BEGUN.length));
        }
        if (!this.options.allowMisses) wrong.push(...rows.flatMap(row => row.misses ?? []).map(missed));
        if (!wrong.length && this.options.required) {
            const started = new Set(rows.map(row => row.server));
            const silent = this.#servers.size > 1 ? [...this.#servers.keys()].filter(name => !started.has(name)) : [];
            const asked = rows.reduce((sum, row) => sum + (row.hits ?? 0) + (row.repeats ?? 0) + (row.recorded ?? 0), 0);
            if (!reports.length && this.#servers.size) {
                wrong.push(`no server was started: ${[...this.#servers.values()].join('; ')} was handed out, and nobody ran it`);
            } else if (!reports.length && first) {
                wrong.push('no server was asked for: the test never called serverCommand or serverUrl');
            } else if (silent.length) {
                wrong.push(...silent.map(name => `the server ${name} was never started: ${this.#servers.get(name)}`));
            } else if (reports.length && !asked) {
                wrong.push('the server was started, and nothing was asked of it that a cassette could hold');
            }
        }
        if (this.options.requireAllUsed) {
            wrong.push(...common(rows, 'unused', unusedWords).map(what => `recorded and not asked for: ${what}`));
        }
        if (this.#faults.length && this.#requireFaults) {
            wrong.push(...common(rows, 'unfired', index => index).map(index => `never fired: ${JSON.stringify(this.#faults[index])}`));
        }
        return wrong;
    }
}

/** The cassette of a test, or the one that is named in the options. It ends with the test where `context` allows it. */
export async function useCassette(context = {}, options) {
    // Without a test, the first argument are the options.
    const test = context.task || typeof context.after === 'function' ? context : null;
    const settings = (test ? options : context) ?? {};
    const cassette = new Cassette(settings.cassette ?? pathOf(test, settings), settings);
    if (test?.onTestFinished) test.onTestFinished(() => cassette.end());
    else if (test?.after) test.after(() => cassette.end());
    return cassette.begin();
}

/** Lends a cassette to `body`. What went wrong with it is told beside an error of `body`, and thrown where there is none. */
export async function withCassette(options, body) {
    const cassette = await useCassette(options);
    let result;
    try {
        result = await body(cassette);
    } catch (error) {
        const text = await cassette.finish();
        if (text && error instanceof Error) error.message += `\n${text}`;
        throw error;
    }
    await cassette.end();
    return result;
}

function pathOf(test, { name, dir }) {
    const jest = test ? {} : globalThis.expect?.getState?.() ?? {};
    const full = name ?? (test?.task ? namesOf(test.task).join(' > ') : test?.fullName ?? test?.name ?? jest.currentTestName);
    if (!full) throw new TypeError('mcpreel: useCassette needs the context of a test, a name, or a cassette');
    const here = dirname(fileURLToPath(import.meta.url));
    // Node 20 does not say which file a test is in; each has a process of its own.
    const file = test?.task?.file?.filepath ?? test?.filePath ?? (test ? process.argv[1] : jest.testPath);
    const inside = file ? relative(here, file) : '';
    const folders = (inside.startsWith('..') ? basename(inside) : inside).split(/[\\/]/).filter(Boolean);
    const module = folders.pop()?.replace(/\.[^.]+$/, '').replace(/\.(test|spec)$/, '');
    const parts = [...folders, ...(module ? [module] : [])].map(safe);
    return join(dir ?? process.env.MCPREEL_DIR ?? join(here, 'cassettes'), ...parts, `${safe(full)}.cassette.json`);
}

function namesOf(task) {
    return task.suite?.name ? [...namesOf(task.suite), task.name] : [task.name];
}

/** A name that every file system takes, different for every name. */
function safe(name) {
    const plain = name.replace(/[^A-Za-z0-9_.-]+/g, '-').replace(/^[-.]+|[-.]+$/g, '').slice(0, 80);
    return plain === name && !/[A-Z]/.test(name) ? plain : `${plain}-${createHash('sha1').update(name).digest('hex').slice(0, 8)}`;
}

function missed({ method, name, why, nearest, hint }) {
    const lines = [why ?? `no recorded answer for ${method}${name ? ` ${JSON.stringify(name)}` : ''}`];
    if (nearest) lines.push(`  nearest is message ${nearest.message}`);
    for (const at of nearest?.differs ?? []) {
        const value = key => (key in at ? JSON.stringify(at[key]) : 'nothing');
        lines.push(`  ${at.path}: recorded ${value('recorded')}, asked ${value('live')}`);
    }
    if (hint) lines.push(`  ${hint}`);
    return lines.join('\n');
}

function unusedWords({ message, method, name }) {
    return method === 'tools/call' ? `message ${message}, tools/call ${JSON.stringify(name)}` : null;
}

/** What stands under a key in the reports of all processes of a server. */
function common(rows, key, words) {
    const servers = new Map();
    for (const row of rows) {
        if (!row[key] || row.recorded !== undefined) continue;
        servers.set(row.server, [...(servers.get(row.server) ?? []), row[key].map(words).filter(word => word !== null)]);
    }
    return [...servers.values()].flatMap(lists => lists[0].filter(entry => lists.every(other => other.includes(entry))));
}

function shown(path) {
    const inside = relative(process.cwd(), path);
    return inside.startsWith('..') ? path : inside;
}

const sleep = ms => new Promise(done => setTimeout(done, ms));

async function noLonger(living) {
    for (const until = Date.now() + PATIENCE; living().length;) {
        if (Date.now() > until) return false;
        await sleep(10);
    }
    return true;
}

function isAlive(pid) {
    try {
        process.kill(pid, 0);
    } catch {
        return false;
    }
    try {
        // A client that does not collect its children leaves their names behind.
        return readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /s, '')[0] !== 'Z';
    } catch {
        return !existsSync('/proc/self');
    }
}
