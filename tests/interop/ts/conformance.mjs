// The server that the conformance suite looks at, on the TypeScript SDK 1.x: conformance.mjs --http PORT.
// The suite gives the names and the texts. A sampling request goes out on its call's stream, an elicitation on the
// session's own, so that both ways are gone.

import { randomUUID } from 'node:crypto';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { localhostHostValidation } from '@modelcontextprotocol/sdk/server/middleware/hostHeaderValidation.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import * as lab from './lab.mjs';

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const text = value => ({ type: 'text', text: value });
const image = { type: 'image', data: lab.LAB.pixel, mimeType: 'image/png' };
const embedded = (uri, value, mimeType = 'text/plain') => ({ type: 'resource', resource: { uri, mimeType, text: value } });
const object = (properties = {}, required = []) => ({ type: 'object', properties, required });
const titled = { oneOf: [{ const: 'value1', title: 'One' }, { const: 'value2', title: 'Two' }] };
const DEFAULTS = object({
    name: { type: 'string', default: 'John Doe' }, age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 }, verified: { type: 'boolean', default: true },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' }
});
const ENUMS = object({
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', ...titled },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['One', 'Two'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled.oneOf } }
});
const JSON_SCHEMA = {
    $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object',
    $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } }, additionalProperties: false
};

async function elicit(server, message, requestedSchema) {
    await sleep(100); // the client's stream may just be on its way
    const got = await server.request(
        { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } }, types.ElicitResultSchema);
    return [text(`${got.action} ${JSON.stringify(got.content)}`)];
}

const TOOLS = {
    test_simple_text: [object(), () => [text('This is a simple text response for testing.')]],
    test_image_content: [object(), () => [image]],
    test_audio_content: [object(), () => [{ type: 'audio', data: lab.LAB.blob, mimeType: 'audio/wav' }]],
    test_embedded_resource: [object(), () => [embedded('test://embedded-resource', 'embedded')]],
    test_multiple_content_types: [object(), () => [
        text('several'), image, embedded('test://mixed-content-resource', '{"test":"data","value":123}', 'application/json')]],
    async test_tool_with_logging(_, { note }) {
        for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
            await note('message', { level: 'info', data });
            await sleep(50);
        }
        return [text('logged')];
    },
    async test_tool_with_progress(_, { note, extra }) {
        const progressToken = extra._meta?.progressToken ?? 0;
        for (const progress of [0, 50, 100]) {
            await note('progress', { progressToken, progress, total: 100 });
            await sleep(50);
        }
        return [text('done')];
    },
    test_error_handling: [object(), () => { throw new Error('This tool intentionally returns an error for testing'); }],
    async test_reconnection(_, { extra }) {
        extra.closeSSEStream?.();
        await sleep(100);
        return [text('went on after the stream had ended')];
    },
    test_sampling: [object({ prompt: { type: 'string' } }, ['prompt']), async ({ prompt }, { extra }) => {
        const params = { messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 };
        const got = await extra.sendRequest({ method: 'sampling/createMessage', params }, types.CreateMessageResultSchema);
        return [text('LLM response: ' + got.content.text)];
    }],
    test_elicitation: [object({ message: { type: 'string' } }, ['message']), ({ message }, { server }) =>
        elicit(server, message, object({ response: { type: 'string' } }, ['response']))],
    test_elicitation_sep1034_defaults: (_, { server }) => elicit(server, 'Defaults?', DEFAULTS),
    test_elicitation_sep1330_enums: (_, { server }) => elicit(server, 'Which?', ENUMS),
    json_schema_2020_12_tool: [JSON_SCHEMA, args => [text(JSON.stringify(args))]]
};

const PROMPTS = {
    test_simple_prompt: [[], () => [text('This is a simple prompt for testing.')]],
    test_prompt_with_arguments: [['arg1', 'arg2'], a => [text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`)]],
    test_prompt_with_embedded_resource: [['resourceUri'], a => [embedded(a.resourceUri, 'embedded'), text('See above.')]],
    test_prompt_with_image: [[], () => [image, text('See above.')]]
};

const RESOURCES = ['static-text', 'static-binary', 'watched-resource'].map(name => ({ uri: 'test://' + name, name }));

function read(uri) {
    const id = /^test:\/\/template\/(.*)\/data$/.exec(uri)?.[1];
    if (id) return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
    if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: lab.LAB.pixel };
    if (RESOURCES.some(r => r.uri === uri)) return { uri, mimeType: 'text/plain', text: 'the content of ' + uri };
    throw new types.McpError(-32002, 'no resource ' + uri);
}

function make() {
    const server = new Server({ name: 'conformance', version: '1' }, { capabilities: lab.capabilities });
    const on = (schema, handler) => server.setRequestHandler(schema, handler);
    const tool = name => Array.isArray(TOOLS[name]) ? TOOLS[name] : [object(), TOOLS[name]];
    on(types.ListToolsRequestSchema, () => ({
        tools: Object.keys(TOOLS).map(name => ({ name, description: name, inputSchema: tool(name)[0] })) }));
    on(types.CallToolRequestSchema, async ({ params }, extra) => {
        const note = (what, p) => extra.sendNotification({ method: 'notifications/' + what, params: p });
        if (!TOOLS[params.name]) throw new types.McpError(-32602, 'no tool ' + params.name);
        try {
            return { content: await tool(params.name)[1](params.arguments ?? {}, { server, extra, note }) };
        } catch (error) {
            return { content: [text(error.message)], isError: true };
        }
    });
    on(types.ListResourcesRequestSchema, () => ({ resources: RESOURCES }));
    on(types.ListResourceTemplatesRequestSchema, () => ({
        resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template' }] }));
    on(types.ReadResourceRequestSchema, r => ({ contents: [read(r.params.uri)] }));
    on(types.SubscribeRequestSchema, () => ({}));
    on(types.UnsubscribeRequestSchema, () => ({}));
    on(types.ListPromptsRequestSchema, () => ({
        prompts: Object.entries(PROMPTS).map(([name, [args]]) => ({
            name, description: name, arguments: args.map(a => ({ name: a, required: true })) })) }));
    on(types.GetPromptRequestSchema, ({ params }) => ({
        messages: PROMPTS[params.name][1](params.arguments ?? {}).map(content => ({ role: 'user', content })) }));
    on(types.CompleteRequestSchema, () => ({ completion: { values: [], total: 0, hasMore: false } }));
    return server;
}

const sessions = new Map();
const guard = localhostHostValidation();
lab.serveHttp((request, response) => {
    // The middleware is express's, of which it needs no more than this.
    response.status = code => Object.assign(response, { statusCode: code });
    response.json = value => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    guard(request, response, async () => {
        let transport = sessions.get(request.headers['mcp-session-id']);
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID, eventStore: lab.eventStore(), retryInterval: 500,
                onsessioninitialized: id => sessions.set(id, transport) });
            await make().connect(transport);
        }
        // The suite says 2025-03-26 in some of its requests, after it has agreed on 2025-11-25: only there may a server
        // close a stream and be asked for the rest.
        const said = request.rawHeaders.findIndex((name, n) => n % 2 === 0 && /^mcp-protocol-version$/i.test(name));
        if (said >= 0) request.rawHeaders[said + 1] = '2025-11-25';
        await transport.handleRequest(request, response);
    });
});
