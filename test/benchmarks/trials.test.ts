/** The trials as data, and what they share: drivers, fresh processes, readers, writers. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  type MockInstance,
  test,
  vi,
} from 'vitest';
import { checkHeader } from '../../benchmarks/children/check-header.js';
import type { ReaderResult } from '../../benchmarks/children/tensor-clock.js';
import {
  COLD_READERS,
  type Driver,
  MEMORY_READERS,
  NODE_START,
  ONE_TENSOR_READERS,
  OUR_IMPORT,
  OUR_START,
  OURS,
  PLAIN_MAPPING,
  PYTHON_STARTERS,
  READERS,
  TORCH_LOAD,
} from '../../benchmarks/drivers.js';
import type { Equipment } from '../../benchmarks/equipment.js';
import { writeExpertCheckpoint } from '../../benchmarks/expert-checkpoint.js';
import { commandOf, measure, medianOf, reasonsOf } from '../../benchmarks/measure.js';
import { manySmallTensors } from '../../benchmarks/model.js';
import {
  medianGrowth,
  refuseOtherBytes,
  selectAll,
  selectMiddle,
} from '../../benchmarks/readers.js';
import { NotMeasuredError, runChild, startChild } from '../../benchmarks/run-child.js';
import { haveSameBytes, runWriter, WRITERS } from '../../benchmarks/trials/save.js';
import { encodeHeader, writeModel } from '../../benchmarks/write-model.js';
import { readUsualHeader } from '../../src/format/usual-header.js';
import { openCheckpoint, parse, safeOpen } from '../../src/index.js';
import { inOneGo } from '../../src/json/slices.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-trials-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const { signal } = new AbortController();

const equipment: Equipment = {
  programs: '/programs',
  python: { file: 'python', version: '3', packages: { torch: '2' } },
  npmPackages: {},
  fileOf: async (format) => {
    if (format === 'pickle') throw new NotMeasuredError('no copy');
    return `model.${format}`;
  },
};

/** A program in JavaScript. */
function script(text: string): { file: string; args: string[] } {
  return { file: process.execPath, args: ['--input-type=module', '-e', text] };
}

test.each([
  ['readers', READERS],
  ['cold readers', COLD_READERS],
  ['readers whose memory is shown', MEMORY_READERS],
  ['readers of one tensor', ONE_TENSOR_READERS],
  ['starters', [NODE_START, OUR_START, OUR_IMPORT, ...PYTHON_STARTERS]],
  ['writers', WRITERS],
])('no two %s have the same name', (_, drivers: readonly Driver[]) => {
  expect(new Set(drivers.map(({ name }) => name)).size).toBe(drivers.length);
});

describe('a driver', () => {
  test('runs a script with its method', () => {
    expect(commandOf(OURS, equipment)).toEqual({
      file: process.execPath,
      args: [expect.stringMatching(/children.read\.js$/), 'mapped'],
    });
    expect(commandOf(PLAIN_MAPPING, equipment)).toEqual({
      file: join('/programs', 'read_limit'),
      args: ['mapping'],
    });
    expect(commandOf(TORCH_LOAD, equipment)).toEqual({
      file: 'python',
      args: [expect.stringMatching(/children.read\.py$/), 'torch'],
    });
  });

  test('that lacks something says what', () => {
    const without = (packages: Equipment['python']) =>
      expect(() => commandOf(TORCH_LOAD, { ...equipment, python: packages }));
    without({ file: 'python', version: '3', packages: {} }).toThrow('Python has no: torch');
    without('no Python').toThrow('no Python');
    const rival = READERS.find(({ name }) => name === '@riaskov/mmap-io') as Driver;
    expect(() => commandOf(rival, equipment)).toThrow(/not installed.*mmap-io/);
  });
});

