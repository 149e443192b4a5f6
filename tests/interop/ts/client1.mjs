// Client driver on the TypeScript SDK 1.x (the legacy era only).

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import { main } from './script.mjs';

await main(async ([command, ...args], mode, hooks) => {
    const client = new Client(
        { name: 'lab', version: '1' },
        { capabilities: { sampling: {}, elicitation: { form: {} } } });
    client.setRequestHandler(types.CreateMessageRequestSchema, r => hooks.sampling(r.params));
    client.setRequestHandler(types.ElicitRequestSchema, r => hooks.elicitation(r.params));
    client.setNotificationHandler(types.LoggingMessageNotificationSchema, n => hooks.seen('log', { params: n.params }));
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, n => hooks.seen('notification', { message: n }));
    client.setNotificationHandler(types.ToolListChangedNotificationSchema, n => hooks.seen('notification', { message: n }));
    client.onerror = error => hooks.failed(error);
    const http = command.startsWith('http') && new StreamableHTTPClientTransport(new URL(command));
    await client.connect(http || new StdioClientTransport({ command, args }));
    const lists = { tools: 'listTools', resources: 'listResources', templates: 'listResourceTemplates', prompts: 'listPrompts' };
    return {
        about: [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()],
        async close() {
            if (http) await http.terminateSession();
            await client.close();
        },
        list: (what, cursor) => client[lists[what]](cursor && { cursor }),
        call: (name, args, { progress, signal, timeout } = {}) => client.callTool({ name, arguments: args }, undefined,
            { signal, timeout, onprogress: progress && (p => hooks.seen('progress', p)) }),
        read: uri => client.readResource({ uri }),
        prompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: (ref, argument) => client.complete({ ref, argument }),
        level: level => client.setLoggingLevel(level),
        watch: ([uri]) => client.subscribeResource({ uri }),
        unwatch: ([uri]) => client.unsubscribeResource({ uri })
    };
});
