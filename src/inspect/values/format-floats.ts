/** Floating-point numbers as numpy prints them: with the fewest digits that identify each, all in one form. */

/** Most digits after the point. */
const PRECISION = 8;

/** Numbers get an exponent below this, or if they differ by more than the ratio. */
const SMALL = 1e-4;
const LARGE_RATIO = 1000;

/** numpy's facts about a dtype. */
export interface FloatForm {
  /** Whether two numbers are equal in the dtype. */
  readonly isSame: (a: number, b: number) => boolean;
  /** Numbers get an exponent from here on: 10 to the power of the dtype's digits, at most 8. */
  readonly large: number;
  /** The limit for a single number. */
  readonly largeScalar: number;
}

export const FLOAT64_FORM: FloatForm = { isSame: (a, b) => a === b, large: 1e8, largeScalar: 1e16 };
export const FLOAT32_FORM: FloatForm = {
  isSame: (a, b) => Math.fround(a) === Math.fround(b),
  large: 1e6,
  largeScalar: 1e6,
};

/** Digits of every double. */
const MAX_SHOWN_DIGITS = 17;

/** The fewest digits that identify the number, as `-1.25e+3`, with at most `mostBehindPoint` after the point. */
function shortest(value: number, { isSame }: FloatForm, mostBehindPoint: number): string {
  for (let digits = 0; digits < Math.min(MAX_SHOWN_DIGITS - 1, mostBehindPoint); digits++) {
    const text = rounded(value, digits, 'toExponential');
    if (isSame(Number(text), value)) return text;
  }
  return rounded(value, Math.min(MAX_SHOWN_DIGITS - 1, mostBehindPoint), 'toExponential');
}

/** Most digits that JavaScript gives; exact for all but the smallest doubles. */
const MOST_DIGITS = 100;

/** The number with a fixed count of digits after the point; rounds halves to even, unlike JavaScript. */
function rounded(value: number, digits: number, method: 'toExponential' | 'toFixed'): string {
  const up = value[method](digits);
  const [exact = ''] = value[method](MOST_DIGITS).split('e');
  const kept = exact.indexOf('.') + 1 + digits;
  const isHalf = /^50*$/.test(exact.slice(kept));
  const isEven = /[02468]\.?$/.test(exact.slice(0, kept));
  if (!isHalf || !isEven) return up;
  const down = exact.slice(0, kept).replace(/\.$/, '');
  return up.includes('e') ? `${down}e${up.split('e')[1]}` : down;
}

interface Parts {
  readonly whole: string;
  readonly fraction: string;
  /** The exponent with its sign; empty without one. */
  readonly exponent: string;
}

/** The printed sign; `+` only if both signs are printed. */
function signOf(value: number, hasPlus = false): string {
  return value < 0 || Object.is(value, -0) ? '-' : hasPlus ? '+' : '';
}

function scientific(value: number, form: FloatForm, hasPlus: boolean): Parts {
  const [mantissa = '', power = ''] = shortest(Math.abs(value), form, PRECISION).split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = power.replace(/^[+-]/, '').padStart(2, '0');
  return {
    whole: signOf(value, hasPlus) + whole,
    fraction: fraction.replace(/0+$/, ''),
    exponent: (power.startsWith('-') ? '-' : '+') + digits,
  };
}

function positional(value: number, form: FloatForm, hasPlus: boolean): Parts {
  const [mantissa = '', power = ''] = shortest(Math.abs(value), form, MAX_SHOWN_DIGITS).split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(power);
  const decimals = digits.length - 1 - exponent;
  let text: string;
  if (decimals > PRECISION) text = rounded(Math.abs(value), PRECISION, 'toFixed');
  else if (decimals <= 0) text = digits + '0'.repeat(-decimals);
  else {
    const padded = digits.padStart(decimals + 1, '0');
    text = `${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`;
  }
  const [whole = '', fraction = ''] = text.split('.');
  return {
    whole: signOf(value, hasPlus) + whole,
    fraction: fraction.replace(/0+$/, ''),
    exponent: '',
  };
}

