/** The files of the corpus in Python: it writes honest ones again, and hostile ones run their payloads. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { judgeHonest, type Row, wrong } from './corpus-rows.js';
import { hostileFiles } from './hostile-corpus.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-corpus-'));
afterAll(() => rmSync(folder, { recursive: true }));

const python = findPython('torch', 'numpy', 'safetensors');
const HONEST_SCRIPT = fileURLToPath(new URL('honest_corpus.py', import.meta.url));
const HOSTILE_SCRIPT = fileURLToPath(new URL('run_hostile.py', import.meta.url));

describe.skipIf(isSkipped(python))(titleWith(python, 'with Python'), () => {
  it('what it writes now raises no alarm', () => {
    const path = join(folder, 'fresh');
    mkdirSync(path);
    runPython(python, [HONEST_SCRIPT, path]);
    const rows = new Map<string, Row>();
    judgeHonest(path, rows);
    expect(wrong(rows)).toEqual([]);
  });

  it('every hostile file runs its payload', () => {
    const path = join(folder, 'hostile');
    mkdirSync(path);
    const questions = hostileFiles().flatMap(({ reader, bytes }, index) => {
      writeFileSync(join(path, `${index}`), bytes);
      return reader === undefined ? [] : [[reader, `${index}`]];
    });
    const { status, stdout, stderr } = spawnSync(python.executable ?? '', [HOSTILE_SCRIPT, path], {
      input: JSON.stringify(questions),
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
    // Some payloads print, too.
    const last = stdout.trim().split('\n').at(-1) ?? '';
    const idle = (JSON.parse(last) as string[]).map((index) => {
      const { kind, name, reader } = hostileFiles()[Number(index)] ?? {};
      return `${kind}: ${name} (${reader})`;
    });
    expect(idle).toEqual([]);
  });
});
