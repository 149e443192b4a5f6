// The lab server on the TypeScript SDK 2.x: both eras.

import { randomUUID } from 'node:crypto';

import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, isLegacyRequest, Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as lab from './lab.mjs';

class NeedsInput extends Error {}

let notify; // over HTTP, where a modern server lives no longer than its request

function make() {
    const server = new Server(
        { name: 'lab-ts2', version: '1' },
        { capabilities: lab.capabilities, instructions: lab.LAB.instructions });
    const watched = new Set();

    const peer = ctx => {
        const modern = ctx.mcpReq.envelope !== undefined;
        // The SDK turns this into a request of the server's own for a legacy client.
        const ask = (key, method, params) => {
            const got = ctx.mcpReq.inputResponses?.[key];
            if (got) return got;
            throw Object.assign(new NeedsInput(), { result: {
                resultType: 'input_required', inputRequests: { [key]: { method, params } }, requestState: `asked for ${key}` } });
        };
        return {
            signal: ctx.mcpReq.signal,
            async progress(progress, total, message) {
                const progressToken = ctx.mcpReq._meta?.progressToken;
                if (progressToken === undefined) return;
                await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
            },
            log: (level, data) => ctx.mcpReq.log(level, data, 'lab'),
            sample: params => ask('sample', 'sampling/createMessage', params),
            elicit: params => ask('elicit', 'elicitation/create', params),
            async touched(uri) {
                if (modern && notify) notify.resourceUpdated(uri);
                else if (modern || watched.has(uri)) await server.sendResourceUpdated({ uri });
            },
            grown: () => modern && notify ? notify.toolsChanged() : server.sendToolListChanged()
        };
    };

    for (const [method, key] of [
        ['tools/list', 'tools'], ['resources/list', 'resources'],
        ['resources/templates/list', 'resourceTemplates'], ['prompts/list', 'prompts']
    ]) {
        server.setRequestHandler(method, r => lab.page(key, r.params?.cursor));
    }
    server.setRequestHandler('tools/call', async (r, ctx) => {
        try {
            return await lab.call(peer(ctx), r.params.name, r.params.arguments);
        } catch (error) {
            if (error instanceof NeedsInput) return error.result;
            throw error;
        }
    });
    server.setRequestHandler('resources/read', r => lab.read(r.params.uri));
    server.setRequestHandler('prompts/get', r => lab.prompt(r.params.name, r.params.arguments));
    server.setRequestHandler('completion/complete', r => lab.complete(r.params.argument));
    server.setRequestHandler('resources/subscribe', r => { watched.add(r.params.uri); return {}; });
    server.setRequestHandler('resources/unsubscribe', r => { watched.delete(r.params.uri); return {}; });
    return server;
}

if (lab.httpPort() === undefined) {
    serveStdio(make);
    process.stdin.on('end', () => process.exit(0));
} else {
    // Its own fallback for legacy clients knows no sessions.
    const modern = createMcpHandler(make, { legacy: 'reject' });
    notify = modern.notify;
    const sessions = new Map();
    lab.serveHttp(getRequestListener(async request => {
        if (!await isLegacyRequest(request)) return modern.fetch(request);
        let transport = sessions.get(request.headers.get('mcp-session-id'));
        if (!transport) {
            transport = new WebStandardStreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID, onsessioninitialized: id => { sessions.set(id, transport); } });
            await make().connect(transport);
        }
        return transport.handleRequest(request);
    }));
}
