import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Header, parseHeader } from '../../src/header/header.js';
import { type HeaderEntries, layOutEntries } from '../../src/header/header-copy.js';
import { layOut } from '../../src/header/header-writer.js';
import { type NamedTensorSpec, readSpec } from '../../src/header/tensor-spec.js';
import type { Dtype } from '../support/api.js';
import { arbitraryTensors } from '../write/save/arbitrary-tensors.js';
import { thrownBy } from './header-files.js';

/** The header of these tensors in this order, with other choices that a writer has. */
function headerOf(
  specs: readonly NamedTensorSpec[],
  spell: (name: string) => string = JSON.stringify,
  space = '',
): Header {
  let end = 0;
  const fields = specs.map(({ name, dtype, shape, byteLength }) => {
    const begin = end;
    end += byteLength;
    const dimensions = shape.map((dimension) => space + dimension + space).join();
    const offsets = `[${begin},${space}${end}]`;
    return `${spell(name)}:{${space}"dtype":"${dtype}","shape":[${dimensions}],"data_offsets":${offsets}}`;
  });
  const json = new TextEncoder().encode(`{${fields.join(`,${space}`)}}`);
  return parseHeader(json, 8 + json.length + end);
}

/** All tensors of some headers. */
function entriesOf(headers: readonly Header[]): { entries: HeaderEntries; numbers: number[] } {
  const places = headers.flatMap((header) =>
    Array.from({ length: header.size }, (_, entry) => ({ header, entry })),
  );
  const entries: HeaderEntries = {
    header: (number) => places[number]?.header as Header,
    entry: (number) => places[number]?.entry as number,
  };
  return { entries, numbers: [...places.keys()] };
}

/** Every character as an escape. */
function escaped(name: string): string {
  const units = Array.from({ length: name.length }, (_, i) => name.charCodeAt(i));
  return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}"`;
}

const tensor = fc
  .tuple(
    fc.constantFrom<Dtype>('BOOL', 'U8', 'BF16', 'F32', 'I64', 'F4'),
    fc.array(fc.nat(300), { maxLength: 4 }),
  )
  .map(([dtype, shape]) => ({ dtype, shape: dtype === 'F4' ? [...shape, 2] : shape }));

const specs = arbitraryTensors(12, tensor).map((pairs) =>
  pairs.map(([name, spec]) => readSpec(name, spec)),
);

describe('layOutEntries', () => {
  test('gives what layOut gives of the same tensors, however the headers spell them', () => {
    const metadata = fc.option(fc.constant({ format: 'pt', é: '\n' }));
    const isEscaped = fc.boolean();
    const space = fc.constantFrom('', ' ', '\n\t');
    fc.assert(
      fc.property(
        specs,
        metadata,
        isEscaped,
        space,
        fc.nat(12),
        (all, metadata, is, space, cut) => {
          const halves = [all.slice(0, cut), all.slice(cut)];
          const spell = is ? escaped : JSON.stringify;
          const headers = halves.map((half) => headerOf(half, spell, space));
          const { entries, numbers } = entriesOf(headers);
          const copied = layOutEntries(entries, numbers, metadata);
          const expected = layOut(all, { metadata });
          expect(Buffer.from(copied.header)).toEqual(Buffer.from(expected.header));
          expect(copied.byteLength).toBe(expected.byteLength);
          const names = Array.from(copied.numbers, (number) =>
            entries.header(number).name(entries.entry(number)),
          );
          expect(names).toEqual(expected.placed.map(({ spec }) => spec.name));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('takes only the numbers that are asked for', () => {
    const all = ['b', 'a', 'c'].map((name) => readSpec(name, { dtype: 'U8', shape: [2] }));
    const { entries } = entriesOf([headerOf(all)]);
    const { header, numbers } = layOutEntries(entries, [2, 1], null);
    expect([...numbers]).toEqual([1, 2]);
    const expected = layOut(all.slice(1)).header;
    expect(Buffer.from(header)).toEqual(Buffer.from(expected));
  });

  test('refuses more data than positions can tell, as layOut does', () => {
    const dimension = Number.MAX_SAFE_INTEGER - 200_000_000;
    const large = (name: string): NamedTensorSpec =>
      readSpec(name, { dtype: 'U8', shape: [dimension] });
    const two = entriesOf([headerOf([large('a')]), headerOf([large('b')])]);
    expect(thrownBy(() => layOutEntries(two.entries, two.numbers, null))).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
    });
  });

  test('refuses too long a header, as layOut does', () => {
    // Its bytes are counted before its names are compared.
    const long = headerOf([readSpec('a'.repeat(5_000_000), { dtype: 'U8', shape: [] })]);
    const { entries, numbers } = entriesOf(Array(20).fill(long));
    expect(thrownBy(() => layOutEntries(entries, numbers, null))).toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_LARGE',
    });
  });
});