describe('a measurement', () => {
  const [first, second, third] = [OURS, TORCH_LOAD, PLAIN_MAPPING].map((driver) => ({
    ...driver,
  })) as [Driver, Driver, Driver];

  /** Drivers are sorted by random numbers: these ascend, so the order is that of the list. */
  let random: MockInstance<() => number>;
  beforeEach(() => {
    let next = 0;
    random = vi.spyOn(Math, 'random').mockImplementation(() => ++next);
  });
  afterEach(() => random.mockRestore());

  test('runs the drivers of each round in an order of its own', async () => {
    const calls: string[] = [];
    const run = async ({ args }: { args: readonly string[] }): Promise<unknown> =>
      calls.push(args.at(-1) ?? '');
    random.mockReturnValueOnce(2).mockReturnValueOnce(1);
    await measure([first, second], { title: '', rounds: 2, run }, equipment, signal);
    const [a, b] = ['model.safetensors', 'model.torch'];
    expect(calls).toEqual([b, a, a, b]);
  });

  test('runs all drivers in every round, each with its file', async () => {
    const calls: string[] = [];
    const run = async ({ args }: { args: readonly string[] }): Promise<number> =>
      calls.push(args.slice(-2).join(' '));
    const plan = { title: '', args: ['more'], rounds: 3, run };
    const rows = await measure([first, second], plan, equipment, signal);
    const round = ['model.safetensors more', 'model.torch more'];
    expect(calls).toEqual([...round, ...round, ...round]);
    expect(rows.map(({ results }) => results)).toEqual([
      [1, 3, 5],
      [2, 4, 6],
    ]);
    expect(medianOf(rows, first, (result) => result * 10)).toBe(30);
    expect(medianOf(rows, third, (result) => result)).toBeNaN();
  });

  test('may have fewer rounds for some drivers', async () => {
    const calls: string[] = [];
    const run = async ({ args }: { args: readonly string[] }): Promise<number> =>
      calls.push(args.at(-1) ?? '');
    const rounds = (driver: Driver): number => (driver === first ? 3 : 1);
    const rows = await measure([first, second], { title: '', rounds, run }, equipment, signal);
    const [ours, theirs] = ['model.safetensors', 'model.torch'];
    expect(calls).toEqual([ours, theirs, ours, ours]);
    expect(rows.map(({ results }) => results)).toEqual([[1, 3, 4], [2]]);
  });

  test('takes a file of the trial in place of the copies', async () => {
    const run = async ({ args }: { args: readonly string[] }): Promise<string> => args.at(-1) ?? '';
    const plan = { title: '', path: 'own', rounds: 1, run };
    const [row] = await measure([{ ...second, format: 'pickle' }], plan, equipment, signal);
    expect(row?.results).toEqual(['own']);
  });

  test('has no results of a driver that failed once, and says why', async () => {
    let calls = 0;
    const run = async (): Promise<number> => {
      calls++;
      if (calls === 3) throw new NotMeasuredError('full');
      return calls;
    };
    const drivers = [first, { ...third, format: 'pickle' as const }, second];
    const rows = await measure(drivers, { title: '', rounds: 3, run }, equipment, signal);
    expect(rows.map(({ results }) => results)).toEqual([[], [], [2, 4, 5]]);
    expect(reasonsOf(rows)).toEqual([
      'safetensors-mmap was not measured: full',
      'limit: plain mapping, C was not measured: no copy',
    ]);
    expect(calls).toBe(5);
  });

  test('ends at any other error', async () => {
    const run = () => Promise.reject(new Error('a mistake'));
    const plan = { title: '', rounds: 1, run };
    await expect(measure([first], plan, equipment, signal)).rejects.toThrow('a mistake');
  });
});

