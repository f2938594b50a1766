/** A process that saves is killed at any moment: the path has the old file or the new one, whole. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { safeOpen, serialize } from '../../src/index.js';
import { temporaryPath } from '../support/make-file.js';
import { childPath } from '../support/run-child.js';

const KILLS_PER_WAY = 10;

/** The two files, of different lengths. */
const states = [0, 1].map((state) => {
  const data = new Uint8Array(3_000_000 + 500_000 * state).fill(state);
  return Buffer.from(serialize({ x: { dtype: 'U8', shape: [data.length], data } }));
});

/** Kills a child `delay` milliseconds after its first line. */
async function killAfter(delay: number, script: string, ...args: string[]): Promise<void> {
  const child = spawn(process.execPath, [childPath(`save/children/${script}`), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  await Promise.race([once(child.stdout, 'data'), ended]);
  await setTimeout(delay);
  child.kill('SIGKILL');
  expect((await ended)[1]).toBe('SIGKILL');
}

describe.each(['memory', 'stream', 'file', 'sync'])('saving from %s', (way) => {
  test(`survives ${KILLS_PER_WAY} kills`, async () => {
    const folder = temporaryPath('folder');
    mkdirSync(folder);
    const path = `${folder}/model`;
    for (const [i, state] of states.entries()) writeFileSync(`${path}.${i}`, state);
    for (let i = 0; i < KILLS_PER_WAY; i++) {
      await killAfter(Math.random() * 40, 'save-forever.mjs', path, way);
      const bytes = readFileSync(path);
      expect(states.some((state) => state.equals(bytes))).toBe(true);
    }
    // The moments are inside of saves: what they leave can be told by its name.
    const left = readdirSync(folder).filter((name) => !name.startsWith('model'));
    expect(left.length).toBeGreaterThan(0);
    for (const name of left) expect(name).toMatch(/^\.safetensors-mmap-[0-9a-f]{16}\.tmp$/);
  });
});

test.runIf(process.platform !== 'win32')(
  'a writer that is killed leaves a whole file',
  async () => {
    const path = temporaryPath('model.safetensors');
    const size = 100_000;
    const tensor = { dtype: 'U8', shape: [size], data: new Uint8Array(size) } as const;
    writeFileSync(path, serialize({ a: tensor, b: tensor }));
    for (let run = 0; run < 8; run++) {
      await killAfter(Math.random() * 60, 'write-forever.mjs', path, `${size}`);
      const file = safeOpen(path, { storage: 'read' });
      const values = ['a', 'b'].flatMap((name) => [...new Set(file.getTensor(name).bytes)]);
      expect(values[0]).toBe(values[1]);
      expect(values).toHaveLength(2);
      file.close();
    }
  },
  60_000,
);
