/**
 * Files of `serialize` with new random tensors at every run: the Python reference must read them, and
 * write the same bytes again. SAFETENSORS_SEED repeats a run.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DTYPES, type Dtype, type NewTensor, serialize } from '../../src/index.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const python = findPython('torch', 'safetensors', 'numpy');
const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** Without those that the reference's own tables for torch lack. */
const TORCH_DTYPES = (Object.keys(DTYPES) as Dtype[]).filter(
  (dtype) => !['F4', 'F6_E2M3', 'F6_E3M2', 'F8_E8M0'].includes(dtype),
);

/** Reads every file by the Rust core, and rewrites through torch those whose names say so. */
const SCRIPT = `
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
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly same: boolean | null;
}

const text = fc.string({ unit: 'binary', maxLength: 12 });

function tensorsOf(dtypes: readonly Dtype[]): fc.Arbitrary<[string, NewTensor<Uint8Array>][]> {
  const tensor = fc
    .tuple(fc.constantFrom(...dtypes), fc.array(fc.nat(5), { maxLength: 4 }))
    .chain(([dtype, dimensions]) => {
      const { bits } = DTYPES[dtype];
      const shape = bits < 8 ? [...dimensions, 4] : dimensions;
      const length = (shape.reduce((a, b) => a * b, 1) * bits) / 8;
      const max = dtype === 'BOOL' ? 1 : 255;
      return fc
        .uint8Array({ minLength: length, maxLength: length, max })
        .map((data) => ({ dtype, shape, data }));
    });
  const name = text.filter((value) => value !== '__metadata__');
  return fc.uniqueArray(fc.tuple(name, tensor), { selector: ([value]) => value, maxLength: 24 });
}

/** One key at most, since the reference writes several in any order. */
const metadata = fc.option(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 1 }));

if (isSkipped(python)) process.stderr.write(`serialize-oracle: skipped: ${python.missing}\n`);

describe.skipIf(isSkipped(python))(titleWith(python, `serialized files, seed ${seed}`), () => {
  let folder: string;
  let report: Record<string, Report>;
  const expected: Record<string, Omit<Report, 'same'>> = {};

  beforeAll(() => {
    process.stderr.write(`serialize-oracle: SAFETENSORS_SEED=${seed}\n`);
    folder = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
    for (const [kind, dtypes] of [
      ['all', Object.keys(DTYPES) as Dtype[]],
      ['torch', TORCH_DTYPES],
    ] as const) {
      const samples = fc.sample(fc.tuple(tensorsOf(dtypes), metadata), { seed, numRuns: 60 });
      for (const [i, [tensors, entries]] of samples.entries()) {
        const name = `${kind}-${i}.safetensors`;
        // What the padding is, the reference does not ask.
        const alignment = kind === 'all' ? 2 ** (i % 8) : undefined;
        writeFileSync(join(folder, name), serialize(tensors, { metadata: entries, alignment }));
        expected[name] = {
          metadata: entries === null ? null : Object.fromEntries(entries),
          tensors: Object.fromEntries(
            tensors.map(([key, { dtype, shape, data }]) => [
              key,
              [dtype, [...shape], createHash('sha256').update(data).digest('hex')],
            ]),
          ),
        };
      }
    }
    report = JSON.parse(runPython(python, ['-c', SCRIPT, folder]));
  });
  afterAll(() => {
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  it('are read by the reference as they were given', () => {
    expect(Object.keys(report)).toHaveLength(120);
    for (const [name, { tensors, metadata: read }] of Object.entries(report)) {
      expect({ tensors, metadata: read }, name).toEqual(expected[name]);
    }
  });

  it('are what the reference writes from the same tensors', () => {
    const rewritten = Object.entries(report).filter(([name]) => name.startsWith('torch'));
    expect(rewritten).toHaveLength(60);
    expect(rewritten.filter(([, { same }]) => same !== true).map(([name]) => name)).toEqual([]);
  });
});