describe('readers', () => {
  const memory = (anonymous: number) => ({ anonymous, fileBacked: 0, proportional: 0 });
  const result = (checksum: string, bytes = 8): ReaderResult => ({
    open: 0,
    firstTensor: 0,
    handedOut: 0,
    everyByte: 1,
    bytes,
    checksum,
    before: memory(5),
    after: memory(7),
  });
  const row = (driver: Driver, ...results: ReaderResult[]) => ({
    driver,
    results,
    reason: undefined,
  });

  test('that saw other bytes have a reason and no results', () => {
    const rows = refuseOtherBytes([
      row(PLAIN_MAPPING, result('aa')),
      row(OURS, result('aa'), result('aa')),
      row(TORCH_LOAD, result('aa'), result('bb')),
      row(READERS.at(-1) as Driver, result('aa', 9)),
    ]);
    expect(rows.map(({ results }) => results.length)).toEqual([1, 2, 0, 0]);
    expect(reasonsOf(rows)).toEqual([
      expect.stringMatching(/torch.load .*wrong bytes.*bb of 8 bytes instead of aa of 8 bytes/),
      expect.stringMatching(/aa of 9 bytes/),
    ]);
    expect(medianGrowth(rows, OURS, 'anonymous')).toBe(2);
    expect(medianGrowth(rows, TORCH_LOAD, 'anonymous')).toBeNaN();
  });

  test('fail when this package is the one that saw other bytes', () => {
    const rows = [row(PLAIN_MAPPING, result('aa')), row(OURS, result('aa'), result('bb'))];
    expect(() => refuseOtherBytes(rows)).toThrow('saw different bytes');
  });

  test.each([
    [[64, 16, 8, 32], { total: 120, index: 0, begin: 0, largest: 64 }],
    [[64, 48, 8, 16], { total: 136, index: 1, begin: 64, largest: 48 }],
  ])('of tensors of %j bytes read all, or the largest over the middle', async (sizes, expected) => {
    const path = join(folder, `${sizes.join('-')}.safetensors`);
    const tensors = sizes.map((byteLength, index) => {
      return { name: `${index}`, dtype: 'U8', shape: [byteLength], byteLength };
    });
    await writeModel(path, tensors, signal);
    using file = safeOpen(path);
    const { total, index, begin, largest } = expected;
    const start = file.byteLength - total;
    expect(selectAll(path)).toEqual(['all', `${start}`, `${total}`]);
    expect(selectMiddle(path)).toEqual([`${index}`, `${start + begin}`, `${largest}`]);
  });
});

describe('writers', () => {
  const hold = script('console.log(0); for await (const _ of process.stdin);');

  function writing(target: string, text: string): { file: string; args: string[] } {
    return script(`import fs from 'node:fs';
      console.log(0);
      for await (const _ of process.stdin);
      fs.writeFileSync(${JSON.stringify(target)}, '${text}');
      console.log(JSON.stringify({ elapsed: 5, extraMemory: 7 }));`);
  }

  test('give their last line, and what they wrote is removed', async () => {
    const [source, target] = [join(folder, 'source'), join(folder, 'target')];
    await writeFile(source, 'right');
    const written = runWriter(writing(target, 'right'), hold, source, target, signal);
    expect(await written).toEqual({ elapsed: 5, extraMemory: 7 });
    expect(existsSync(target)).toBe(false);
  });

  test('that fail, or write other bytes, are not measured', async () => {
    const [source, target] = [join(folder, 'source'), join(folder, 'target')];
    await writeFile(source, 'right');
    for (const [command, message] of [
      [writing(target, 'wrong'), 'wrote other bytes'],
      [writing(target, 'right and more'), 'wrote other bytes'],
      [script('throw new Error("full")'), 'Error: full'],
    ] as const) {
      const written = runWriter(command, hold, source, target, signal);
      await expect(written).rejects.toThrow(new NotMeasuredError(message));
      expect(existsSync(target)).toBe(false);
    }
  });

  test('are compared beyond the first block', async () => {
    const bytes = Buffer.alloc(5_000_000, 1);
    const path = join(folder, 'path');
    const same = join(folder, 'same');
    const other = join(folder, 'other');
    await writeFile(path, bytes);
    await writeFile(same, bytes);
    bytes[4_999_999] = 2;
    await writeFile(other, bytes);
    expect(await haveSameBytes(path, same)).toBe(true);
    expect(await haveSameBytes(path, other)).toBe(false);
  });
});

