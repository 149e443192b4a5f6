// Two processes run this at the same time, or one after the other. The client starts a process per call.
import assert from 'node:assert';
import { test } from 'node:test';
import { useCassette } from './mcpreel_vitest.mjs';
import { say } from './talk.mjs';

test('shared', async t => {
    const cassette = await useCassette(t, { cassette: 'tests/cassettes/shared.cassette.json' });
    for (const text of ['one', 'two', 'three']) {
        assert.deepStrictEqual(await say(cassette.serverCommand(['python3', 'tests/echo.py']), text), [text]);
    }
});
