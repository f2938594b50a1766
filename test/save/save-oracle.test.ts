/** Files of `saveFile`, read by the Python reference through torch and NumPy. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  DTYPES,
  type Dtype,
  type NewTensor,
  safeOpen,
  saveFile,
  saveFileSync,
} from '../../src/index.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const python = findPython('torch', 'safetensors', 'numpy');

/** Those that both libraries have. */
const DTYPES_OF_BOTH: readonly Dtype[] = [
  'F64',
  'F32',
  'F16',
  'I64',
  'I32',
  'I16',
  'I8',
  'U8',
  'BOOL',
  'C64',
];

const SHAPES: readonly (readonly number[])[] = [
  [],
  [0],
  [3, 0, 2],
  [1],
  [7],
  [2, 3, 4],
  [300, 1000],
];

/** Loads by each library, and writes again what it has loaded. */
const SCRIPT = `
import hashlib, json, pathlib, sys
import safetensors.numpy, safetensors.torch
report = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.safetensors')):
    raw = path.read_bytes()
    by_numpy = safetensors.numpy.load_file(path)
    by_torch = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework='pt') as file:
        metadata = file.metadata()
    report[path.name] = {
        'numpy': {n: [list(a.shape), hashlib.sha256(a.tobytes()).hexdigest()] for n, a in by_numpy.items()},
        'torch': {n: [list(t.shape), hashlib.sha256(t.numpy().tobytes()).hexdigest()] for n, t in by_torch.items()},
        'again': safetensors.torch.save(by_torch, metadata) == raw and safetensors.numpy.save(by_numpy, metadata) == raw,
        'metadata': metadata,
    }
print(json.dumps(report))
`;

type Facts = Readonly<Record<string, [shape: number[], sha256: string]>>;

interface Report {
  readonly numpy: Facts;
  readonly torch: Facts;
  readonly again: boolean;
  readonly metadata: Readonly<Record<string, string>> | null;
}

if (isSkipped(python)) process.stderr.write(`save-oracle: skipped: ${python.missing}\n`);

describe.skipIf(isSkipped(python))(titleWith(python, 'saved files'), () => {
  const tensors: [string, NewTensor<Uint8Array>][] = DTYPES_OF_BOTH.flatMap((dtype) =>
    SHAPES.map((shape): [string, NewTensor<Uint8Array>] => {
      const length = shape.reduce((a, b) => a * b, DTYPES[dtype].bits / 8);
      const modulus = dtype === 'BOOL' ? 2 : 251;
      const data = Uint8Array.from({ length }, (_, i) => (i * 31 + 7) % modulus);
      return [`${dtype} ${shape.join('×')}`, { dtype, shape, data }];
    }),
  );
  const metadata = { format: 'pt' };
  const ways = ['memory', 'sync', 'stream', 'mapped', 'copied', 'read'];
  let folder: string;
  let report: Record<string, Report>;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
    const options = { metadata, durable: false };
    const path = (way: string): string => join(folder, `${way}.safetensors`);
    await saveFile(path('memory'), tensors, options);
    saveFileSync(path('sync'), tensors, options);
    const streamed = tensors.map(([name, tensor]) => {
      const pieces = [tensor.data.subarray(0, 5), tensor.data.subarray(5)];
      return [name, { ...tensor, data: () => pieces }] as const;
    });
    await saveFile(path('stream'), streamed, options);
    for (const way of ['mapped', 'copied', 'read']) {
      const file = safeOpen(path('memory'), { storage: way === 'read' ? 'read' : 'mmap' });
      if (way === 'mapped') for (const [, tensor] of file) tensor.data;
      await saveFile(path(way), file, options);
      file.close();
    }
    report = JSON.parse(runPython(python, ['-c', SCRIPT, folder]));
  });
  afterAll(() => {
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  it('are read as they were given, and are what the reference writes from that', () => {
    const facts = Object.fromEntries(
      tensors.map(([name, { shape, data }]) => [
        name,
        [[...shape], createHash('sha256').update(data).digest('hex')],
      ]),
    );
    expect(Object.keys(report).sort()).toEqual(ways.map((way) => `${way}.safetensors`).sort());
    for (const [name, found] of Object.entries(report)) {
      expect(found, name).toEqual({ numpy: facts, torch: facts, again: true, metadata });
    }
  });

  it('are the same whatever the tensors come from', () => {
    const [first, ...others] = ways.map((way) => readFileSync(join(folder, `${way}.safetensors`)));
    for (const other of others) expect(other.equals(first as Buffer)).toBe(true);
  });
});
