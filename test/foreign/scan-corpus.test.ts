/**
 * Both kinds of error of `scanPickle`, over honest files that torch, NumPy, pickle and safetensors wrote, and hostile
 * ones that run something in Python. `docs/internals/scan-corpus.md` has the numbers.
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../src/foreign/scan/scan-file.js';
import { judgeHonest, type Row, rowOf, wrong } from './corpus-rows.js';
import { hostileFiles } from './hostile-corpus.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-corpus-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The page's names of the kinds. */
const LABELS: Readonly<Record<string, string>> = {
  torch: '`torch.save`, archives of protocols 2 to 5, with Lightning, optimizers, RNG states',
  legacy: 'the same as the PyTorch stream before 1.6',
  pickle: 'plain pickles of protocols 0 to 5, of both picklers',
  'needs-code': 'modules, optimizers, arrays and types of Python in pickles: `needs-code`',
  npy: '`.npy` of 24 kinds of items, records, versions 1 to 3',
  npz: '`.npz`, stored and compressed',
  safetensors: 'safetensors',
  gguf: 'GGUF',
  text: 'JSON, HTML and other text',
};

const HOSTILE_LABELS: Readonly<Record<string, string>> = {
  pickle: 'ways to name and call a function in a pickle',
  checkpoint: 'the same within a checkpoint, stored and deflated',
  gadget: 'functions of Python, torch, NumPy and pandas that run code or write files',
  number: 'memo numbers as Python reads them',
  header: 'dtypes and headers as NumPy reads them',
  stream: 'streams: each of five pickles, a sixth, a tar header',
  entry: 'entries of an archive under other names',
  archive: 'archives appended to other formats, and compressed',
  code: 'torch.package, MAR, Keras',
};

/** The corpus that was recorded: names and bytes. */
function writeRecorded(): string {
  const path = join(folder, 'recorded');
  mkdirSync(path);
  const url = new URL('../fixtures/scan/honest.json.gz', import.meta.url);
  const files = JSON.parse(gunzipSync(readFileSync(url)).toString()) as Record<string, string>;
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(path, name), Buffer.from(bytes, 'base64'));
  }
  return path;
}

function table(
  heads: readonly string[],
  labels: Readonly<Record<string, string>>,
  rows: Map<string, Row>,
): string {
  let sum = 0;
  let wrongs = 0;
  const lines = Object.entries(labels).map(([kind, label]) => {
    const { files, wrong } = rowOf(rows, kind);
    sum += files;
    wrongs += wrong.length;
    return `| ${label} | ${files} | ${wrong.length} |`;
  });
  return [
    `| ${heads.join(' | ')} |`,
    '|---|---|---|',
    ...lines,
    `| all | ${sum} | ${wrongs} |`,
  ].join('\n');
}

const page = readFileSync(new URL('../../docs/internals/scan-corpus.md', import.meta.url), 'utf8');

describe('the corpus', () => {
  const honest = new Map<string, Row>();
  const hostile = new Map<string, Row>();

  it('of honest files raises no alarm', () => {
    judgeHonest(writeRecorded(), honest);
    expect(wrong(honest)).toEqual([]);
  });

  it('of hostile files has none without an alarm, or with advice to load it', () => {
    for (const [index, { kind, name, bytes }] of hostileFiles().entries()) {
      const path = join(folder, `${index}`);
      writeFileSync(path, bytes);
      const { verdict, advice } = scanPickle(path);
      const row = rowOf(hostile, kind);
      row.files++;
      const isAlarm = verdict === 'suspicious' || verdict === 'malformed';
      if (!isAlarm || advice !== undefined) row.wrong.push(`${name}: ${verdict}; ${advice}`);
    }
    expect(wrong(hostile)).toEqual([]);
  });

  it('has the numbers that the page has', () => {
    const tables = [
      table(['honest files', 'number', 'false alarms'], LABELS, honest),
      table(['hostile files', 'number', 'missed'], HOSTILE_LABELS, hostile),
    ];
    expect(tables.filter((expected) => !page.includes(expected))).toEqual([]);
    expect([...honest.keys()].sort()).toEqual(Object.keys(LABELS).sort());
    expect([...hostile.keys()]).toEqual(Object.keys(HOSTILE_LABELS));
    for (const rows of [honest, hostile]) {
      const count = Array.from(rows.values(), ({ files }) => files).reduce((sum, n) => sum + n, 0);
      expect(count).toBeGreaterThan(200);
    }
  });
});
