/** Texts of any characters, for properties. */
import fc from 'fast-check';

const SURROGATES = 0xd800;
const SURROGATE_COUNT = 0x800;

function characterOf(number: number): string {
  return String.fromCodePoint(number < SURROGATES ? number : number + SURROGATE_COUNT);
}

/** The number of a character; throws for all other values, as fast-check expects. */
function numberOf(character: unknown): number {
  const point = typeof character === 'string' ? (character.codePointAt(0) ?? -1) : -1;
  const number = point < SURROGATES ? point : point - SURROGATE_COUNT;
  if (number < 0 || characterOf(number) !== character) throw new Error('not a character');
  return number;
}

const character = fc
  .integer({ min: 0, max: 0x10ffff - SURROGATE_COUNT })
  .map(characterOf, numberOf);

/**
 * Any text without lone surrogates, names such as `__proto__` included. As `fc.string({ unit: 'binary' })`, for which
 * fast-check lists all 1.1 million characters first.
 */
export function anyText(options: { readonly maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ ...options, unit: character });
}
