import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call, printed } from '../call.js';
import { HOSTILE_ENTRIES, HOSTILE_METADATA, UNSAFE_OUTPUT } from '../hostile.js';
import { LAYERED } from '../models.js';

/** The JSON of a header, cut out with `head` and `tail`. */
function headerOf(path: string): string {
  const bytes = readFileSync(path);
  return bytes.toString('utf8', 8, 8 + bytes.readUInt32LE());
}

describe('header', () => {
  it('prints the bytes of the header, without the spaces behind it', async () => {
    const path = writeTemporary(LAYERED, { metadata: { bidi: '\u202e' }, padding: 7 });
    expect(await printed(['header', path])).toBe(`${headerOf(path).trimEnd()}\n`);
  });

  it('joins those of several files to one object', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const names = Object.keys(TWO_SHARDS.shards);
    const headers = JSON.parse(await printed(['header', folder]));
    expect(headers).toEqual(
      Object.fromEntries(names.map((name) => [name, JSON.parse(headerOf(join(folder, name)))])),
    );
  });

  it('escapes what a terminal must not get, as JSON does', async () => {
    const path = writeTemporary(HOSTILE_ENTRIES, HOSTILE_METADATA);
    const raw = await printed(['header', path]);
    for (const [args, terminal] of [
      [['header', path], { columns: 80 }],
      [['header', path, '--json'], undefined],
    ] as const) {
      const text = await printed(args, terminal);
      expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
      expect(JSON.parse(text)).toEqual(JSON.parse(raw));
    }
  });

  it('is one line with --json', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const text = await printed(['header', folder, '--json']);
    expect(text.indexOf('\n')).toBe(text.length - 1);
    expect(JSON.parse(text)).toEqual(JSON.parse(await printed(['header', folder])));
  });

  it('is no for what has no header', async () => {
    const path = join(root, 'test/fixtures/torch/zip-state-dict.pt');
    const { code, stderr } = await call(['header', path]);
    expect(code).toBe(1);
    expect(stderr).toContain('found a torch file');
    expect((await call(['header', temporaryPath('missing')])).code).toBe(1);
  });
});
