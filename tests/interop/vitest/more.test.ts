// Through the TypeScript SDK 2, which probes a server before it starts it for good.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, test } from 'vitest';
import { useCassette, withCassette } from './mcpreel_vitest.mjs';

const LAB: string[] = JSON.parse(process.env.LAB_SERVER!);

async function add(transport: StdioClientTransport | StreamableHTTPClientTransport, a: number, b: number) {
    const client = new Client({ name: 'lab', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(transport);
    try {
        expect((await client.callTool({ name: 'add', arguments: { a, b } })).structuredContent).toEqual({ sum: a + b });
    } finally {
        await client.close();
    }
}

test('a probe and the real process', async context => {
    const cassette = await useCassette(context);
    await add(new StdioClientTransport(cassette.serverCommand({ command: LAB[0]!, args: LAB.slice(1) })), 1, 2);
});

test('modern http', async context => {
    const cassette = await useCassette(context);
    await add(new StreamableHTTPClientTransport(new URL(await cassette.serverUrl(process.env.LAB_URL!))), 3, 4);
});

test('without a test, and at once', async () => {
    await Promise.all([1, 2].map(n => withCassette({ name: `lent ${n}` }, async cassette => {
        expect(cassette.recording).toBe(process.env.MCPREEL_MODE !== 'none');
        await add(new StdioClientTransport(cassette.serverCommand(LAB)), n, n);
    })));
});
