/** What trials share: files, fresh processes in turns, the same bytes, verdicts of comparisons. */
import { stat } from 'node:fs/promises';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { judge } from '../../benchmarks/compare.mjs';
import { CONTENDERS } from '../../benchmarks/contenders.mjs';
import { commandOf } from '../../benchmarks/equipment.mjs';
import * as figures from '../../benchmarks/figures.mjs';
import { Measured, measure, requireEqualBytes } from '../../benchmarks/measure.mjs';
import * as models from '../../benchmarks/models.mjs';
import { NotMeasuredError, runChild, startChild } from '../../benchmarks/processes.mjs';
import { requireSameBytes } from '../../benchmarks/trials/saving.mjs';
import { safeOpen } from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';

const { signal } = new AbortController();
const { ours: OURS, mapping: PLAIN_MAPPING, torchLoad: TORCH_LOAD, mmapIo: MMAP_IO } = CONTENDERS;

test('sizes and times are read and shown', () => {
  const sizes = ['1GB', '256 MiB', '1.5gb', '7 B', '', 'GB', '-1GB', '1e9', '99999999999GB'];
  const bytes = [1e9, 2 ** 28, 1.5e9, 7, ...Array(5).fill(undefined)];
  expect(sizes.map(figures.parseByteSize)).toEqual(bytes);
  const shown = ['0 B', '999 B', '1.00 kB', '256 MB', '3.00 GB', '–'];
  expect([0, 999, 1000, 256e6, 3e9, Number.NaN].map(figures.formatByteSize)).toEqual(shown);
  const times = ['0.42 µs', '0.012 ms', '4.13 ms', '56.8 ms', '346 ms', '1.23 s'];
  const durations = [0.000423, 0.0123, 4.125, 56.78, 345.6, 1234];
  expect(durations.map(figures.formatDuration)).toEqual(times);
  expect([[5, 1, 100], [4, 1, 100, 2], []].map(figures.median)).toEqual([5, 3, Number.NaN]);
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

  test('have the same bytes each time, and holes take up no space', async () => {
    const [a, b, sparse] = [temporaryPath('a'), temporaryPath('b'), temporaryPath('sparse')];
    for (const path of [a, b]) await models.writeModel(path, models.modelTensors(1e6), signal);
    await requireSameBytes(a, b, signal);
    await models.writeSparseModel(sparse, [models.tensor('a', 'U8', 1e8)]);
    expect((await stat(sparse)).blocks * 512).toBeLessThan(1e6);
    await expect(requireSameBytes(sparse, a, signal)).rejects.toThrow('other bytes');
  });

  test('of a checkpoint are shards with as many tensors each, and different bytes', async () => {
    const large = models.largeModelTensors(17e9);
    expect(Math.max(...large.map(({ byteLength }) => byteLength))).toBeLessThan(200e6);
    expect(Math.abs(models.dataByteLength(large) / 17e9 - 1)).toBeLessThan(0.01);
    const tensors = models.expertTensors(10);
    const write = (path: string, own: typeof tensors, seed: number) =>
      models.writeModel(path, own, signal, seed);
    const folder = temporaryPath('checkpoint');
    const checkpoint = safeOpen(await models.writeCheckpoint(folder, tensors, 3, write));
    const headers = await checkpoint.headers();
    expect(headers.map(({ tensors }) => tensors.length)).toEqual([3, 3, 4]);
    const bytes = Array.from(checkpoint.getTensors().values(), ({ bytes }) => bytes.join());
    expect(new Set(bytes).size).toBe(10);
    checkpoint.close();
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

  /** The files of all runs; a run's line is its number. Random numbers ascend: the order is the list's. */
  async function calls(leg: object, run = async (at: number): Promise<number> => at) {
    let next = 0;
    vi.spyOn(Math, 'random').mockImplementation(() => ++next);
    const files: string[] = [];
    const runFile = ({ args }: { args: string[] }) => run(files.push(args.at(-1) ?? ''));
    return { measured: await measure({ run: runFile, ...leg }, '', { equipment, signal }), files };
  }

  test('runs all contenders in every round, each with its file; some with fewer rounds', async () => {
    const rounds = (contender: object): number => (contender === OURS ? 3 : 1);
    const { measured, files } = await calls({ contenders: [OURS, TORCH_LOAD], rounds });
    const [own, torch] = ['model.safetensors', 'model.torch'];
    expect(files).toEqual([own, torch, own, own]);
    expect(measured.lines(OURS)).toEqual([1, 3, 4]);
    expect(measured.median(OURS, (line: number) => line * 10)).toBe(30);
    expect(measured.median(PLAIN_MAPPING, 'any')).toBeNaN();
  });

  test('has no lines of a contender that failed once, and says why', async () => {
    const pickle = { ...PLAIN_MAPPING, format: 'pickle' };
    const contenders = [OURS, pickle, TORCH_LOAD];
    const { measured, files } = await calls({ contenders, rounds: 3 }, async (at) => {
      if (at === 3) throw new NotMeasuredError('full');
      return at;
    });
    expect(contenders.map((one) => measured.lines(one))).toEqual([[], [], [2, 4, 5]]);
    const reasons = ['safetensors-mmap was not measured: full', /plain mapping, C .*: no copy/];
    expect(measured.reasons).toEqual(reasons.map((reason) => expect.stringMatching(reason)));
    expect(files).toHaveLength(5);
    const mistake = calls({ contenders, rounds: 1 }, () => Promise.reject(new Error('a mistake')));
    await expect(mistake).rejects.toThrow('a mistake');
  });

  test('looks at the memory of its programs in a round that does not count', async () => {
    const watched: boolean[] = [];
    const run = async (command: { onMemory?: (bytes: number) => void }) => {
      watched.push(command.onMemory !== undefined);
      for (const bytes of [5, 7, 6]) command.onMemory?.(bytes);
      return 0;
    };
    const { measured } = await calls({ contenders: [OURS], rounds: 2, hasWarmUp: true, run });
    expect(watched).toEqual([true, false, false]);
    expect(measured.lines(OURS)).toEqual([0, 0]);
    expect([OURS, TORCH_LOAD].map((one) => measured.privateMemory(one))).toEqual([7, Number.NaN]);
  });

  test('leaves out what saw other bytes, and fails when that is this package', () => {
    const row = (contender: object, ...sums: string[]) => {
      const lines = sums.map((checksum) => ({ checksum, bytes: 8 }));
      return { contender, lines, reason: undefined };
    };
    const rows = [row(PLAIN_MAPPING, 'aa'), row(OURS, 'aa', 'aa'), row(TORCH_LOAD, 'aa', 'bb')];
    const kept = requireEqualBytes(new Measured(rows), [OURS]);
    const reason = /torch.load .*bb of 8 bytes instead of aa of 8/;
    expect(kept.reasons).toEqual([expect.stringMatching(reason)]);
    expect(() => requireEqualBytes(new Measured(rows), [TORCH_LOAD])).toThrow('different bytes');
  });

  test('says what a contender lacks', () => {
    expect(commandOf({ ...OURS, root: '/tree' }, equipment).args[0]).toMatch(/^.tree.benchmarks/);
    expect(() => commandOf(MMAP_IO, equipment)).toThrow(/not installed.*mmap-io/);
    const without = (python: unknown) => () => commandOf(TORCH_LOAD, { ...equipment, python });
    expect(without('no Python')).toThrow('no Python');
    expect(without({ packages: {} })).toThrow('not installed in Python: torch');
  });
});

describe('a child', () => {
  const script = (text: string) => {
    return { file: process.execPath, args: ['--input-type=module', '-e', text] };
  };

  test.runIf(process.platform === 'linux')('reports its private memory while it runs', async () => {
    const text =
      'const retained = Buffer.alloc(1e8, 1); setTimeout(() => console.log(retained.length), 100);';
    let most = 0;
    const onMemory = (bytes: number) => {
      most = Math.max(most, bytes);
    };
    expect(await runChild({ ...script(text), onMemory }, signal)).toBe(1e8);
    expect(most).toBeGreaterThan(1e8);
  });

  test('stays until its standard input ends', async () => {
    const text = 'console.log(0); for await (const _ of process.stdin); console.log(8);';
    const child = await startChild(script(text), signal);
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
});

describe('a comparison', () => {
  /** Pseudo-random times around 10 ms, with slow moments that hit the two of a round, or one alone. */
  function times(seed: number, slower: number): [before: number[], after: number[]] {
    const generator = new Random(seed, 0);
    const random = (): number => generator.below(1e6) / 1e6;
    const any = (): number => 10 * (1 + 0.06 * random()) * (generator.chance(0.1) ? 2 : 1);
    const shorter = (load: number): number => load * Math.min(any(), any());
    const rounds = Array.from({ length: 20 }, () => 1 + random());
    return [rounds.map(shorter), rounds.map((load) => shorter(load) * slower)];
  }
  const verdicts = (slower: number): string[] =>
    Array.from({ length: 200 }, (_, seed) => judge(...times(seed + 1, slower)).verdict);

  test('has no verdict for the same, and finds a tenth', () => {
    expect(new Set(verdicts(1))).toEqual(new Set(['no difference beyond noise']));
    const found = verdicts(1.1).filter((verdict) => /^slower by \d+\.\d %$/.test(verdict));
    expect(found.length).toBeGreaterThan(190);
    const faster = verdicts(1 / 1.1).filter((verdict) => verdict.startsWith('faster'));
    expect(faster.length).toBeGreaterThan(190);
  });
});