describe('headers of many tensors', () => {
  const tensors = manySmallTensors(25);
  const header = encodeHeader(tensors, {});
  const dataByteLength = 25 * 512;
  const text = header.toString('utf8', 8);

  test('are valid, and small enough for a million tensors', () => {
    const file = parse(Buffer.concat([header, Buffer.alloc(dataByteLength)]));
    expect(file.size).toBe(25);
    const indented = encodeHeader(tensors, {}, 1);
    expect(parse(Buffer.concat([indented, Buffer.alloc(dataByteLength)])).keys()).toEqual(
      file.keys(),
    );
    expect(inOneGo(readUsualHeader(header.subarray(8), dataByteLength))).not.toBe(null);
    expect(inOneGo(readUsualHeader(indented.subarray(8), dataByteLength))).toBe(null);
    const million = encodeHeader(manySmallTensors(1_000_000).slice(-1000), {}).length / 1000;
    expect(million).toBeLessThan(97);
  });

  test('are checked by the rival as they should be', () => {
    expect(checkHeader(text, dataByteLength).size).toBe(25);
    expect(() => checkHeader(text, dataByteLength + 1)).toThrow('another size');
    expect(() => checkHeader(text.replace('BF16', 'BF17'), dataByteLength)).toThrow();
    expect(() => checkHeader(text.replace('[16,16]', '[16,15]'), dataByteLength)).toThrow();
    expect(() => checkHeader(text.replace('[0,512]', '[512,1024]'), dataByteLength)).toThrow('gap');
    expect(() => checkHeader(text.replace('[16,16]', '[-16,-16]'), dataByteLength)).toThrow();
    expect(() => checkHeader(text.replace('[0,512]', '[0]'), dataByteLength)).toThrow();
    const later = text.replace('[12288,12800]', '[12800,13312]');
    expect(() => checkHeader(later, dataByteLength + 512)).toThrow('gap');
    const reversed = JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).reverse()));
    expect(checkHeader(reversed, dataByteLength).size).toBe(25);
  });
});

test('a checkpoint of experts opens, with headers in the order of the reference', async () => {
  const { index, scales } = await writeExpertCheckpoint(join(folder, 'experts'), 1600, 7);
  using checkpoint = openCheckpoint(index);
  await checkpoint.verify();
  expect(checkpoint.size).toBe(1600);
  expect(checkpoint.keys()).toEqual([...checkpoint.keys()].sort());
  const counts = Array.from({ length: 7 }, (_, shard) => {
    using file = safeOpen(join(folder, 'experts', `model-0000${shard + 1}-of-00007.safetensors`));
    const dtypes = file.offsetKeys().map((name) => file.info(name).dtype);
    expect(dtypes.join()).toMatch(/^(F32,)+(F8_E4M3,?)+$/);
    if (shard === 6) expect(file.has(scales)).toBe(true);
    return file.size;
  });
  expect(new Set(counts)).toEqual(new Set([228, 229]));
  expect(checkpoint.getTensor(scales).byteLength).toBe(4096);
});

describe('a child', () => {
  test('that fails tells the line of its error, not the last one', async () => {
    const failing = runChild(script('throw new RangeError("too much");'), signal);
    await expect(failing).rejects.toThrow(new NotMeasuredError('RangeError: too much'));
    const coded = runChild(script('Buffer.alloc(-1)'), signal);
    await expect(coded).rejects.toThrow(/^RangeError \[ERR_OUT_OF_RANGE\]: /);
  });

  test('stays until its standard input ends', async () => {
    const text = 'console.log("7"); for await (const _ of process.stdin); console.log("8");';
    const child = await startChild<number>(script(text), signal);
    expect(child.line()).toBe(7);
    expect(child.firstLineAfter).toBeGreaterThan(0);
    expect(() => process.kill(child.pid, 0)).not.toThrow();
    await child.end();
    expect(child.line()).toBe(8);
    expect(() => process.kill(child.pid, 0)).toThrow('ESRCH');
  });

  test('that fails before its first line is an error', async () => {
    const started = startChild(script('process.exitCode = 3;'), signal);
    await expect(started).rejects.toThrow(new NotMeasuredError('exit code 3'));
  });

  test('that is killed says by what', async () => {
    const killed = runChild(script('process.kill(process.pid, "SIGKILL");'), signal);
    await expect(killed).rejects.toThrow(new NotMeasuredError('killed by SIGKILL'));
  });
});
