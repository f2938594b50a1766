import { createHook } from 'node:async_hooks';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { type AddonExports, bind } from '../../../src/platform/addon/binding.js';
import { type Addon, loadAddon, type Mapping } from '../../../src/platform/addon/load.js';
import { VERSION } from '../../../src/platform/addon/version.js';

const load = loadAddon();
const addon: Addon | undefined = 'addon' in load ? load.addon : undefined;
if (addon === undefined) throw new Error(JSON.stringify(load));

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const LENGTH = 3 * 4096 + 5;
const content = Uint8Array.from({ length: LENGTH }, (_, i) => (i * 31) % 251);
const path = join(folder, 'file');
writeFileSync(path, content);

function map(): Mapping {
  const fd = openSync(path, 'r');
  const mapping = (addon as Addon).mapFile(fd, LENGTH, true);
  closeSync(fd);
  return mapping;
}

test('addon and sources have the version of the package', () => {
  const path = fileURLToPath(new URL('../../../package.json', import.meta.url));
  expect(VERSION).toBe(JSON.parse(readFileSync(path, 'utf8')).version);
});

test('the addon is loaded once', () => {
  expect(loadAddon()).toBe(load);
});

describe('tensorBuffer', () => {
  test('gives the bytes at any address, up to the last one', () => {
    const mapping = map();
    for (const [begin, length] of [
      [0, LENGTH],
      [1, 8],
      [4095, 2],
      [LENGTH - 1, 1],
    ] as const) {
      const buffer = addon.tensorBuffer(mapping, begin, length);
      expect(buffer).toBeInstanceOf(ArrayBuffer);
      expect(new Uint8Array(buffer)).toEqual(content.slice(begin, begin + length));
    }
    addon.release(mapping);
  });

  test.each([
    Int8Array,
    Uint8Array,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  ])('%o reads and writes at every misalignment', (TypedArray) => {
    const mapping = map();
    for (let begin = 4093; begin < 4102; begin++) {
      const array = new TypedArray(addon.tensorBuffer(mapping, begin, 64));
      const aligned = new TypedArray(content.slice(begin, begin + 64).buffer);
      expect(array).toEqual(aligned);
      // Each index by itself too, the way compiled code works.
      for (let i = 0; i < array.length; i++) array[i] = aligned[array.length - 1 - i] as never;
      expect(array).toEqual(aligned.reverse());
      array.set(aligned.reverse() as never);
      expect(array).toEqual(aligned);
      new Uint8Array(array.buffer).set(content.subarray(begin, begin + 64));
    }
    addon.release(mapping);
  });

  test('writes show in other buffers of the mapping, not in another mapping or the file', () => {
    const mapping = map();
    const other = map();
    const first = new Uint8Array(addon.tensorBuffer(mapping, 100, 50));
    const second = new Uint8Array(addon.tensorBuffer(mapping, 110, 50));
    const foreign = new Uint8Array(addon.tensorBuffer(other, 110, 50));
    first[10] = 255;
    expect(second[0]).toBe(255);
    expect(foreign[0]).toBe(content[110]);
    expect(new Uint8Array(readFileSync(path))).toEqual(content);
    addon.release(mapping);
    addon.release(other);
  });

  test('views outlive the handle', () => {
    const mapping = map();
    const bytes = new Uint8Array(addon.tensorBuffer(mapping, 7, LENGTH - 7));
    addon.release(mapping);
    addon.release(mapping);
    expect(bytes).toEqual(content.subarray(7));
    bytes[0] = 1;
  });
});

test('readFileState tells size and modification time as fs does', () => {
  const mapping = map();
  const state = new Float64Array(4);
  addon.readFileState(mapping, state);
  const { mtimeNs } = statSync(path, { bigint: true });
  const expected = [LENGTH, Number(mtimeNs / 1_000_000_000n), Number(mtimeNs % 1_000_000_000n), 0];
  expect([...state]).toEqual(expected);
  addon.release(mapping);
});

test('closeFile takes the descriptor, and leaves the mapping', () => {
  const mapping = map();
  const state = new Float64Array(4).fill(7);
  addon.closeFile(mapping);
  addon.closeFile(mapping);
  addon.readFileState(mapping, state);
  expect([...state]).toEqual([7, 7, 7, 0]);
  const bad = expect.objectContaining({ code: 'EBADF' });
  expect(() => addon.readBytes(mapping, 0, new Uint8Array(1))).toThrow(bad);
  expect(() => addon.duplicateDescriptor(mapping)).toThrow(bad);
  const bytes = new Uint8Array(addon.tensorBuffer(mapping, 7, LENGTH - 7));
  expect(bytes).toEqual(content.subarray(7));
  addon.release(mapping);
  addon.closeFile(mapping);
  expect(() => addon.tensorBuffer(mapping, 7, 1)).toThrow(bad);
  expect(() => addon.closeFile({} as Mapping)).toThrow(TypeError);
});

