import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { FileClosedError, TensorNotFoundError } from '../../../src/errors/errors.js';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { readArchive } from '../../../src/foreign/zip/read-archive.js';
import { detectFormat } from '../../../src/write/convert/detect-format.js';
import { printed } from '../../cli/call.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { readerOf } from '../zip/archives.js';
import { fixturePath, scanFixture } from './fixtures.js';
import { dict, legacyFile, tensor } from './legacy-file.js';
import { refusal } from './rejection.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-torch-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Far beyond what the stack of JavaScript takes. */
const DEPTH = 20_000;

function isFilled(value: unknown): value is Map<unknown, unknown> | readonly unknown[] {
  return Array.isArray(value) ? value.length > 0 : value instanceof Map;
}

describe('the root of a checkpoint', () => {
  const lightning = fixturePath('zip-lightning.ckpt');

  it('is the only part that has tensors, nearest to the outside', () => {
    using checkpoint = openTorchCheckpoint(lightning);
    expect([checkpoint.root, checkpoint.keys()]).toEqual([['state_dict'], ['b', 'w']]);
  });

  it('is the checkpoint itself when it has tensors', () => {
    using checkpoint = openTorchCheckpoint(fixturePath('zip-proto3.pt'));
    expect([checkpoint.root, checkpoint.keys()]).toEqual([[], ['deep.t.0', 'deep.t.1.0', 'w']]);
  });

  it('is asked for when there are several', () => {
    const path = fixturePath('zip-two-roots.pth');
    const error = refusal(path);
    expect(error.code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
    expect(error.message).toContain('["model"] (1 tensor), ["ema"] (1 tensor)');
    using ema = openTorchCheckpoint(path, { root: 'ema' });
    expect(ema.keys()).toEqual(['w']);
    using all = openTorchCheckpoint(path, { root: [] });
    expect(all.keys()).toEqual(['ema.w', 'model.w']);
  });

  it('is what the keys lead to: of dicts and lists', () => {
    using checkpoint = openTorchCheckpoint(lightning, {
      root: ['optimizer_states', 0, 'state', 1],
    });
    expect(checkpoint.keys()).toEqual(['exp_avg', 'step']);
    using texts = openTorchCheckpoint(lightning, {
      root: ['optimizer_states', '0', 'state', '1'],
    });
    expect(texts.keys()).toEqual(checkpoint.keys());
    using dotted = openTorchCheckpoint(lightning, { root: 'optimizer_states.0.state.1' });
    expect(dotted.root).toEqual(['optimizer_states', '0', 'state', '1']);
    expect(dotted.keys()).toEqual(checkpoint.keys());
    expect(refusal(lightning, { root: ['state_dict', 'x'] }).message).toContain(
      'the root ["state_dict","x"], found nothing',
    );
    expect(refusal(lightning, { root: 'epoch' }).code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
    expect(() => openTorchCheckpoint(lightning, { root: [1.5] })).toThrow(TypeError);
  });

  it('is the state dict also when tensors are next to it, or what is asked for', () => {
    const path = legacyFile(
      dict(
        [unicode('state_dict'), dict([unicode('w'), tensor('0', [2])])],
        [unicode('global_step'), tensor('0', [2])],
      ),
      { 0: 2 },
    );
    using chosen = openTorchCheckpoint(path);
    expect(chosen.root).toEqual(['state_dict']);
    using whole = openTorchCheckpoint(path, { root: [] });
    expect([whole.root, whole.keys()]).toEqual([[], ['global_step', 'state_dict.w']]);
    using weights = openTorchCheckpoint(path, { root: 'state_dict' });
    expect(weights.keys()).toEqual(['w']);
  });

  it('is a dict, and not a list beside it', () => {
    const path = legacyFile(
      dict(
        [unicode('misc'), `](${tensor('0', [2])}e`],
        [unicode('state_dict'), dict([unicode('w'), tensor('0', [2])])],
      ),
      { 0: 2 },
    );
    using checkpoint = openTorchCheckpoint(path);
    expect([checkpoint.root, checkpoint.keys()]).toEqual([['state_dict'], ['w']]);
  });

  it('is named by the keys that are there when it is not; 1 is not "1"', () => {
    const path = legacyFile(
      dict(
        ['K\x01', dict([unicode('a'), tensor('0', [2])])],
        [unicode('1'), dict([unicode('b'), tensor('0', [2])])],
      ),
      { 0: 2 },
    );
    expect(refusal(path, { root: 'model' }).message).toMatch(
      /the root \["model"\], found nothing; it has the keys 1, "1"$/,
    );
    expect(refusal(path).message).toContain('[1] (1 tensor), ["1"] (1 tensor)');
    using number = openTorchCheckpoint(path, { root: [1] });
    using text = openTorchCheckpoint(path, { root: '1' });
    expect([number.keys(), text.keys()]).toEqual([['a'], ['b']]);
  });

  it('may be an empty dict, but no checkpoint without tensors', () => {
    using empty = openTorchCheckpoint(legacyFile('}', {}));
    expect(empty.size).toBe(0);
    const path = legacyFile(dict([unicode('epoch'), 'K\x03']), {});
    expect(refusal(path).code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
  });
});

describe('names', () => {
  it('are not made of classes, whose text in Python names an address', () => {
    const ofClass = legacyFile(dict(['ctorch\nDoubleStorage\n', tensor('0', [2])]), { 0: 2 });
    expect(refusal(ofClass).message).toContain('found torch.DoubleStorage');
    using ofDtype = openTorchCheckpoint(
      legacyFile(dict(['ctorch\nfloat16\n', tensor('0', [2])]), { 0: 2 }),
    );
    expect(ofDtype.keys()).toEqual(['torch.float16']);
  });

  it('are the keys joined by dots; two paths of one name are refused', () => {
    const path = legacyFile(
      dict(
        [unicode('a.b'), tensor('0', [2])],
        [unicode('a'), dict([unicode('b'), tensor('0', [2])])],
      ),
      { 0: 2 },
    );
    const error = refusal(path, { root: [] });
    expect([error.code, error.tensor]).toEqual(['SAFETENSORS_DUPLICATE_NAME', 'a.b']);
    expect(error.message).toContain('pass a root that contains only one of them');
    using inner = openTorchCheckpoint(path, { root: 'a' });
    expect(inner.getTensor('b').data).toEqual(Float32Array.of(0, 1));
  });

  it('of keys that are no texts are as Python shows them', () => {
    using checkpoint = openTorchCheckpoint(fixturePath('zip-odd-keys.pt'));
    expect(checkpoint.keys()).toEqual(['(1, 2)', '0', '7', 'None']);
  });
});

describe('extra()', () => {
  it('gives everything but tensors as plain data', async () => {
    using checkpoint = openTorchCheckpoint(fixturePath('zip-lightning.ckpt'));
    const values = await checkpoint.extra();
    const group = new Map<string, unknown>([
      ['lr', 0.001],
      ['betas', [0.9, 0.999]],
      ['params', [0, 1]],
      ['foreach', null],
    ]);
    expect(values).toEqual(
      new Map<string, unknown>([
        ['epoch', 3],
        ['global_step', 2 ** 40],
        ['pytorch-lightning_version', '2.0'],
        ['state_dict', new Map()],
        [
          'optimizer_states',
          [
            new Map<string, unknown>([
              [
                'state',
                new Map([
                  [0, new Map()],
                  [1, new Map()],
                ]),
              ],
              ['param_groups', [group]],
            ]),
          ],
        ],
        ['lr_schedulers', []],
        ['flag', true],
      ]),
    );
    expect(await checkpoint.extra()).toBe(values);
  });

  it('gives every kind of value, and values that hold themselves', async () => {
    using misc = openTorchCheckpoint(fixturePath('zip-misc-objects.pt'));
    const values = new Map((await misc.extra()) as Map<string, unknown>);
    expect(values.get('dtype')).toBe('torch.bfloat16');
    expect(values.get('complex')).toEqual({ real: expect.any(Number), imag: expect.any(Number) });
    expect(values.get('set')).toBeInstanceOf(Set);
    expect(values.get('bytes')).toBeInstanceOf(Uint8Array);
    expect(values.has('w')).toBe(false);
    using cyclic = openTorchCheckpoint(fixturePath('zip-cyclic.pt'));
    const self = (await cyclic.extra()) as Map<string, unknown>;
    expect(self.get('self')).toBe(self);
  });

  it.each([
    ['lists', ']'.repeat(DEPTH) + 'a'.repeat(DEPTH - 1)],
    ['dicts', `${`}${unicode('k')}`.repeat(DEPTH)}N${'s'.repeat(DEPTH)}`],
    ['tuples', `)${'\x85'.repeat(DEPTH - 1)}`],
  ])('gives %s that nest as deep as a caller allows', async (_, nested) => {
    const object = dict([unicode('w'), tensor('0', [2])], [unicode('deep'), nested]);
    const path = legacyFile(object, { 0: 2 });
    expect(refusal(path).message).toContain('maxDepth');
    const limits = { limits: { maxDepth: DEPTH + 1, maxPickleMemoryByteLength: 2 ** 32 } };
    using checkpoint = openTorchCheckpoint(path, limits);
    let depth = 0;
    let value = ((await checkpoint.extra()) as Map<unknown, unknown>).get('deep');
    for (; isFilled(value); depth++) value = value instanceof Map ? value.get('k') : value[0];
    expect(depth).toBe(nested.startsWith('}') ? DEPTH : DEPTH - 1);
  });

  it('keeps unknown objects as data where that is asked for, and runs nothing', async () => {
    const path = fixturePath('zip-namespace.pt');
    expect(refusal(path).message).toContain('"argparse.Namespace"');
    using checkpoint = openTorchCheckpoint(path, { unknownGlobals: 'placeholder' });
    expect(checkpoint.size).toBe(1);
    const found = JSON.stringify(await checkpoint.extra(), (_, value) =>
      value instanceof Map ? [...value] : value,
    );
    expect(found).toContain('"global":"argparse.Namespace"');
    using numpy = openTorchCheckpoint(fixturePath('zip-numpy.pt'), {
      unknownGlobals: 'placeholder',
    });
    expect(numpy.size).toBe(1);
  });

  it('leaves out no tensor in a dict of an unknown kind', () => {
    const path = fixturePath('zip-defaultdict.pt');
    using checkpoint = openTorchCheckpoint(path, { unknownGlobals: 'placeholder', root: [] });
    expect(checkpoint.keys()).toEqual(['d.w.0']);
  });

  it('does not keep what runs code, even then', () => {
    for (const name of ['evil-os-system.pt', 'evil-builtin-eval.pt', 'evil-subprocess-newobj.pt']) {
      const error = refusal(fixturePath(name), { unknownGlobals: 'placeholder' });
      expect(error.code).toBe('SAFETENSORS_FORBIDDEN_GLOBAL');
    }
  });
});

describe('openTorchCheckpoint', () => {
  it('maps contiguous tensors without a copy, and gathers others', () => {
    using checkpoint = openTorchCheckpoint(fixturePath('zip-views.pt'), { storage: 'mmap' });
    expect(checkpoint.storage).toBe('mmap');
    const { data } = checkpoint.getTensor('all');
    expect(checkpoint.getTensor('all').data).toBe(data);
    const path = legacyFile(dict([unicode('t'), tensor('0', [3, 2], [1, 3])]), { 0: 6 });
    using strided = openTorchCheckpoint(path);
    expect(strided.getTensor('t').data).toEqual(Float32Array.of(0, 3, 1, 4, 2, 5));
  });

  it('has the members of an open file', async () => {
    const checkpoint = openTorchCheckpoint(fixturePath('zip-state-dict.pt'));
    expect(checkpoint.size).toBe(7);
    expect(checkpoint.has('l1.bias')).toBe(true);
    expect(checkpoint.info('l1.weight')).toMatchObject({ dtype: 'F32', shape: [2, 3] });
    expect(() => checkpoint.getTensor('l1.wieght')).toThrow(TensorNotFoundError);
    await checkpoint.prefetch();
    expect([...(await checkpoint.readTensors(['l1.bias'])).keys()]).toEqual(['l1.bias']);
    checkpoint.close();
    expect(() => checkpoint.keys()).toThrow(FileClosedError);
  });

  it('names every tensor that it refuses', () => {
    const path = legacyFile(
      dict([unicode('a'), tensor('0', [9], [2])], [unicode('b'), tensor('0', [9], [1, 1])]),
      { 0: 9 },
    );
    const error = refusal(path);
    expect(error.code).toBe('SAFETENSORS_INVALID_TORCH_CHECKPOINT');
    expect(error.message).toMatch(/2 tensors cannot be read:\n.*tensor "a": .+\n.*tensor "b": .+$/);
  });

  it('says what other files are', () => {
    const said = (name: string): string => refusal(fixturePath(name)).message;
    expect(said('safetensors-as-bin.bin')).toContain('safeOpen');
    expect(said('lfs-pointer.bin')).toContain('Git LFS');
    expect(said('np-savez.npz')).toContain('open() reads');
    expect(said('zip-torchscript.pt')).toContain('TorchScript');
    const tar = Buffer.alloc(1024);
    tar.write('pickle');
    tar.write('ustar', 257);
    writeFileSync(join(folder, 'old.pt'), tar);
    expect(refusal(join(folder, 'old.pt')).message).toContain('tar archive');
  });

  it('reads archives without checksums, in which the CRC-32 of every entry is 0', async () => {
    const bytes = readFileSync(fixturePath('zip-state-dict.pt'));
    const { entries } = readArchive(readerOf(bytes), {});
    const checksums = Array.from(entries.values(), ({ crc32 }) => crc32 ?? 0);
    const zeroed = (some: readonly number[]): string => {
      const copy = Buffer.from(bytes);
      for (const checksum of some) {
        const text = Buffer.from(Uint32Array.of(checksum).buffer);
        for (let at = copy.indexOf(text); at !== -1; at = copy.indexOf(text))
          copy.fill(0, at, at + 4);
      }
      const path = join(folder, `without-${some.length}.pt`);
      writeFileSync(path, copy);
      return path;
    };
    const path = zeroed(checksums);
    using checkpoint = openTorchCheckpoint(path);
    expect((await checkpoint.verify()).problems).toEqual([]);
    expect(checkpoint.size).toBe(7);
    expect(scanPickle(path, { verify: true }).verdict).toBe('safe');
    const one = zeroed(checksums.slice(0, 1));
    expect(refusal(one).code).toBe('SAFETENSORS_CHECKSUM_MISMATCH');
    expect(scanPickle(one, { verify: true }).verdict).toBe('suspicious');
  });

  it('opens an empty state dict', () => {
    using checkpoint = openTorchCheckpoint(legacyFile('}', {}));
    expect([checkpoint.size, checkpoint.keys(), [...checkpoint]]).toEqual([0, [], []]);
  });

  it('refuses unknown options and values', () => {
    const path = fixturePath('zip-state-dict.pt');
    const wrong = (options: object) => () => openTorchCheckpoint(path, options);
    expect(wrong({ unknown: 1 })).toThrow(TypeError);
    expect(wrong({ unknownGlobals: 'allow' })).toThrow(RangeError);
    expect(wrong({ limits: { maxDepth: 0 } })).toThrow(RangeError);
    expect(wrong({ limits: { maxEntries: 0 } })).toThrow(RangeError);
    expect(wrong({ limits: { maxTensorByteLength: '7' } })).toThrow(TypeError);
    const low = { maxPickleByteLength: 10, maxEntries: 2, maxTensorByteLength: 7 };
    for (const [name, limit] of Object.entries(low)) {
      expect(refusal(path, { limits: { [name]: limit } }).message).toContain(`limits.${name}`);
    }
  });
});

describe('a checkpoint in several files', () => {
  const index = join(folder, 'pytorch_model.bin.index.json');
  cpSync(fixturePath('zip-state-dict.pt'), join(folder, 'pytorch_model-00001-of-00002.bin'));
  cpSync(fixturePath('zip-tied.pt'), join(folder, 'pytorch_model-00002-of-00002.bin'));
  const write = (map: Record<string, string>, path = index): void =>
    writeFileSync(path, JSON.stringify({ metadata: { total_size: 1 }, weight_map: map }));
  const shard = (number: number): string => `pytorch_model-0000${number}-of-00002.bin`;

  it('is opened by its index, with the members of one file', async () => {
    write({ 'l1.weight': shard(1), other: shard(2), 'embed.weight': shard(2) });
    using checkpoint = openTorchCheckpoint(index);
    expect(checkpoint.format).toBe('torch');
    expect(checkpoint.keys()).toEqual(['embed.weight', 'l1.weight', 'other']);
    expect(checkpoint.shards).toEqual([shard(1), shard(2)]);
    expect([...checkpoint].map(([name]) => name).toSorted()).toEqual(checkpoint.keys());
    expect(checkpoint.info('other').shape).toEqual([2, 3]);
    expect(checkpoint.getTensors(['other']).get('other')?.byteLength).toBe(24);
    const loaded = await checkpoint.readTensors(['other', 'l1.weight']);
    expect([...loaded.keys()]).toEqual(['other', 'l1.weight']);
    await checkpoint.prefetch();
    expect(await checkpoint.extra()).toEqual(new Map([1, 2].map((n) => [shard(n), new Map()])));
    expect(checkpoint.toJSON()).toMatchObject({ path: index, ok: true, size: 3 });
    checkpoint.close();
    expect([checkpoint.ok, () => checkpoint.keys()][0]).toBe(false);
    expect(() => checkpoint.getTensor('other')).toThrow(FileClosedError);
  });

  it.each(['pytorch_model.bin.index.fp16.json', 'w.json'])(
    'is opened by an index called %s, and listed by the command line',
    async (name) => {
      const path = join(folder, name);
      write({ 'l1.weight': shard(1) }, path);
      using checkpoint = openTorchCheckpoint(path);
      expect(checkpoint.keys()).toEqual(['l1.weight']);
      expect(await detectFormat(path)).toMatchObject({ path, format: 'torch' });
      expect(await printed(['inspect', path])).toContain('l1.weight');
    },
  );

  it('is refused when a shard is missing, lies elsewhere or lacks a tensor', () => {
    const code = (map: Record<string, string>): string => {
      write(map);
      try {
        openTorchCheckpoint(index).close();
      } catch (error) {
        return (error as { code: string }).code;
      }
      return 'none';
    };
    expect(code({ a: 'pytorch_model-00003-of-00002.bin' })).toBe('SAFETENSORS_MISSING_SHARDS');
    expect(code({ a: '../x.bin' })).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
    expect(code({ a: 'model.safetensors' })).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
    expect(code({ other: shard(1) })).toBe('SAFETENSORS_INDEX_MISMATCH');
  });
});

it('refuses a stream that is a tar archive too, which full torch.load opens', () => {
  const path = scanFixture('scan-legacy-tar-polyglot.pt');
  expect(() => openTorchCheckpoint(path)).toThrow('a tar archive too');
});
