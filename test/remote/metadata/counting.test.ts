/** Any configuration of any model: parameters are counted as `@huggingface/hub` counts them. */
import * as theirs from '@huggingface/hub';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import * as ours from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { nightly } from '../../support/nightly.js';
import { shardedFiles, tensorFile } from './repositories.js';

/** A value, or none. */
function maybe<Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> {
  return fc.option(arbitrary, { nil: undefined });
}

const MODULES = ['m', 'q', 'lm_head', 'experts', '0', 'shared_experts', 'self_attn'];
const LAST_PARTS =
  'weight bias scale scales biases qweight qzeros g_idx weight_packed weight_scale weight_shape zero_point ' +
  'x_blocks x_scales absmax quant_map bitsandbytes__nf4 weight_scale_inv input_scale';
const name = fc
  .tuple(
    fc.array(fc.constantFrom(...MODULES), { maxLength: 3 }),
    fc.constantFrom(...LAST_PARTS.split(' ')),
  )
  .map(([modules, last]) => [...modules, last].join('.'));
const tensor = fc
  .tuple(
    fc.constantFrom(...'U8 I8 I32 U32 I16 U16 F16 BF16 F32 F8_E4M3 F8_E8M0 I64'.split(' ')),
    fc.constantFrom('', '0', '3', '4x8', '2x3x5', '7x0'),
  )
  .map((parts) => parts.join(' '));
const tensors = fc.dictionary(name, tensor, { minKeys: 1, maxKeys: 12, noNullPrototype: true });

const bits = maybe(fc.constantFrom(-1, 0, 1, 2, 3, 4, 5, 6, 8, 16, 32));
const patterns = maybe(
  fc.array(
    fc.constantFrom(
      ...'lm_head m q m.q *.q m.* *self_attn* Linear'.split(' '),
      ...['re:.*head$', 're:^m\\.q', 're:m.(q|k)', 're:.*\\.experts\\..*'],
    ),
    { maxLength: 3 },
  ),
);
const format = maybe(
  fc.constantFrom(
    'pack-quantized',
    'nvfp4-pack-quantized',
    'MXFP4-pack-quantized',
    'int2-pack-quantized',
    'dense',
  ),
);
const narrow = maybe(fc.constantFrom('fp4', 'fp8', 'mxfp4', 'int2', 'NF4'));
const mode = maybe(fc.constantFrom('affine', 'mxfp4', 'nvfp4', 'mxfp8', 'Affine', 'x'));
const group_size = maybe(fc.constantFrom(7, 16, 32, 64, 128));
const METHODS = 'gptq AWQ mxfp4 bitsandbytes compressed-tensors fp8 mlx MLX other'.split(' ');
const section = fc.record(
  {
    quant_method: maybe(fc.constantFrom(...METHODS)),
    bits,
    group_size,
    mode,
    load_in_4bit: maybe(fc.boolean()),
    modules_to_not_convert: patterns,
    ignore: patterns,
    format,
    expert_dtype: narrow,
    store_dtype: narrow,
    config_groups: maybe(
      fc.dictionary(
        fc.constantFrom('a', 'b'),
        fc.record({ targets: patterns, format, weights: maybe(fc.record({ num_bits: bits })) }),
      ),
    ),
    'm.q': maybe(fc.oneof(fc.constant(false), fc.record({ bits, group_size, mode }))),
  },
  { requiredKeys: [] },
);
const parts = { quantization: section, quantization_config: section, expert_dtype: narrow };
const config = fc.record(
  { ...parts, text_config: fc.record(parts, { requiredKeys: [] }) },
  { requiredKeys: [] },
);

/** A `fetch` for these files. */
function fetchFrom(files: Readonly<Record<string, unknown>>): typeof fetch {
  return async (input, init) => {
    const url = input instanceof Request ? input.url : input;
    const content = files[new URL(url).pathname.split('/').at(-1) ?? ''];
    if (content === undefined) {
      return new Response(null, { status: 404, headers: { 'X-Error-Code': 'EntryNotFound' } });
    }
    const bytes = Buffer.from(content as string | Uint8Array);
    const range = new Headers(init?.headers).get('range') ?? '';
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (first === undefined) return new Response(bytes);
    const piece = bytes.subarray(Number(first), Number(last) + 1);
    const end = Number(first) + piece.length - 1;
    return new Response(piece, {
      status: 206,
      headers: { ETag: '"x"', 'Content-Range': `bytes ${first}-${end}/${bytes.length}` },
    });
  };
}

beforeEach(() => useHub('http://127.0.0.1:1'));
afterEach(() => vi.unstubAllEnvs());

it('for any tensors and any configuration both functions count the same', async () => {
  await fc.assert(
    fc.asyncProperty(
      tensors,
      tensors,
      config,
      fc.boolean(),
      async (some, more, config, isSharded) => {
        const others = Object.entries(more).filter(([name]) => !(name in some));
        const shards = { 'a.safetensors': some, 'b.safetensors': Object.fromEntries(others) };
        const files = {
          ...(isSharded ? shardedFiles(shards) : { 'model.safetensors': tensorFile(some) }),
          'config.json': JSON.stringify(config),
        };
        const params = {
          repo: 'org/name',
          fetch: fetchFrom(files),
          computeParametersCount: true,
        } as const;
        const expected = await theirs.parseSafetensorsMetadata(params);
        const found = await ours.parseSafetensorsMetadata(params);
        expect(found).toEqual(expected);
      },
    ),
    { numRuns: nightly(300, 100) },
  );
});

it('for any header and any section both count one file the same', () => {
  const header = fc.dictionary(name, tensor, { maxKeys: 12, noNullPrototype: true });
  fc.assert(
    fc.property(header, maybe(section), narrow, (some, quantConfig, expertDtype) => {
      const entries = Object.entries(some).map(([key, text]) => {
        const [dtype, dimensions] = text.split(' ');
        const shape = dimensions === '' ? [] : dimensions?.split('x').map(Number);
        return [key, { dtype, shape, data_offsets: [0, 0] }];
      });
      const record = { ...Object.fromEntries(entries), __metadata__: { total_parameters: '7' } };
      const expected = theirs.computeNumOfParamsByDtypeSingleFile(
        record,
        quantConfig as never,
        expertDtype,
      );
      expect(ours.computeNumOfParamsByDtypeSingleFile(record, quantConfig, expertDtype)).toEqual(
        expected,
      );
    }),
    { numRuns: nightly(3000, 500) },
  );
});

it.each([
  [null, undefined, undefined],
  [{}, null, undefined],
  [{}, undefined, 4],
  [{ t: null }, undefined, undefined],
  [{ t: { dtype: 'F32' } }, undefined, undefined],
  [{ t: { dtype: 'F32', shape: ['1'] } }, undefined, undefined],
  [{ t: { shape: [1] } }, undefined, undefined],
])('does not count %j with %j and %j', (header, quantConfig, expertDtype) => {
  expect(() =>
    ours.computeNumOfParamsByDtypeSingleFile(
      header as never,
      quantConfig as never,
      expertDtype as never,
    ),
  ).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }));
});
