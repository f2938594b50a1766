/** The order of strings by code points, which is also the order of their UTF-8 bytes. */

/** Surrogates stand for code points above all others, though their units are below U+E000. */
function rankOf(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** Compares by code points, for `sort`: negative, zero or positive. `<` would compare UTF-16 units. */
export function compareCodePoints(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rankOf(left) - rankOf(right);
  }
  return a.length - b.length;
}
