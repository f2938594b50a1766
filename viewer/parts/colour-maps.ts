/** Colours of numbers: two maps that differ in lightness for everybody, from white or black over their middle. */

type Rgb = readonly [red: number, green: number, blue: number];

/** From few to many: dark blue over grey to yellow, which the colour-blind see as others do (after cividis). */
const SEQUENTIAL: readonly Rgb[] = [
  [0, 34, 78],
  [44, 65, 110],
  [87, 93, 109],
  [125, 124, 120],
  [166, 157, 117],
  [210, 193, 98],
  [253, 234, 69],
];

/** Below and above zero: blue and orange, with the ground of the page between. */
const BELOW: readonly Rgb[] = [
  [86, 160, 216],
  [0, 84, 160],
  [0, 32, 77],
];
const ABOVE: readonly Rgb[] = [
  [240, 160, 70],
  [196, 84, 0],
  [92, 30, 0],
];
const DARK_BELOW: readonly Rgb[] = [
  [20, 70, 120],
  [60, 140, 210],
  [190, 225, 255],
];
const DARK_ABOVE: readonly Rgb[] = [
  [120, 60, 10],
  [225, 125, 40],
  [255, 225, 180],
];

/** What is no number is shown in a colour that no map has. */
const NOT_A_NUMBER: Rgb = [204, 0, 153];

function between(colours: readonly Rgb[], place: number): Rgb {
  const at = Math.min(1, Math.max(0, place)) * (colours.length - 1);
  const low = Math.min(colours.length - 2, Math.floor(at));
  const [a, b] = [colours[low] as Rgb, colours[low + 1] as Rgb];
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(a[channel] + (b[channel] - a[channel]) * (at - low));
  return [mix(0), mix(1), mix(2)];
}

/** Numbers of a map: one looks up 256 colours. */
const LEVELS = 256;

/** Gives the colour of a number. */
export type ColourMap = (value: number) => Rgb;

function lookup(colourAt: (place: number) => Rgb, placeOf: (value: number) => number): ColourMap {
  const table = Array.from({ length: LEVELS }, (_, level) => colourAt(level / (LEVELS - 1)));
  return (value) => {
    if (Number.isNaN(value)) return NOT_A_NUMBER;
    const level = Math.round(Math.min(1, Math.max(0, placeOf(value))) * (LEVELS - 1));
    return table[level] as Rgb;
  };
}

/** Colours from `min` to `max`. */
export function sequentialMap(min: number, max: number): ColourMap {
  const span = max - min || 1;
  return lookup(
    (place) => between(SEQUENTIAL, place),
    (value) => (max === min ? 0.5 : (value - min) / span),
  );
}

/** Colours from `-limit` over 0 to `limit`. */
export function divergingMap(limit: number, isDark: boolean): ColourMap {
  const ground: Rgb = isDark ? [29, 29, 27] : [250, 250, 248];
  const [below, above] = isDark ? [DARK_BELOW, DARK_ABOVE] : [BELOW, ABOVE];
  return lookup(
    (place) => between([ground, ...(place < 0.5 ? below : above)], Math.abs(place - 0.5) * 2),
    (value) => 0.5 + value / (2 * limit || 1),
  );
}

/** A colour for CSS. */
export function cssColour([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}
