// Faults in the replay of a cassette that the same test recorded.
import assert from 'node:assert';
import { test } from 'node:test';
import { Fault, useCassette } from './mcpreel_vitest.mjs';
import { Talk, say } from './talk.mjs';

const ECHO = ['python3', 'tests/echo.py'];

for (const [name, faults, wanted] of [
    ['delay', Fault.delay(1), ['one']], ['error', Fault.error({ code: -5 }, { name: 'echo', nth: 1 }), [undefined, 'one']],
    ['exit', Fault.exit({ code: 0 }), [undefined]], ['two', [Fault.duplicate(), Fault.stderrNoise({ text: 'noise' })], ['one']],
]) {
    test(name, async t => {
        const cassette = await useCassette(t);
        await say(cassette.serverCommand(ECHO), 'one');
        const faulty = await cassette.withFaults(faults, { repeat: 'last' });
        assert.deepStrictEqual(await say(faulty.serverCommand(ECHO), ...wanted.map(() => 'one')), wanted);
    });
}

test('http', async t => {
    const cassette = await useCassette(t);
    await say(cassette.serverCommand(ECHO), 'one');
    const faulty = await cassette.withFaults(Fault.httpStatus(429, {}, { method: 'initialize' }));
    const answer = await fetch(await faulty.serverUrl('http://gone'), {
        method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {
            protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } } })
    });
    assert.strictEqual(answer.status, 429);
});

test('never fired', async t => {
    const cassette = await useCassette({ name: t.name });
    await new Talk(cassette.serverCommand(ECHO)).close();
    await say(cassette.serverCommand(ECHO), 'one');
    const faulty = await cassette.withFaults(Fault.timeout({ nth: 2 }));
    await say(faulty.serverCommand(ECHO), 'one');
    await assert.rejects(cassette.end(), /never fired: .*"nth":2/);
});
