/** What trials share: fresh processes in turns, the same bytes, files, verdicts of comparisons. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { checkHeader } from '../../benchmarks/children/check-header.mjs';
import { judge } from '../../benchmarks/compare.mjs';
import { MMAP_IO, OURS, PLAIN_MAPPING, TORCH_LOAD } from '../../benchmarks/contenders.mjs';
import { commandOf } from '../../benchmarks/equipment.mjs';
import {
  formatByteSize,
  formatDuration,
  markdownTable,
  median,
  parseByteSize,
} from '../../benchmarks/figures.mjs';
import { Measured, measure, refuseOtherBytes } from '../../benchmarks/measure.mjs';
import * as models from '../../benchmarks/models.mjs';
import { NotMeasuredError, runChild, startChild } from '../../benchmarks/processes.mjs';
import { selectAll, selectMiddle } from '../../benchmarks/selection.mjs';
import { haveSameBytes, runWriter } from '../../benchmarks/trials/writing.mjs';
import { parse } from '../../src/index.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-measure-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const { signal } = new AbortController();

test('sizes and times are read and shown', () => {
  const sizes = [
    '1GB',
    '256 MiB',
    '1.5gb',
    '1000',
    '7 B',
    '',
    'GB',
    '-1GB',
    '1XB',
    '1e9',
    '99999999999GB',
  ];
  const none = Array(6).fill(undefined);
  expect(sizes.map(parseByteSize)).toEqual([1e9, 2 ** 28, 1.5e9, 1000, 7, ...none]);
  const shown = ['0 B', '999 B', '1.00 kB', '256 MB', '3.00 GB', '–'];
  expect([0, 999, 1000, 256e6, 3e9, Number.NaN].map(formatByteSize)).toEqual(shown);
  const times = ['0.42 µs', '0.012 ms', '4.13 ms', '56.8 ms', '346 ms', '1.23 s'];
  expect([0.000423, 0.0123, 4.125, 56.78, 345.6, 1234].map(formatDuration)).toEqual(times);
  expect([median([5, 1, 100]), median([4, 1, 100, 2]), median([])]).toEqual([5, 3, Number.NaN]);
  expect(
    markdownTable([
      ['', 'x'],
      ['a', '1 ms'],
    ]),
  ).toBe('|     |    x |\n| --- | ---: |\n| a   | 1 ms |');
});

describe('files', () => {
  test.each([1e6, 256e6, 2e9])('a model of %d bytes has 147 tensors of whole words', (bytes) => {
    for (const tensors of [models.modelTensors(bytes), models.mixedTensors(bytes)]) {
      const total = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
      expect(Math.abs(total - bytes) / bytes).toBeLessThan(0.01);
      expect(new Set(tensors.map(({ name }) => name)).size).toBe(147);
      expect(tensors.every(({ byteLength }) => byteLength % 8 === 0)).toBe(true);
    }
  });

  test('are valid, the same each time, and holes take up no space', async () => {
    const tensors = models.modelTensors(1e6);
    const paths = ['a', 'b'].map((name) => join(folder, `${name}.safetensors`));
    for (const path of paths) await models.writeModel(path, tensors, signal);
    expect(await haveSameBytes(...paths)).toBe(true);
    const file = parse(await readFile(paths[0] as string));
    for (const { name, shape, dtype } of tensors)
      expect(file.info(name)).toMatchObject({ dtype, shape });
    const sparse = join(folder, 'sparse.safetensors');
    await models.writeSparseModel(sparse, [models.tensor('a', 'U8', 1e8)]);
    expect((await stat(sparse)).blocks * 512).toBeLessThan(1e6);
    expect(await haveSameBytes(sparse, paths[0])).toBe(false);
  });

  test.each([
    [
      [64, 16, 8, 32],
      [120, 0, 0, 64],
    ],
    [
      [64, 48, 8, 16],
      [136, 1, 64, 48],
    ],
  ])(
    'of tensors of %j bytes: all are selected, or the largest over the middle',
    async (sizes, place) => {
      const path = join(folder, `${sizes.join('-')}.safetensors`);
      const tensors = sizes.map((byteLength, index) => models.tensor(`${index}`, 'U8', byteLength));
      await models.writeModel(path, tensors, signal);
      const [total = 0, index, begin = 0, largest] = place;
      const start = (await stat(path)).size - total;
      expect(selectAll(path)).toEqual(['all', `${start}`, `${total}`, 'all']);
      expect(selectMiddle(path)).toEqual([
        `${index}`,
        `${start + begin}`,
        `${largest}`,
        `${index}`,
      ]);
    },
  );

  test('have headers that the rival checks as it should', () => {
    const text = models.encodeHeader(models.manySmallTensors(25)).toString('utf8', 8);
    const bytes = 25 * 512;
    expect(checkHeader(text, bytes).size).toBe(25);
    expect(() => checkHeader(text, bytes + 1)).toThrow('another size');
    for (const [from, to] of [
      ['BF16', 'BF17'],
      ['[16,16]', '[16,15]'],
      ['[16,16]', '[-16,-16]'],
      ['[0,512]', '[512,1024]'],
      ['[0,512]', '[0]'],
    ] as const) {
      expect(() => checkHeader(text.replace(from, to), bytes)).toThrow();
    }
    const reversed = Object.fromEntries(Object.entries(JSON.parse(text)).reverse());
    expect(checkHeader(JSON.stringify(reversed), bytes).size).toBe(25);
  });
});

describe('a measurement', () => {
  const equipment = {
    programs: '/programs',
    python: { file: 'python', version: '3', packages: { torch: '2' } },
    npmPackages: {},
    fileOf: async (format: string) => {
      if (format === 'pickle') throw new NotMeasuredError('no copy');
      return `model.${format}`;
    },
  };
  afterEach(() => vi.restoreAllMocks());

  /** What was run, with the number of the run as its line; random numbers ascend, so the order is the list's. */
  async function calls(leg: object, run = async (at: number): Promise<number> => at) {
    let next = 0;
    vi.spyOn(Math, 'random').mockImplementation(() => ++next);
    const files: string[] = [];
    const runFile = ({ args }: { args: string[] }) => run(files.push(args.at(-1) ?? ''));
    return { measured: await measure({ run: runFile, ...leg }, '', { equipment, signal }), files };
  }

  test('runs all contenders in every round, each with its file; some may have fewer rounds', async () => {
    const rounds = (contender: object): number => (contender === OURS ? 3 : 1);
    const { measured, files } = await calls({ contenders: [OURS, TORCH_LOAD], rounds });
    expect(files).toEqual([
      'model.safetensors',
      'model.torch',
      'model.safetensors',
      'model.safetensors',
    ]);
    expect(measured.lines(OURS)).toEqual([1, 3, 4]);
    expect(measured.median(OURS, (line: number) => line * 10)).toBe(30);
    expect(measured.median(PLAIN_MAPPING, 'any')).toBeNaN();
  });

  test('has no lines of a contender that failed once, and says why', async () => {
    const pickle = { ...PLAIN_MAPPING, format: 'pickle' };
    const run = async (at: number): Promise<number> => {
      if (at === 3) throw new NotMeasuredError('full');
      return at;
    };
    const { measured, files } = await calls(
      { contenders: [OURS, pickle, TORCH_LOAD], rounds: 3 },
      run,
    );
    expect(measured.rows.map(({ lines }: { lines: number[] }) => lines)).toEqual([
      [],
      [],
      [2, 4, 5],
    ]);
    const reasons = [
      `${OURS.name} was not measured: full`,
      `${pickle.name} was not measured: no copy`,
    ];
    expect([measured.reasons, files.length]).toEqual([reasons, 5]);
    const mistake = calls({ contenders: [OURS], rounds: 1 }, () =>
      Promise.reject(new Error('a mistake')),
    );
    await expect(mistake).rejects.toThrow('a mistake');
  });

  test('leaves out what saw other bytes, and fails when that is this package', () => {
    const row = (contender: object, ...sums: string[]) => {
      return {
        contender,
        lines: sums.map((checksum) => ({ checksum, bytes: 8 })),
        reason: undefined,
      };
    };
    const rows = [row(PLAIN_MAPPING, 'aa'), row(OURS, 'aa', 'aa'), row(TORCH_LOAD, 'aa', 'bb')];
    const kept = refuseOtherBytes(new Measured(rows), [OURS]);
    expect(kept.reasons).toEqual([
      expect.stringMatching(/torch.load .*bb of 8 bytes instead of aa of 8/),
    ]);
    expect(() => refuseOtherBytes(new Measured(rows), [TORCH_LOAD])).toThrow('saw different bytes');
  });

  test('says what a contender lacks', () => {
    expect(commandOf(OURS, equipment).args[0]).toMatch(/children.read\.mjs$/);
    expect(commandOf({ ...OURS, root: '/tree' }, equipment).args[0]).toMatch(/^.tree.benchmarks/);
    expect(() => commandOf(MMAP_IO, equipment)).toThrow(/not installed.*mmap-io/);
    expect(() => commandOf(TORCH_LOAD, { ...equipment, python: 'no Python' })).toThrow('no Python');
    const bare = { file: 'python', version: '3', packages: {} };
    expect(() => commandOf(TORCH_LOAD, { ...equipment, python: bare })).toThrow(
      'Python has no: torch',
    );
  });
});

