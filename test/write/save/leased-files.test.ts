/** Saves of tensors from files: changes in memory, and files that change meanwhile. */

import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { NewTensorOf } from '../../../src/write/input/tensor-input.js';
import { memoryEntries } from '../../../src/write/input/tensor-input.js';
import { LeasedFiles } from '../../../src/write/save/leased-files.js';
import {
  type Checkpoint,
  type Dtype,
  FileChangedError,
  type NewTensor,
  parse,
  safeOpen,
  saveFile,
  serialize,
  type Tensor,
  type TensorStream,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { measureInChild } from '../../support/run-child.js';
import { writeTensors } from '../../support/write-tensors.js';

const COUNT = 20_000;
const values = Float32Array.from({ length: COUNT }, (_, i) => i);
const tensors = {
  x: { dtype: 'F32', shape: [COUNT], data: values },
  y: { dtype: 'F32', shape: [2, COUNT / 2], data: values },
} as const;

let source: string;
let target: string;

beforeEach(() => {
  mkdirSync(temporaryPath('source'));
  mkdirSync(temporaryPath('target'));
  source = temporaryPath('source/model.safetensors');
  target = temporaryPath('target/model.safetensors');
  writeTensors(source, tensors);
});

/** A tensor that is sorted before all others, and runs the action when its turn has come. */
function meanwhile(action: () => unknown): { first: NewTensorOf<Dtype, TensorStream> } {
  const data = (): Uint8Array => {
    action();
    return new Uint8Array(8);
  };
  return { first: { dtype: 'I64', shape: [1], data } };
}

describe.each(['mmap', 'read'] as const)('what was changed in memory is saved (%s)', (storage) => {
  /** Each writes a byte pattern to the last element, and names the part that reaches the file. */
  const ways: [string, (x: Tensor, earlier: Tensor) => void][] = [
    ['data', (x) => (x.data as Float32Array).set([-1], COUNT - 1)],
    ['bytes', (x) => x.bytes.set(new Uint8Array(new Float32Array([-1]).buffer), 4 * COUNT - 4)],
    ['buffer', (x) => new Float32Array(x.buffer, x.byteOffset, COUNT).set([-1], COUNT - 1)],
    ['view', (x) => x.view(Uint32Array).set([0xbf800000], COUNT - 1)],
    ['a tensor taken earlier', (_, earlier) => (earlier.data as Float32Array).set([-1], COUNT - 1)],
  ];
  // There, reading a part of an unused tensor makes a separate copy.
  const mapped: typeof ways = [
    ['a slice', (x) => (x.slice([COUNT - 2, null]).data as Float32Array).set([-1], 1)],
    [
      'a slice of a slice',
      (x) => x.slice([5, null]).slice([-1, null]).view(Uint32Array).fill(0xbf800000),
    ],
    [
      'chunks',
      (x) => {
        for (const chunk of x.chunks({ maxByteLength: 40_000 }))
          chunk.set([0, 0, 0x80, 0xbf], chunk.length - 4);
      },
    ],
  ];

  test.each(storage === 'mmap' ? [...ways, ...mapped] : ways)('by %s', async (_, change) => {
    const file = safeOpen(source, { storage });
    const earlier = file.getTensor('x');
    const x = file.getTensor('x');
    change(x, earlier);
    const before = readFileSync(source);
    await saveFile(target, file, { durable: false });
    const saved = safeOpen(target);
    const found = Array.from(saved.getTensor('x').data as Float32Array);
    expect(found.at(-1)).toBe(-1);
    expect(found).toEqual(Array.from(x.data as Float32Array));
    expect(saved.getTensor('y').data).toEqual(values);
    saved.close();
    // Neither did a write reach the file.
    expect(readFileSync(source).equals(before)).toBe(true);
    file.close();
  });

  test('a slice of a tensor is saved from the file, and from memory', async () => {
    const file = safeOpen(source, { storage });
    const row = file.getTensor('y').slice(1);
    const part = row.slice([10, 20]);
    const first = serialize({ row, part });
    row.data;
    for (const bytes of [first, serialize({ row, part })]) {
      const saved = parse(bytes);
      expect(saved.getTensor('row').data).toEqual(values.slice(COUNT / 2));
      expect(saved.getTensor('part').data).toEqual(values.slice(COUNT / 2 + 10, COUNT / 2 + 20));
    }
    file.close();
  });

  test('a slice is saved with its own bytes', async () => {
    const file = safeOpen(source, { storage });
    const rows = file.getSlice('y', [1, 2]);
    const columns = file.getSlice('y', null, [0, 3]);
    await saveFile(target, { rows, columns }, { durable: false });
    (rows.data as Float32Array).set([5], 0);
    await saveFile(`${target}.2`, { rows }, { durable: false });
    const half = COUNT / 2;
    expect(safeOpen(target).getTensor('rows').data).toEqual(values.slice(half));
    expect(safeOpen(target).getTensor('columns').data).toEqual(
      Float32Array.of(0, 1, 2, half, half + 1, half + 2),
    );
    expect(safeOpen(`${target}.2`).getTensor('rows').data).toEqual(
      Float32Array.of(5, ...values.slice(half + 1)),
    );
    file.close();
  });
});

describe('a source that changes', () => {
  async function fails(file: Checkpoint, action: () => unknown): Promise<void> {
    writeFileSync(target, 'old');
    await expect(
      saveFile(target, [...file, ...Object.entries(meanwhile(action))]),
    ).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: source,
    });
    expect(readFileSync(target, 'utf8')).toBe('old');
    expect(readdirSync(dirname(target))).toEqual(['model.safetensors']);
  }

  const changes: [string, () => void][] = [
    ['gets longer', () => appendFileSync(source, 'x')],
    ['is rewritten', () => writeFileSync(source, serialize(tensors))],
    ['gets another time', () => utimesSync(source, 1, 1)],
  ];
  const uses: [string, 'mmap' | 'read', boolean][] = [
    ['mapped and used', 'mmap', true],
    ['mapped and not used', 'mmap', false],
    ['read and not used', 'read', false],
  ];

  test.each(
    uses.flatMap(([use, ...how]) =>
      changes.map(([name, change]) => [use, name, ...how, change] as const),
    ),
  )('(%s) fails the save when it %s', async (_, __, storage, isUsed, change) => {
    const file = safeOpen(source, { storage });
    if (isUsed) for (const [, tensor] of file) tensor.data;
    await fails(file, change);
    file.close();
  });

  test('fails the save when it changed before', async () => {
    const file = safeOpen(source);
    const x = file.getTensor('x');
    appendFileSync(source, 'x');
    await expect(saveFile(target, { x })).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: source,
    });
    expect(readdirSync(dirname(target))).toEqual([]);
  });

  test('does not matter when its bytes were loaded before', async () => {
    const { x } = Object.fromEntries(await safeOpen(source).readTensors(['x']));
    await saveFile(target, { x: x as Tensor, ...meanwhile(() => appendFileSync(source, 'x')) });
    expect(safeOpen(target).getTensor('x').data).toEqual(values);
  });

  test.runIf(process.platform === 'linux')(
    'by being cut short ends no process, and fails the save',
    async () => {
      const ends = await measureInChild<Record<string, object>>(
        'write/save/children/save-truncated.mjs',
        [dirname(dirname(source))],
      );
      expect(Object.keys(ends)).toHaveLength(10);
      for (const [name, end] of Object.entries(ends)) {
        expect(end, name).toMatchObject({
          code: 'SAFETENSORS_FILE_CHANGED',
          path: 'source',
          files: ['source', 'target'],
          old: 'old',
        });
      }
    },
  );
});

