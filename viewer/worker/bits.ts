/** Elements as the bits they are stored as: sign, exponent and fraction apart. */

import type { Dtype, Tensor } from 'safetensors-mmap';

/** Lengths of the fields of an element, the highest bits first; of others the groups are bytes. */
const FIELDS: Partial<Record<Dtype, readonly number[]>> = {
  F64: [1, 11, 52],
  F32: [1, 8, 23],
  C64: [1, 8, 23],
  F16: [1, 5, 10],
  BF16: [1, 8, 7],
  F8_E4M3: [1, 4, 3],
  F8_E4M3FNUZ: [1, 4, 3],
  F8_E5M2: [1, 5, 2],
  F8_E5M2FNUZ: [1, 5, 2],
  F8_E8M0: [8],
  F6_E2M3: [1, 2, 3],
  F6_E3M2: [1, 3, 2],
  F4: [1, 2, 1],
};

function grouped(digits: string, dtype: Dtype): string {
  const fields = FIELDS[dtype] ?? Array<number>(digits.length / 8).fill(8);
  let begin = 0;
  return fields
    .map((length) => {
      begin += length;
      return digits.slice(begin - length, begin);
    })
    .join(' ');
}

/** The bits of every element of whole bytes; of C64 real and imaginary part, with a comma between. */
export function formatBits({ dtype, bytes, elementCount }: Tensor): string[] {
  const width = elementCount === 0 ? 0 : bytes.length / elementCount;
  const text = (begin: number, end: number) => {
    // The format is little-endian: the last byte has the highest bits.
    const digits = Array.from(bytes.subarray(begin, end), (byte) =>
      byte.toString(2).padStart(8, '0'),
    );
    return grouped(digits.reverse().join(''), dtype);
  };
  return Array.from({ length: elementCount }, (_, at) => {
    const [begin, end] = [at * width, (at + 1) * width];
    if (dtype !== 'C64') return text(begin, end);
    return `${text(begin, begin + 4)}, ${text(begin + 4, end)}`;
  });
}

/** The value of a code of fewer bits than a byte. */
function packedValue(code: number, exponentBits: number, fractionBits: number): number {
  const bias = 2 ** (exponentBits - 1) - 1;
  const fraction = (code % 2 ** fractionBits) / 2 ** fractionBits;
  const exponent = Math.floor(code / 2 ** fractionBits) % 2 ** exponentBits;
  const size =
    exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias);
  return code >> (exponentBits + fractionBits) === 1 ? -size : size;
}

/** The bits of values of F4 or F6: every code has a separate value. */
export function packedCodes(dtype: Dtype, values: Float32Array): string[] {
  const [, exponentBits = 0, fractionBits = 0] = FIELDS[dtype] ?? [];
  const length = 1 + exponentBits + fractionBits;
  const codes = Array.from({ length: 2 ** length }, (_, code) =>
    packedValue(code, exponentBits, fractionBits),
  );
  return Array.from(values, (value) => {
    const code = codes.findIndex((one) => Object.is(one, value));
    return grouped(code.toString(2).padStart(length, '0'), dtype);
  });
}
