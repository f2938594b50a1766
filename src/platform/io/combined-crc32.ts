/** The CRC-32 of bytes from those of their parts, which several threads compute. */

/** The polynomial without its highest power; bit 31 is the power 0. */
const POLYNOMIAL = 0xedb88320;

const [ONE, X] = [0x80000000, 0x40000000];

/** Returns the CRC-32 of bytes followed by `byteLength` others, from the CRC-32 of each. */
export function combineCrc32(first: number, second: number, byteLength: number): number {
  return (multiply(powerOfX(8 * byteLength), first) ^ second) >>> 0;
}

/** The CRC-32 of bytes whose parts come in order, one range of bytes after the other. */
export class JoinedCrc32 {
  #crc32 = 0;

  /** Adds the part [begin, end), with its CRC-32. Returns the CRC-32 of all bytes up to its end. */
  add(begin: number, end: number, crc32: number): number {
    this.#crc32 = begin === 0 ? crc32 : combineCrc32(this.#crc32, crc32, end - begin);
    return this.#crc32;
  }
}

/** The product of two polynomials, modulo that of CRC-32. */
function multiply(a: number, b: number): number {
  let product = 0;
  let power = b;
  for (let bit = ONE; bit > 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= power;
    power = power & 1 ? (power >>> 1) ^ POLYNOMIAL : power >>> 1;
  }
  return product >>> 0;
}

function powerOfX(exponent: number): number {
  let [power, square] = [ONE, X];
  // No shifts: the exponent may need more than 32 bits.
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}
