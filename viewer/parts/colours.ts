/** Colours of data. Okabe and Ito's eight differ for all kinds of colour vision; texts beside them say the same. */

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
const USUAL = ['BF16', 'F32', 'F16', 'F8_E4M3', 'U8', 'I64'];

/** The colour of a dtype or a scheme, among those of a source. */
export function kindColour(kind: string, kinds: readonly string[]): string {
  const usual = USUAL.indexOf(kind);
  const others = kinds.filter((one) => !USUAL.includes(one));
  const at = usual === -1 ? USUAL.length + others.indexOf(kind) : usual;
  return CATEGORIES[at % CATEGORIES.length] as string;
}