describe('a child', () => {
  const script = (text: string) => ({
    file: process.execPath,
    args: ['--input-type=module', '-e', text],
  });
  const wait = 'console.log(0); for await (const _ of process.stdin);';

  test('stays until its standard input ends', async () => {
    const child = await startChild(script(`${wait} console.log("8");`), signal);
    expect([child.line(), child.firstLineAfter > 0]).toEqual([0, true]);
    await child.end();
    expect(child.line()).toBe(8);
    expect(() => process.kill(child.pid, 0)).toThrow('ESRCH');
  });

  test.each([
    ['throw new RangeError("too much");', 'RangeError: too much'],
    ['process.exitCode = 3;', 'exit code 3'],
    ['process.kill(process.pid, "SIGKILL");', 'killed by SIGKILL'],
  ])('that fails says how: %s', async (text, message) => {
    await expect(runChild(script(text), signal)).rejects.toThrow(new NotMeasuredError(message));
  });

  test('that writes is compared with the source, and what it wrote is removed', async () => {
    const [source, target] = [join(folder, 'source'), join(folder, 'target')];
    await writeFile(source, 'right');
    const writer = (text: string) =>
      script(
        `${wait} (await import('node:fs')).writeFileSync('${target}', '${text}'); console.log(5)`,
      );
    expect(await runWriter(writer('right'), script(wait), source, target, signal)).toBe(5);
    const wrong = runWriter(writer('wrong'), script(wait), source, target, signal);
    await expect(wrong).rejects.toThrow(new NotMeasuredError('wrote other bytes'));
    await expect(stat(target)).rejects.toThrow('ENOENT');
  });
});

describe('a comparison', () => {
  /** Pseudo-random times around 10 ms, with slow moments that hit the two of a round, or one alone. */
  function times(seed: number, slower: number): [before: number[], after: number[]] {
    let state = seed;
    const random = (): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
    const any = (): number => 10 * (1 + 0.06 * random()) * (random() < 0.1 ? 2 : 1);
    const one = (): number => Math.min(any(), any());
    const rounds = Array.from({ length: 20 }, () => 1 + random());
    return [rounds.map((load) => load * one()), rounds.map((load) => load * one() * slower)];
  }
  const verdicts = (slower: number): string[] =>
    Array.from({ length: 200 }, (_, seed) => judge(...times(seed + 1, slower)).verdict);

  test('has no verdict for the same, and finds a tenth', () => {
    expect(new Set(verdicts(1))).toEqual(new Set(['no difference beyond noise']));
    const found = verdicts(1.1).filter((verdict) => /^slower by \d+\.\d %$/.test(verdict));
    expect(found.length).toBeGreaterThan(190);
    expect(
      verdicts(1 / 1.1).filter((verdict) => verdict.startsWith('faster')).length,
    ).toBeGreaterThan(190);
  });
});