test('readBytes reads the file, not what was written to the mapping', () => {
  const mapping = map();
  new Uint8Array(addon.tensorBuffer(mapping, 10, 5)).fill(0);
  const target = new Uint8Array(20);
  expect(addon.readBytes(mapping, 5, target.subarray(2))).toBe(18);
  expect(target).toEqual(Uint8Array.of(0, 0, ...content.subarray(5, 23)));
  expect(addon.readBytes(mapping, LENGTH - 3, target)).toBe(3);
  expect(addon.readBytes(mapping, LENGTH, target)).toBe(0);
  addon.release(mapping);
});

describe('work on the thread pool', () => {
  /** Calls each function that works on the pool, with arguments that it takes. */
  function callEach(native: Addon, mapping: Mapping, fd: number): Promise<unknown>[] {
    return [
      native.allocateAsync(fd, 1),
      native.convertAsync('U8', new Uint8Array(1), new Float32Array(1)),
      native.copyFileRangeAsync(fd, 0, fd, 1, 1),
      native.gatherRangesAsync(Float64Array.of(fd, 0, 1), fd, 1),
      native.populate(mapping, 0, 1),
      native.populateRanges(mapping, Float64Array.of(0, 1)),
      native.readRangesAsync(mapping, Float64Array.of(0, 1), new Uint8Array(1)),
    ];
  }

  test('is shown by async_hooks under the name of its function', async () => {
    const types: string[] = [];
    const hook = createHook({ init: (_, type) => types.push(type) }).enable();
    const mapping = map();
    await Promise.allSettled(callEach(addon, mapping, 1_000_000));
    hook.disable();
    addon.release(mapping);
    const names = [
      ...['allocate', 'convert', 'copyFileRange', 'gatherRanges', 'populate', 'populateRanges'],
      'readRanges',
    ];
    expect(types.filter((type) => type.startsWith('safetensors-mmap'))).toEqual(
      names.map((name) => `safetensors-mmap.${name}`),
    );
  });

  // Nothing cancels the addon's work while JavaScript runs, so the test begins with its result.
  test('rejects when it is cancelled', async () => {
    const cancelled = async () => -constants.errno.ECANCELED;
    const addon: Partial<AddonExports> = {
      allocateAsync: cancelled,
      convertAsync: cancelled,
      copyFileRangeAsync: cancelled,
      gatherRangesAsync: cancelled,
      populate: cancelled,
      populateRanges: cancelled,
      readRangesAsync: cancelled,
      truncations: () => new ArrayBuffer(4),
    };
    const results = await Promise.allSettled(
      callEach(bind(addon as AddonExports), {} as Mapping, 0),
    );
    const rejected = { status: 'rejected', reason: { code: 'ECANCELED' } };
    expect(results).toMatchObject(Array(7).fill(rejected));
  });
});

