/** Tensors that share memory, when some are cast: shared are only those that become the same. */
import { describe, expect, it } from 'vitest';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from '../../foreign/torch/legacy-file.js';
import { type ConvertedCheckpoint, convert, type Dtype, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

/** Converts `a` and `b`, which are one tensor of F32, to these dtypes. */
async function convertTied(
  dtypes: Readonly<Record<string, Dtype>>,
): Promise<ConvertedCheckpoint & { readonly written: Record<string, string> }> {
  const source = legacyFile(
    dict([unicode('a'), tensor('0', [2])], [unicode('b'), tensor('0', [2])]),
    { 0: 2 },
  );
  const target = temporaryPath('model.safetensors');
  const dtype = (name: string): Dtype | undefined => dtypes[name];
  const report = await convert(source, target, { durable: false, dtype });
  using file = safeOpen(target);
  const written = Object.fromEntries(
    file.keys().map((name) => {
      const { dtype, bytes } = file.getTensor(name);
      return [name, `${dtype} ${Buffer.from(bytes).toString('hex')}`];
    }),
  );
  return { ...report, written };
}

describe('tied tensors', () => {
  it('keep the name that comes first in the state dict', async () => {
    const names = ['z', 'a', 'm'].map((name) => [unicode(name), tensor('0', [2])] as const);
    const source = legacyFile(dict(...names), { 0: 2 });
    const target = temporaryPath('model.safetensors');
    const { dropped } = await convert(source, target, { durable: false });
    const expected = { a: 'z', m: 'z' };
    expect(Object.fromEntries(dropped)).toEqual(expected);
  });

  it('that are cast alike are written once, and reported once', async () => {
    const { dropped, cast, overlaps, written } = await convertTied({ a: 'F16', b: 'F16' });
    expect(dropped).toEqual(new Map([['b', 'a']]));
    expect(cast).toEqual(['a']);
    expect(overlaps).toEqual([]);
    expect(written).toEqual({ a: 'F16 0000003c' });
  });

  it('that are cast differently are written both, and have no bytes in common', async () => {
    const { dropped, cast, overlaps, written } = await convertTied({ a: 'F16', b: 'BF16' });
    expect(dropped.size).toBe(0);
    expect(cast).toEqual(['a', 'b']);
    expect(overlaps).toEqual([]);
    expect(written).toEqual({ a: 'F16 0000003c', b: 'BF16 0000803f' });
  });

  it('of which one is cast are written both', async () => {
    const { dropped, cast, overlaps, written } = await convertTied({ b: 'F16' });
    expect(dropped.size).toBe(0);
    expect(cast).toEqual(['b']);
    expect(overlaps).toEqual([]);
    expect(written).toEqual({ a: 'F32 000000000000803f', b: 'F16 0000003c' });
  });
});