describe('memory that is taken away meanwhile', () => {
  test('close() takes nothing away', async () => {
    const file = safeOpen(source);
    const used = file.getTensor('x');
    used.data;
    const unused = file.getTensor('y');
    await saveFile(target, { used, unused, ...meanwhile(() => file.close()) });
    const saved = safeOpen(target);
    for (const name of ['used', 'unused']) expect(saved.getTensor(name).data).toEqual(values);
  });

  test('a detaching close fails the save of what was handed out', async () => {
    const file = safeOpen(source);
    const x = file.getTensor('x');
    x.data;
    const saving = saveFile(target, { x, ...meanwhile(() => file.close({ detach: true })) });
    await expect(saving).rejects.toMatchObject({ name: 'FileClosedError', path: source });
    expect(readdirSync(dirname(target))).toEqual([]);
  });

  test('so does a transfer, even when the bytes were written by then', async () => {
    const data = new BigInt64Array(12);
    const x = { dtype: 'I64', shape: [12], data } as const;
    // Sorted after it.
    const last: NewTensorOf<Dtype, TensorStream> = {
      dtype: 'U8',
      shape: [1],
      data: () => {
        structuredClone(data.buffer, { transfer: [data.buffer] });
        return new Uint8Array(1);
      },
    };
    await expect(saveFile(target, { x, last })).rejects.toMatchObject({
      name: 'InvalidTensorError',
      tensor: 'x',
    });
    expect(readdirSync(dirname(target))).toEqual([]);
  });
});

