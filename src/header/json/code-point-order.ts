/**
 * The order of strings by their code points, which is the order of their UTF-8 bytes: that of names
 * and metadata keys in a header. JavaScript's own goes by UTF-16 units and puts U+1F600 before
 * U+FB01.
 */

const FIRST_SURROGATE = 0xd800;
const FIRST_BEHIND_SURROGATES = 0xe000;

/** Half of a character beyond 16 bits: strings without one are in their order as JavaScript compares them. */
export const SURROGATE: RegExp = /[\ud800-\udfff]/;

/** Negative, zero or positive, as `Array.prototype.sort` asks. Both strings are well-formed. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const unitA = a.charCodeAt(i);
    const unitB = b.charCodeAt(i);
    if (unitA !== unitB) return weightOf(unitA) - weightOf(unitB);
  }
  return a.length - b.length;
}

/**
 * Sorts in place by the names. Without surrogates JavaScript's order is the same, and comparing with
 * it is three times as fast.
 */
export function sortByName<Item>(items: Item[], nameOf: (item: Item) => string): void {
  if (items.some((item) => SURROGATE.test(nameOf(item)))) {
    items.sort((a, b) => compareCodePoints(nameOf(a), nameOf(b)));
    return;
  }
  items.sort((a, b) => {
    const nameA = nameOf(a);
    const nameB = nameOf(b);
    if (nameA === nameB) return 0;
    return nameA < nameB ? -1 : 1;
  });
}

/** Surrogates stand for code points above all others. */
function weightOf(unit: number): number {
  return unit >= FIRST_SURROGATE && unit < FIRST_BEHIND_SURROGATES ? unit + 0x10000 : unit;
}
