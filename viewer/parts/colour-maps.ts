/**
 * Colours of numbers. Palettes have equal steps of lightness in OKLab, so everybody sees their order; the neutral of
 * the diverging ones, and 0 of the sequential ones, differ from the ground of cards.
 */

type Rgb = readonly [red: number, green: number, blue: number];

function palette(text: string): readonly Rgb[] {
  return text.split(' ').map((digits) => {
    const at = (begin: number) => Number.parseInt(digits.slice(begin, begin + 2), 16);
    return [at(0), at(2), at(4)] as const;
  });
}

/** From the least to the most, which has the highest contrast with cards. */
const SEQUENTIAL = {
  light: palette('e9e9c7 c9daaa a1cc97 72bd8f 36ad8f 009890 01818b 036b82 00557a 003e75 19285f'),
  dark: palette('293556 214871 025e84 01748b 038a91 07a193 09b98b 65ca80 9fd778 d2e27c feed8c'),
};

/** From less, blue, over neutral to more, orange. */
const DIVERGING = {
  light: palette('005ba7 2175c7 5191d6 7bace3 a7c7ec dfdfdf e6b8a0 d99670 c87543 b55300 8f4100'),
  dark: palette('90cbff 5baff5 5093cb 4677a1 3f5c77 414141 705239 97663d bd7c43 e3934b ffb06e'),
};

/** What is no number is shown in a colour that no map has. */
const NOT_A_NUMBER = { light: palette('bf007d')[0] as Rgb, dark: palette('ff65c6')[0] as Rgb };

/** Mixes neighbours by their light, not by their codes. */
function between(colours: readonly Rgb[], place: number): Rgb {
  const at = Math.min(1, Math.max(0, place)) * (colours.length - 1);
  const low = Math.min(colours.length - 2, Math.floor(at));
  const [a, b] = [colours[low] as Rgb, colours[low + 1] as Rgb];
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(Math.sqrt(a[channel] ** 2 + (b[channel] ** 2 - a[channel] ** 2) * (at - low)));
  return [mix(0), mix(1), mix(2)];
}

/** Numbers of a map: one looks up 256 colours. */
const LEVELS = 256;

/** Gives the colour of a number. */
export type ColourMap = (value: number) => Rgb;

function lookup(
  { light, dark }: typeof SEQUENTIAL,
  isDark: boolean,
  placeOf: (value: number) => number,
): ColourMap {
  const none = NOT_A_NUMBER[isDark ? 'dark' : 'light'];
  const table = Array.from({ length: LEVELS }, (_, level) =>
    between(isDark ? dark : light, level / (LEVELS - 1)),
  );
  return (value) => {
    if (Number.isNaN(value)) return none;
    const level = Math.round(Math.min(1, Math.max(0, placeOf(value))) * (LEVELS - 1));
    return table[level] as Rgb;
  };
}

/** Colours from 0 to `max`. */
export function sequentialMap(max: number, isDark: boolean): ColourMap {
  return lookup(SEQUENTIAL, isDark, (value) => value / (max || 1));
}

/** Colours from `-limit` over 0 to `limit`. */
export function divergingMap(limit: number, isDark: boolean): ColourMap {
  return lookup(DIVERGING, isDark, (value) => 0.5 + value / (2 * limit || 1));
}

/** A colour for CSS. */
export function cssColour([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

/** The colours of a map between two values, for a bar. */
export function cssRamp(map: ColourMap, min: number, max: number): string {
  const stops = Array.from({ length: 21 }, (_, at) =>
    cssColour(map(min + ((max - min) * at) / 20)),
  );
  return `linear-gradient(90deg, ${stops.join(', ')})`;
}

/** Black or white, whichever contrasts more with a colour of CSS. */
export function inkOn(colour: string): string {
  const channels = colour.startsWith('#')
    ? (palette(colour.slice(1))[0] as Rgb)
    : (colour.match(/\d+/g) ?? []).map(Number);
  const [red = 0, green = 0, blue = 0] = channels.map((code) => {
    const share = code / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? '#000000' : '#ffffff';
}
