/** Ranges of several files in one answer of the server. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PageServer } from '../../../src/cli/serve/server.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { ask, PAGE } from './ask.js';

const NAMES = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
const [A, B] = NAMES.map((name) => `source/0/${name}`) as [string, string];

let server: PageServer;
let parent: string;
let folder: string;

beforeAll(async () => {
  parent = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  folder = writeCheckpoint(TWO_SHARDS, join(parent, 'model'));
  const { sources } = await servedSources(folder, {}, new AbortController().signal);
  server = await PageServer.start({ page: PAGE, sources }, 0);
});

afterAll(async () => {
  await server.close();
  rmSync(parent, { recursive: true });
});

/** The lines and the bytes of an answer. */
function partsIn(body: Buffer): { line: Record<string, unknown>; bytes: Buffer }[] {
  const parts: { line: Record<string, unknown>; bytes: Buffer }[] = [];
  for (let at = 0; at < body.length; ) {
    const lineEnd = body.indexOf('\n', at);
    const line = JSON.parse(body.toString('utf8', at, lineEnd));
    at = lineEnd + 1;
    const length = line.status === 206 ? line.end - line.begin : 0;
    parts.push({ line, bytes: body.subarray(at, at + length) });
    at += length;
  }
  return parts;
}

describe('ranges of several files', () => {
  it('arrive in their order, each with what its own answer would have', async () => {
    const [a, b] = NAMES.map((name) => readFileSync(join(folder, name))) as [Buffer, Buffer];
    const { status, headers, body } = await ask(server, `/ranges?${A}:4-7+0-1,${B}:0-99999`);
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/octet-stream');
    const parts = partsIn(body);
    expect(parts.map(({ bytes }) => bytes)).toEqual([a.subarray(4, 8), a.subarray(0, 2), b]);
    const whole = await ask(server, `/${A}`);
    expect(parts[0]?.line).toEqual({
      ...{ status: 206, tag: whole.headers.etag, begin: 4, end: 8, byteLength: a.length },
    });
    expect(parts[2]?.line).toMatchObject({ begin: 0, end: b.length, byteLength: b.length });
  });

  it('beyond the end have the length of the file, and no bytes', async () => {
    const { length } = readFileSync(join(folder, NAMES[0]));
    const { body } = await ask(server, `/ranges?${A}:${length}-${length + 9},${A}:0-0`);
    const [beyond, first] = partsIn(body);
    expect(beyond?.line).toMatchObject({ status: 416, byteLength: length });
    expect(first?.bytes.length).toBe(1);
  });

  it('of a file that is gone are a status, and the others arrive', async () => {
    const gone = writeCheckpoint(TWO_SHARDS, join(parent, 'gone'));
    const { sources } = await servedSources(gone, {}, new AbortController().signal);
    const other = await PageServer.start({ page: PAGE, sources }, 0);
    rmSync(join(gone, NAMES[0]));
    const { body } = await ask(other, `/ranges?${A}:0-7,${B}:0-7`);
    await other.close();
    const [missing, there] = partsIn(body);
    expect(missing?.line).toEqual({ status: 404 });
    expect(there?.bytes).toEqual(readFileSync(join(gone, NAMES[1])).subarray(0, 8));
  });

  it('have the version of the file as it is now', async () => {
    const changing = writeCheckpoint(TWO_SHARDS, join(parent, 'changing'));
    const { sources } = await servedSources(changing, {}, new AbortController().signal);
    const other = await PageServer.start({ page: PAGE, sources }, 0);
    const tagNow = async () => partsIn((await ask(other, `/ranges?${A}:0-7`)).body)[0]?.line['tag'];
    const before = await tagNow();
    writeFileSync(join(changing, NAMES[0]), Buffer.alloc(99));
    expect(await tagNow()).not.toBe(before);
    await other.close();
  });

  it.each([
    ['', 'nothing'],
    [`${A}`, 'no range'],
    [`${A}:`, 'an empty range'],
    [`${A}:5-4`, 'a range that ends before it begins'],
    [`${A}:-5`, 'the end of a file'],
    [`${A}:5-`, 'an open range'],
    [`${A}:0-1,source/0/other.safetensors:0-1`, 'another name'],
    [`source/0/../0/${NAMES[0]}:0-1`, 'a path that leads elsewhere'],
    [`${A}:${Array(257).fill('0-0').join('+')}`, 'too many ranges'],
  ])('%s is refused: %s', async (query) => {
    const { status, body } = await ask(server, `/ranges?${query}`);
    expect([status, body.toString()]).toEqual([404, 'no such name or range\n']);
  });

  it('need the token', async () => {
    const headers = { 'x-safetensors-token': undefined };
    const { status } = await ask(server, `/ranges?${A}:0-7`, { headers });
    expect(status).toBe(403);
  });

  it('have no body in the answer to HEAD', async () => {
    const { status, body } = await ask(server, `/ranges?${A}:0-7`, { method: 'HEAD' });
    expect([status, body.length]).toEqual([200, 0]);
  });
});