function nonFiniteText(value: number, hasPlus = false): string {
  return signOf(value, hasPlus) + (Number.isNaN(value) ? 'nan' : 'inf');
}

/** All numbers of an array as texts of one length; `hasPlus` prints a `+` before other than negative numbers. */
export function formatFloats(
  values: readonly number[],
  form: FloatForm,
  hasPlus = false,
): string[] {
  const finite = values.filter(Number.isFinite);
  const magnitudes = finite.filter((value) => value !== 0).map(Math.abs);
  const most = magnitudes.reduce((a, b) => Math.max(a, b), 0);
  const least = magnitudes.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const hasExponents =
    magnitudes.length > 0 && (most >= form.large || least < SMALL || most / least > LARGE_RATIO);
  const parts = values.map((value) =>
    Number.isFinite(value) ? (hasExponents ? scientific : positional)(value, form, hasPlus) : null,
  );
  let before = 0;
  let fraction = 0;
  let power = 0;
  for (const part of parts) {
    if (part === null) continue;
    before = Math.max(before, part.whole.length);
    fraction = Math.max(fraction, part.fraction.length);
    power = Math.max(power, part.exponent.length);
  }
  // A point, digits, and the `e`.
  const decimals = fraction + 1 + (power === 0 ? 0 : power + 1);
  for (const value of values) {
    if (!Number.isFinite(value)) {
      before = Math.max(before, nonFiniteText(value, hasPlus).length - decimals);
    }
  }
  return values.map((value, i) => {
    const part = parts[i] as Parts | null;
    if (part === null) return nonFiniteText(value, hasPlus).padStart(before + decimals);
    if (power === 0) return `${part.whole.padStart(before)}.${part.fraction.padEnd(fraction)}`;
    // All get the same count of digits; numbers that need fewer are filled with exact ones.
    const [mantissa = '', exact = ''] = rounded(Math.abs(value), fraction, 'toExponential').split(
      'e',
    );
    const whole = (signOf(value, hasPlus) + mantissa.slice(0, 1)).padStart(before);
    const digits = exact.slice(1).padStart(power - 1, '0');
    return `${whole}.${mantissa.slice(2)}e${exact[0]}${digits}`;
  });
}

/** Complex numbers, given as pairs. */
export function formatComplexes(values: readonly number[], form: FloatForm): string[] {
  const real = formatFloats(
    values.filter((_, i) => i % 2 === 0),
    form,
  );
  const imaginary = formatFloats(
    values.filter((_, i) => i % 2 === 1),
    form,
    true,
  );
  return real.map((text, i) => {
    const other = imaginary[i] as string;
    const end = other.trimEnd().length;
    return `${text}${other.slice(0, end)}j${other.slice(end)}`;
  });
}

/** A single number as numpy prints a scalar. */
export function formatScalar(value: number, form: FloatForm): string {
  if (!Number.isFinite(value)) return nonFiniteText(value);
  const magnitude = Math.abs(value);
  const text = shortest(magnitude, form, MAX_SHOWN_DIGITS);
  if (magnitude !== 0 && (magnitude < SMALL || magnitude >= form.largeScalar)) {
    return signOf(value) + text.replace(/e([+-])(\d)$/, 'e$10$2');
  }
  // JavaScript's shortest digits are those of a double, not of a narrower dtype.
  const plain = Number(text).toFixed(20).replace(/0+$/, '');
  const short = String(Number(text));
  return signOf(value) + (/e/.test(short) ? plain : short.includes('.') ? short : `${short}.0`);
}

/** A single complex number as numpy prints a scalar. */
export function formatComplexScalar(real: number, imaginary: number, form: FloatForm): string {
  const text = (value: number): string => formatScalar(value, form).replace(/\.0$/, '');
  if (Object.is(real, 0)) return `${text(imaginary)}j`;
  const sign = text(imaginary).startsWith('-') ? '' : '+';
  return `(${text(real)}${sign}${text(imaginary)}j)`;
}
