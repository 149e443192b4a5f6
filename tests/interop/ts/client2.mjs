// Client driver on the TypeScript SDK 2.x (both eras).

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { main } from './script.mjs';

await main(async ([command, ...args], mode, hooks) => {
    const client = new Client(
        { name: 'lab', version: '1' },
        { capabilities: { sampling: {}, elicitation: { form: {} } },
          versionNegotiation: { mode: mode === 'pinned' ? { pin: '2026-07-28' } : mode } });
    client.setRequestHandler('sampling/createMessage', r => hooks.sampling(r.params));
    client.setRequestHandler('elicitation/create', r => hooks.elicitation(r.params));
    client.setNotificationHandler('notifications/message', n => hooks.seen('log', { params: n.params }));
    for (const method of ['notifications/resources/updated', 'notifications/tools/list_changed']) {
        // The id of a subscription is the program's affair no more than that of a request.
        client.setNotificationHandler(method, n => hooks.seen('notification', { method, uri: n.params?.uri }));
    }
    client.onerror = error => hooks.failed(error);
    // Its session is never ended with a DELETE (as is usual with this SDK): client1 does that.
    await client.connect(command.startsWith('http')
        ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args }));
    const modern = client.getNegotiatedProtocolVersion() >= '2026';
    const lists = { tools: 'listTools', resources: 'listResources', templates: 'listResourceTemplates', prompts: 'listPrompts' };
    let listening;
    return {
        modern,
        about: [client.getNegotiatedProtocolVersion(), client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()],
        close: () => client.close(),
        list: (what, cursor) => client[lists[what]](cursor && { cursor }),
        call: (name, args, { progress, signal, timeout } = {}) => client.callTool(
            // A modern log level goes with each request.
            { name, arguments: args, ...(modern && name === 'log' ? { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } } : {}) },
            { signal, timeout, onprogress: progress && (p => hooks.seen('progress', p)) }),
        read: uri => client.readResource({ uri }),
        prompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: (ref, argument) => client.complete({ ref, argument }),
        level: level => client.setLoggingLevel(level),
        async watch(uris) {
            if (!modern) return client.subscribeResource({ uri: uris[0] });
            listening = await client.listen({ toolsListChanged: true, resourceSubscriptions: uris });
            return listening.honoredFilter;
        },
        async unwatch([uri]) {
            if (!modern) return client.unsubscribeResource({ uri });
            await listening.close();
            return { closed: await listening.closed };
        }
    };
});
