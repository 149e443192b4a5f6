// Through the TypeScript SDK 1, over pipes and over HTTP.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterEach, describe, expect, test } from 'vitest';
import { type Cassette, useCassette } from './mcpreel_vitest.mjs';

const LAB: string[] = JSON.parse(process.env.LAB_SERVER!);

async function connected<T>(transport: StdioClientTransport | StreamableHTTPClientTransport, body: (client: Client) => Promise<T>) {
    const client = new Client({ name: 'lab', version: '1' });
    await client.connect(transport);
    try {
        return await body(client);
    } finally {
        await client.close();
    }
}

async function echo(client: Client, text: string) {
    expect(await client.callTool({ name: 'echo', arguments: { text } })).toMatchObject({ content: [{ type: 'text', text }] });
}

const start = (cassette: Cassette, server?: string) => new StdioClientTransport(cassette.serverCommand(LAB, { server }));

test.each(['plain', 'a/b', 'a:b', 'a-b', 'A', 'a', 'x'.repeat(200), ''])('a name with %s', async text => {
    const cassette = await useCassette({ name: `a name with ${text}` });
    await connected(start(cassette), client => echo(client, text));
    await cassette.end();
});

describe('a group', () => {
    test('more than one call', async context => {
        const cassette = await useCassette(context, { requireAllUsed: true });
        await connected(start(cassette), async client => {
            await echo(client, 'one');
            expect((await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })).structuredContent).toEqual({ sum: 3 });
            expect((await client.listTools()).tools.length).toBeGreaterThan(3);
        });
    });
});

test('a process per call', async context => {
    const cassette = await useCassette(context);
    for (const text of ['one', 'two', 'one']) await connected(start(cassette), client => echo(client, text));
});

test('two servers', async context => {
    const cassette = await useCassette(context);
    await connected(start(cassette, 'left'), left => connected(start(cassette, 'right'), async right => {
        await Promise.all([echo(left, 'l'), echo(right, 'r')]);
    }));
});

describe('a client that outlives the body of the test', () => {
    const client = new Client({ name: 'lab', version: '1' });
    afterEach(() => client.close());
    test('is closed before the cassette ends', async context => {
        await client.connect(start(await useCassette(context)));
        await echo(client, 'later');
    });
});

test('http', async context => {
    const cassette = await useCassette(context);
    const url = new URL(await cassette.serverUrl(process.env.LAB_URL!));
    await connected(new StreamableHTTPClientTransport(url), client => echo(client, 'http'));
});

test.each([1, 2, 3])('one cassette for several tests: %i', async () => {
    const cassette = await useCassette({ cassette: 'tests/cassettes/common.cassette.json' });
    for (const text of ['one', 'two']) await connected(start(cassette), client => echo(client, text));
    await cassette.end();
});
