/** Short headers are read into the same memory, one after the other: none may see another one's tensors. */
import { describe, expect, test } from 'vitest';
import { type Header, scanHeader } from '../../src/format/header.js';
import { inOneGo, type Slices } from '../../src/json/slices.js';
import { thrownBy } from './header-files.js';

/** More tensors than this keep the memory that their header was read into: a quarter of its rows. */
const KEPT = 1500;

/** The scanner at the start of a header of so many tensors, the last of which stands first. */
function begin(count: number, end = '}'): Slices<Header> {
  const tensors = Array.from({ length: count }, (_, i) => {
    const place = count - 1 - i;
    const offsets = `[${place * count},${(place + 1) * count}]`;
    return `"${count}.${place}":{"dtype":"U8","shape":[${count}],"data_offsets":${offsets}}`;
  });
  const json = new TextEncoder().encode(`{${tensors.join()}${end}`);
  return scanHeader(json, count * count, {});
}

/** Fails unless a header says of its tensors what it said at first. */
function expectOwn(header: Header, count: number): void {
  expect(header.size).toBe(count);
  for (let entry = 0; entry < count; entry++) {
    const name = `${count}.${entry}`;
    expect([header.name(entry), header.find(name), header.shape(entry)]).toEqual([
      name,
      entry,
      [count],
    ]);
    expect([header.begin(entry), header.end(entry)]).toEqual([entry * count, (entry + 1) * count]);
  }
}

describe('headers', () => {
  test('stay as they are while others are read', () => {
    const counts = [3, KEPT, 2, KEPT + 1, 300, 1, 4];
    const headers = counts.map((count) => inOneGo(begin(count)));
    for (const [i, count] of counts.entries()) expectOwn(headers[i] as Header, count);
  });

  test('can be read in turns', () => {
    const counts = [700, 600, KEPT, 5, 650];
    const under = new Map(counts.map((count) => [count, begin(count)]));
    const found = new Map<number, Header>();
    let turns = 0;
    for (; under.size > 0; turns++) {
      for (const [count, work] of under) {
        const next = work.next();
        if (next.done !== true) continue;
        found.set(count, next.value);
        under.delete(count);
      }
    }
    expect(turns).toBeGreaterThan(5);
    for (const count of counts) expectOwn(found.get(count) as Header, count);
  });

  test('do not see what is left of one that is bad, or that nobody has read to its end', () => {
    const first = inOneGo(begin(600));
    expect(thrownBy(() => inOneGo(begin(900, '')))).toMatchObject({
      code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
    });
    const unfinished = begin(800);
    unfinished.next();
    const second = inOneGo(begin(2));
    unfinished.return(first);
    const third = inOneGo(begin(601));
    expectOwn(first, 600);
    expectOwn(second, 2);
    expectOwn(third, 601);
  });
});
