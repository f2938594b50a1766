/** Counts and lengths, exact and in short. Each keeps its line: where there is no room, the second goes below. */

import { bytesText, groupedText, shortCountText } from './format.js';

/** A count: `6,604,992` and `6.60 M`. */
export function Count({ count }: { count: number }) {
  return (
    <>
      <span class="whole">{groupedText(count)}</span>
      {count >= 1000 && (
        <>
          {' '}
          <small class="whole">{shortCountText(count)}</small>
        </>
      )}
    </>
  );
}

/** A length in bytes: `13.2 MB` and `13,209,984`. */
export function Bytes({ byteLength }: { byteLength: number }) {
  return (
    <>
      <span class="whole">{bytesText(byteLength)}</span>
      {byteLength >= 1000 && (
        <>
          {' '}
          <small class="whole">{groupedText(byteLength)}</small>
        </>
      )}
    </>
  );
}
