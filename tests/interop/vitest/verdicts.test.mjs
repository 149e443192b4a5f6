// What a test is to be told, by vitest and by node:test. On the first run all of them record; on the second one, WORD is
// another.
import assert from 'node:assert';
import { Fault, useCassette, withCassette } from './mcpreel_vitest.mjs';
import { Talk, say } from './talk.mjs';

const { test } = await import(process.env.RUNNER === 'node' ? 'node:test' : 'vitest');
const ECHO = ['python3', 'tests/echo.py'];
const word = process.env.WORD;

test('same', async t => {
    const cassette = await useCassette(t);
    assert.deepStrictEqual(await say(cassette.serverCommand(ECHO), 'one'), ['one']);
});

test('miss', async t => {
    await say((await useCassette(t)).serverCommand(ECHO), word);
});

test('one more', async t => {
    await say((await useCassette(t)).serverCommand(ECHO), ...(word === 'one' ? ['one'] : ['one', 'one']));
});

test('allowed', async t => {
    await say((await useCassette(t, { allowMisses: true })).serverCommand(ECHO), 'one', word);
});

test('unused', async t => {
    const cassette = await useCassette(t, { requireAllUsed: true });
    for (const text of word === 'one' ? ['one', 'two'] : ['one']) await say(cassette.serverCommand(ECHO), text);
});

test('killed', async t => {
    const talk = new Talk((await useCassette(t)).serverCommand(ECHO));
    await talk.say('one');
    if (word !== 'one') talk.child.kill('SIGKILL');
    await talk.close();
});

test('never started', async t => {
    (await useCassette(t)).serverCommand(ECHO);
});

test('never asked for', async t => {
    await useCassette(t);
});

test('not required', async t => {
    (await useCassette(t, { required: false })).serverCommand(ECHO);
});

test('no such server', async t => {
    const talk = new Talk((await useCassette(t)).serverCommand('./no-such-server'));
    await talk.close();
});

test('no cassette', async t => {
    await useCassette(t, { mode: 'none' });
});

test('unknown setting', async t => {
    await useCassette(t, { colour: 'green' });
});

test('lent', async () => {
    const cassette = `${process.env.MCPREEL_DIR}/lent.cassette.json`;
    const lend = (text, fails) => withCassette({ cassette }, async lent => {
        const got = await say(lent.serverCommand(ECHO), text);
        if (fails) throw new Error('mine');
        return got;
    });
    assert.deepStrictEqual(await lend('one'), ['one']);
    await assert.rejects(lend('two'), { name: 'CassetteError', message: /nearest is message 2/ });
    await assert.rejects(lend('two', true), { name: 'Error', message: /^mine\nmcpreel: no recorded answer/ });
});

test('faults are an overlay', () => {
    assert.deepStrictEqual(Fault.delay(5, { name: 'a' }), {
        target: { method: 'tools/call', name: 'a' }, type: 'delay', params: { ms: 5 } });
    assert.deepStrictEqual(Fault.error({ code: -1 }, { nth: [1, 2] }), {
        target: { method: 'tools/call', nth: [1, 2] }, type: 'error', params: { code: -1 } });
    assert.deepStrictEqual(Fault.httpStatus(429, { headers: { 'Retry-After': '1' } }, { method: 'tools/list' }), {
        target: { method: 'tools/list' }, type: 'http_status', params: { status: 429, headers: { 'Retry-After': '1' } } });
});