describe('errors', () => {
  const mapping = map();
  const ended = map();
  addon.release(ended);

  test.each([
    ['no such descriptor', () => addon.mapFile(1_000_000, 8, true), 'EBADF', 'mmap'],
    ['a released mapping', () => addon.tensorBuffer(ended, 0, 1), 'EBADF', 'tensorBuffer'],
    ['a released mapping', () => addon.readFileState(ended, new Float64Array(4)), 'EBADF', 'fstat'],
    ['a released mapping', () => addon.readBytes(ended, 0, new Uint8Array(1)), 'EBADF', 'pread'],
  ] as const)('%s', (_, call, code, syscall) => {
    expect(call).toThrow(expect.objectContaining({ code, syscall, errno: expect.any(Number) }));
  });

  test('a directory cannot be mapped, and its descriptor stays open', () => {
    const fd = openSync(folder, 'r');
    expect(() => addon.mapFile(fd, 4096, true)).toThrow(
      expect.objectContaining({ code: 'ENODEV', message: 'ENODEV: mmap failed' }),
    );
    expect(() => addon.mapFile(fd, 4096, true, 'a/path')).toThrow(
      expect.objectContaining({ path: 'a/path', message: "ENODEV: mmap 'a/path' failed" }),
    );
    closeSync(fd);
  });

  test('ENOMEM says what to do', () => {
    const fd = openSync(path, 'r');
    expect(() => addon.mapFile(fd, 2 ** 52, true)).toThrow(
      expect.objectContaining({
        code: 'ENOMEM',
        message: expect.stringMatching(/ulimit -v.*vm\.max_map_count.*storage: 'read'/),
      }),
    );
    closeSync(fd);
  });

  const values = [
    undefined,
    null,
    true,
    'x',
    1n,
    -1,
    0.5,
    NaN,
    Infinity,
    2 ** 60,
    {},
    [],
    () => {},
  ];
  const others = [Symbol('s'), new Proxy({}, {}), Object.create(mapping as object), new Map()];
  const anything: readonly unknown[] = [...values, ...others];
  const wrong = anything as readonly never[];
  const invalid = expect.objectContaining({
    code: expect.stringMatching(/^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE)$/),
  });

  test('a wrong argument in any place is a TypeError or a RangeError', () => {
    const fd = openSync(path, 'r');
    const state = new Float64Array(4);
    const bytes = new Uint8Array(1);
    for (const value of wrong) {
      expect(() => addon.mapFile(value, 8, true)).toThrow(invalid);
      if (value !== ((2 ** 60) as never))
        expect(() => addon.mapFile(fd, value, true)).toThrow(invalid);
      if (value !== (true as never)) expect(() => addon.mapFile(fd, 8, value)).toThrow(invalid);
      expect(() => addon.tensorBuffer(value, 0, 1)).toThrow(invalid);
      expect(() => addon.tensorBuffer(mapping, value, 1)).toThrow(invalid);
      expect(() => addon.tensorBuffer(mapping, 0, value)).toThrow(invalid);
      expect(() => addon.readFileState(value, state)).toThrow(invalid);
      expect(() => addon.readFileState(mapping, value)).toThrow(invalid);
      expect(() => addon.readBytes(value, 0, bytes)).toThrow(invalid);
      expect(() => addon.readBytes(mapping, value, bytes)).toThrow(invalid);
      expect(() => addon.readBytes(mapping, 0, value)).toThrow(invalid);
      expect(() => addon.release(value)).toThrow(invalid);
      expect(() => addon.detach(value, [])).toThrow(invalid);
      if (!Array.isArray(value)) expect(() => addon.detach(mapping, value)).toThrow(invalid);
      expect(() => addon.detach(mapping, [value])).toThrow(invalid);
    }
    closeSync(fd);
  });

  test('arrays over a buffer that was resized have the length that is left', () => {
    const Resizable = ArrayBuffer as unknown as new (
      length: number,
      options: object,
    ) => ArrayBuffer & { resize(length: number): void };
    const buffer = new Resizable(64, { maxByteLength: 128 });
    const [whole, fixed, end] = [
      new Float32Array(buffer),
      new Float32Array(buffer, 0, 16),
      new Float32Array(buffer, 32),
    ];
    const zeros = (byteLength: number): Uint8Array => new Uint8Array(byteLength);
    buffer.resize(128);
    addon.convert('F32', zeros(128), whole);
    addon.convert('F32', zeros(64), fixed);
    addon.convert('F32', zeros(96), end);
    buffer.resize(16);
    addon.convert('F32', zeros(16), whole);
    for (const output of [fixed, end]) {
      expect(() => addon.convert('F32', zeros(64), output)).toThrow(invalid);
      addon.convert('F32', zeros(0), output);
    }
  });

  test('a range must lie within the mapping', () => {
    for (const [offset, length] of [
      [0, 0],
      [0, LENGTH + 1],
      [1, LENGTH],
      [LENGTH, 1],
      [2 ** 53 - 1, 2 ** 53 - 1],
    ] as const) {
      expect(() => addon.tensorBuffer(mapping, offset, length)).toThrow(invalid);
    }
  });

  test("detach refuses another mapping's buffers and then changes nothing", () => {
    const other = map();
    const stranger = addon.tensorBuffer(other, 0, 8);
    expect(() => addon.detach(mapping, [stranger])).toThrow(invalid);
    expect(() => addon.detach(mapping, [new ArrayBuffer(8)])).toThrow(invalid);
    expect(stranger.byteLength).toBe(8);
    expect(new Uint8Array(addon.tensorBuffer(mapping, 5, 1))[0]).toBe(content[5]);
    addon.release(other);
  });

  test('an error thrown while detach reads its list passes through', () => {
    const buffers = [new ArrayBuffer(1)];
    Object.defineProperty(buffers, 0, {
      get() {
        addon.release(mapping);
        throw new Error('from the list');
      },
    });
    expect(() => addon.detach(mapping, buffers)).toThrow('from the list');
    expect(new Uint8Array(addon.tensorBuffer(mapping, 5, 1))[0]).toBe(content[5]);
  });
});
