/** Colours of data. Okabe and Ito's eight differ for all kinds of colour vision; texts repeat what they show. */

const CATEGORIES = [
  '#0072b2',
  '#e69f00',
  '#009e73',
  '#cc79a7',
  '#56b4e9',
  '#d55e00',
  '#f0e442',
  '#8c8c8c',
];

/** Kinds that are in most checkpoints have the same colours in all of them. */
const CANONICAL = ['BF16', 'F32', 'F16', 'F8_E4M3', 'U8', 'I64'];

/** The colour of a dtype or a scheme, among those of a source. */
export function kindColour(kind: string, kinds: readonly string[]): string {
  const usual = CANONICAL.indexOf(kind);
  const others = kinds.filter((one) => !CANONICAL.includes(one));
  const at = usual === -1 ? CANONICAL.length + others.indexOf(kind) : usual;
  return CATEGORIES[at % CATEGORIES.length] as string;
}

/** Dashes of lines: with them two lines of one lightness differ for everybody. */
const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 3]];

/** Colours of lines, which are seen on light and on dark ground. */
const LINES = ['#2f7fc1', '#d0660a', '#119a77', '#c264a0', '#8a8a8a'];

/** The colour and the dash of a line by its number. */
export function lineStyle(at: number): { colour: string; dash: readonly number[] } {
  return {
    colour: LINES[at % LINES.length] as string,
    dash: DASHES[at % DASHES.length] as readonly number[],
  };
}