describe('an error of writing', () => {
  const failed = (): Error => Object.assign(new Error('bad address'), { code: 'EFAULT' });

  function used(path: string): [string, Tensor][] {
    const file = safeOpen(path);
    onTestFinished(() => file.close());
    return Array.from(file, ([name, tensor]) => {
      tensor.data;
      return [`${path} ${name}`, tensor];
    });
  }

  function borrowed(tensors: [string, Tensor | NewTensor<Dtype, never>][]): LeasedFiles {
    const sources = new LeasedFiles(memoryEntries(tensors));
    onTestFinished(() => sources.end());
    return sources;
  }

  test('other than EFAULT is what it is', () => {
    const error = new Error('else');
    expect(borrowed(used(source)).explain(error)).toBe(error);
  });

  test('is explained by what has become of the file', () => {
    const sources = borrowed(used(source));
    appendFileSync(source, 'x');
    expect(sources.explain(failed())).toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: source,
      message: expect.stringContaining('the file changed while it was read'),
    });
  });

  test('is memory that is gone, whatever the file looks like, and names the only file', () => {
    const other = `${source}.2`;
    writeTensors(other, tensors);
    const own = { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } as const;
    const one = [...used(source), ['own', own]] as [string, Tensor][];
    const ways: [[string, Tensor][], string | undefined][] = [
      [one, source],
      [[...one, ...used(other)], undefined],
    ];
    for (const [given, path] of ways) {
      const cause = failed();
      const found = borrowed(given).explain(cause) as FileChangedError;
      expect(found).toBeInstanceOf(FileChangedError);
      expect(found.message).toContain('the file was truncated');
      expect(found.path).toBe(path);
      expect(found.cause).toBe(cause);
    }
  });
});

test('a descriptor whose file cannot be asked is given back', () => {
  let given = 0;
  const lease = { fd: 2 ** 20, release: () => given++ };
  const storage = {
    path: source,
    canLease: true,
    verify: () => {},
    acquireDescriptor: () => lease,
  };
  const payload = { kind: 'file', position: 0, storage: storage as never } as const;
  expect(() => new LeasedFiles([{ payload }])).toThrow(
    expect.objectContaining({ code: 'EBADF', path: source }),
  );
  expect(given).toBe(1);
});

test.runIf(process.platform === 'linux')(
  'descriptors are given back when a later file has changed',
  () => {
    const other = `${source}.2`;
    writeTensors(other, tensors);
    // Keeps both files open: the garbage collector closes a dropped file at any time.
    using one = safeOpen(source);
    using two = safeOpen(other);
    const [x, y] = [one.getTensor('x'), two.getTensor('y')];
    appendFileSync(other, 'x');
    const before = openDescriptors();
    expect(before).toHaveLength(2);
    expect(() => new LeasedFiles(memoryEntries({ x, y }))).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED', path: other }),
    );
    expect(openDescriptors()).toEqual(before);
  },
);

test.runIf(process.platform === 'linux')(
  'descriptors are acquired once per file, and released',
  () => {
    using file = safeOpen(source);
    expect(openDescriptors()).toHaveLength(1);
    const sources = new LeasedFiles(memoryEntries(file));
    expect(openDescriptors()).toHaveLength(2);
    sources.verify();
    sources.end();
    expect(openDescriptors()).toHaveLength(1);
  },
);
