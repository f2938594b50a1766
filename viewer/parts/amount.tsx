/** Counts and lengths, exact and in short. Each keeps its line: where there is no room, the second goes below. */

import { formatBytes, formatInteger, formatShortCount } from './format.js';

/** A count: `6,604,992` and `6.60 M`. */
export function Count({ count }: { count: number }) {
  return (
    <>
      <span class="whole">{formatInteger(count)}</span>
      {count >= 1000 && (
        <>
          {' '}
          <small class="whole">{formatShortCount(count)}</small>
        </>
      )}
    </>
  );
}

/** A length in bytes: `13.2 MB` and `13,209,984`. */
export function Bytes({ byteLength }: { byteLength: number }) {
  return (
    <>
      <span class="whole">{formatBytes(byteLength)}</span>
      {byteLength >= 1000 && (
        <>
          {' '}
          <small class="whole">{formatInteger(byteLength)}</small>
        </>
      )}
    </>
  );
}
