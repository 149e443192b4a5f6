// The lab server on the TypeScript SDK 1.x: the legacy era.

import { randomUUID } from 'node:crypto';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import * as lab from './lab.mjs';

function make() {
    const server = new Server(
        { name: 'lab-ts1', version: '1' },
        { capabilities: lab.capabilities, instructions: lab.LAB.instructions });
    const watched = new Set();

    const peer = extra => ({
        signal: extra.signal,
        async progress(progress, total, message) {
            const progressToken = extra._meta?.progressToken;
            if (progressToken === undefined) return;
            await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total, message } });
        },
        log: (level, data) => server.sendLoggingMessage({ level, data, logger: 'lab' }, extra.sessionId),
        sample: params => extra.sendRequest({ method: 'sampling/createMessage', params }, types.CreateMessageResultSchema),
        elicit: params => extra.sendRequest({ method: 'elicitation/create', params }, types.ElicitResultSchema),
        touched: async uri => { if (watched.has(uri)) await server.sendResourceUpdated({ uri }); },
        grown: () => server.sendToolListChanged()
    });

    server.setRequestHandler(types.ListToolsRequestSchema, r => lab.page('tools', r.params?.cursor));
    server.setRequestHandler(types.ListResourcesRequestSchema, r => lab.page('resources', r.params?.cursor));
    server.setRequestHandler(types.ListResourceTemplatesRequestSchema, r => lab.page('resourceTemplates', r.params?.cursor));
    server.setRequestHandler(types.ListPromptsRequestSchema, r => lab.page('prompts', r.params?.cursor));
    server.setRequestHandler(types.CallToolRequestSchema, (r, extra) => lab.call(peer(extra), r.params.name, r.params.arguments));
    server.setRequestHandler(types.ReadResourceRequestSchema, r => lab.read(r.params.uri));
    server.setRequestHandler(types.GetPromptRequestSchema, r => lab.prompt(r.params.name, r.params.arguments));
    server.setRequestHandler(types.CompleteRequestSchema, r => lab.complete(r.params.argument));
    server.setRequestHandler(types.SubscribeRequestSchema, r => { watched.add(r.params.uri); return {}; });
    server.setRequestHandler(types.UnsubscribeRequestSchema, r => { watched.delete(r.params.uri); return {}; });
    return server;
}

if (lab.httpPort() === undefined) {
    process.stdin.on('end', () => process.exit(0));
    await make().connect(new StdioServerTransport());
} else {
    // Servers are set up in different ways: --http N [stateless|json|store].
    const kind = process.argv[4];
    const sessions = new Map();
    lab.serveHttp(async (request, response) => {
        let transport = sessions.get(request.headers['mcp-session-id']);
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: kind === 'stateless' ? undefined : randomUUID,
                enableJsonResponse: kind === 'json',
                eventStore: kind === 'store' ? lab.eventStore() : undefined,
                onsessioninitialized: id => sessions.set(id, transport) });
            await make().connect(transport);
        }
        await transport.handleRequest(request, response);
    });
}
