/**
 * Files of `serialize` and `saveFile`: the Python reference reads them and writes the same bytes
 * again. `serialize` gets new random tensors at every run; SAFETENSORS_SEED repeats one.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewTensorOf } from '../../../src/write/input/tensor-input.js';
import { anyText } from '../../support/any-text.js';
import { DTYPES, type Dtype, safeOpen, saveFile, serialize } from '../../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { arbitraryTensor, arbitraryTensors } from './arbitrary-tensors.js';

type Metadata = Readonly<Record<string, string>> | null;

const python = findPython('torch', 'safetensors', 'numpy');
if (isSkipped(python)) process.stderr.write(`write/save/oracle: skipped: ${python.missing}\n`);

let root: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
});
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
});

function makeFolder(name: string): string {
  mkdirSync(join(root, name));
  return join(root, name);
}

function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

describe.skipIf(isSkipped(python))(titleWith(python, 'files of serialize'), () => {
  const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

  /** Without those that the reference's own tables for torch lack. */
  const torchDtypes = (Object.keys(DTYPES) as Dtype[]).filter(
    (dtype) => !['F4', 'F6_E2M3', 'F6_E3M2', 'F8_E8M0'].includes(dtype),
  );

  /** Reads every file by the Rust core, and rewrites through torch those whose names say so. */
  const script = `
import hashlib, json, pathlib, sys
import safetensors, safetensors.torch
report = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.safetensors')):
    raw = path.read_bytes()
    tensors = {
        name: [t['dtype'], list(t['shape']), hashlib.sha256(bytes(t['data'])).hexdigest()]
        for name, t in safetensors.deserialize(raw)
    }
    with safetensors.safe_open(path, framework='pt') as file:
        metadata = file.metadata()
    same = None
    if path.name.startswith('torch'):
        same = safetensors.torch.save(safetensors.torch.load(raw), metadata) == raw
    report[path.name] = {'tensors': tensors, 'metadata': metadata, 'same': same}
print(json.dumps(report))
`;

  interface Report {
    readonly tensors: Readonly<Record<string, [dtype: string, shape: number[], sha256: string]>>;
    readonly metadata: Metadata;
    readonly same: boolean | null;
  }

  const text = anyText({ maxLength: 12 });

  function tensorsOf(
    dtypes: readonly Dtype[],
  ): fc.Arbitrary<[string, NewTensorOf<Dtype, Uint8Array>][]> {
    const tensor = arbitraryTensor(dtypes).map((each) =>
      each.dtype === 'BOOL' ? { ...each, data: each.data.map((byte) => byte & 1) } : each,
    );
    return arbitraryTensors(24, tensor, text);
  }

  /** At most one key, since the reference writes several in any order. */
  const metadata = fc.option(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 1 }));

  let report: Record<string, Report>;
  const expected: Record<string, Omit<Report, 'same'>> = {};

  beforeAll(() => {
    process.stderr.write(`write/save/oracle: SAFETENSORS_SEED=${seed}\n`);
    const folder = makeFolder('serialize');
    for (const [kind, dtypes] of [
      ['all', Object.keys(DTYPES) as Dtype[]],
      ['torch', torchDtypes],
    ] as const) {
      const samples = fc.sample(fc.tuple(tensorsOf(dtypes), metadata), { seed, numRuns: 60 });
      for (const [i, [tensors, entries]] of samples.entries()) {
        const name = `${kind}-${i}.safetensors`;
        // The reference reads any padding, and writes one kind.
        const alignment = kind === 'all' ? 2 ** (i % 8) : undefined;
        writeFileSync(join(folder, name), serialize(tensors, { metadata: entries, alignment }));
        expected[name] = {
          metadata: entries === null ? null : Object.fromEntries(entries),
          tensors: Object.fromEntries(
            tensors.map(([key, { dtype, shape, data }]) => [
              key,
              [dtype, [...shape], sha256(data)],
            ]),
          ),
        };
      }
    }
    report = JSON.parse(runPython(python, ['-c', script, folder]));
  });

  it('are read by the reference as they were given', () => {
    expect(Object.keys(report)).toHaveLength(120);
    for (const [name, { tensors, metadata: read }] of Object.entries(report)) {
      expect({ tensors, metadata: read }, `${name}, seed ${seed}`).toEqual(expected[name]);
    }
  });

  it('are what the reference writes from the same tensors', () => {
    const rewritten = Object.entries(report).filter(([name]) => name.startsWith('torch'));
    expect(rewritten).toHaveLength(60);
    const others = rewritten.filter(([, { same }]) => same !== true).map(([name]) => name);
    expect(others, `seed ${seed}`).toEqual([]);
  });
});

describe.skipIf(isSkipped(python))(titleWith(python, 'files of saveFile'), () => {
  /** Dtypes that both libraries have. */
  const dtypes = ['F64', 'F32', 'F16', 'I64', 'I32', 'I16', 'I8', 'U8', 'BOOL', 'C64'] as const;

  const shapes = [[], [0], [3, 0, 2], [1], [7], [2, 3, 4], [300, 1000]] as const;

  /** Loads by each library, and writes again what it has loaded. */
  const script = `
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
    readonly metadata: Metadata;
  }

  const tensors = dtypes.flatMap((dtype) =>
    shapes.map((shape): [string, NewTensorOf<Dtype, Uint8Array>] => {
      const length = shape.reduce((a: number, b) => a * b, DTYPES[dtype].bits / 8);
      const modulus = dtype === 'BOOL' ? 2 : 251;
      const data = Uint8Array.from({ length }, (_, i) => (i * 31 + 7) % modulus);
      return [`${dtype} ${shape.join('×')}`, { dtype, shape, data }];
    }),
  );
  const metadata = { format: 'pt' };
  const ways = ['memory', 'stream', 'mapped', 'copied', 'read'];
  let report: Record<string, Report>;
  let path: (way: string) => string;

  beforeAll(async () => {
    const folder = makeFolder('saveFile');
    const options = { metadata, durable: false };
    path = (way) => join(folder, `${way}.safetensors`);
    await saveFile(path('memory'), tensors, options);
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
    report = JSON.parse(runPython(python, ['-c', script, folder]));
  });

  it('are read as they were given, and are what the reference writes from that', () => {
    const facts = Object.fromEntries(
      tensors.map(([name, { shape, data }]) => [name, [[...shape], sha256(data)]]),
    );
    expect(Object.keys(report).sort()).toEqual(ways.map((way) => `${way}.safetensors`).sort());
    for (const [name, found] of Object.entries(report)) {
      expect(found, name).toEqual({ numpy: facts, torch: facts, again: true, metadata });
    }
  });

  it('are the same wherever the tensors come from', () => {
    const [first, ...others] = ways.map((way) => readFileSync(path(way)));
    for (const other of others) expect(other.equals(first as Buffer)).toBe(true);
  });
});
