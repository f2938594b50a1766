import { expect, it } from 'vitest';
import type { Segment, WholeFile } from '../../../src/remote/download/download-item.js';
import {
  type DownloadPiece,
  PIECE_BYTE_LENGTH,
  piecesFrom,
} from '../../../src/remote/download/pieces.js';
import type { RemoteFile } from '../../../src/remote/remote-file.js';

const file = { path: 'a' } as RemoteFile;
const other = { path: 'b' } as RemoteFile;
const header = new Uint8Array(100);

function planned(segments: readonly Segment[]): WholeFile {
  return { name: 'x', byteLength: 0, segments, hash: null, version: null };
}

/** Begin, end and runs of every piece; the length of one whose bytes are known. */
function shown(pieces: Iterable<DownloadPiece>): unknown[] {
  return Array.from(pieces, (piece) =>
    piece.file === null
      ? piece.bytes.length
      : [piece.begin, piece.end, piece.runs.map(({ begin, end }) => [begin, end])],
  );
}

it('cuts a long range into pieces, from wherever a file goes on', () => {
  const whole = planned([{ file, begin: 0, end: 2 * PIECE_BYTE_LENGTH + 5 }]);
  const end = 2 * PIECE_BYTE_LENGTH + 5;
  expect(shown(piecesFrom(whole, 0))).toEqual([
    [0, PIECE_BYTE_LENGTH, [[0, PIECE_BYTE_LENGTH]]],
    [PIECE_BYTE_LENGTH, end - 5, [[PIECE_BYTE_LENGTH, end - 5]]],
    [end - 5, end, [[end - 5, end]]],
  ]);
  expect(shown(piecesFrom(whole, end - 7))).toEqual([[end - 7, end, [[end - 7, end]]]]);
  expect(shown(piecesFrom(whole, end))).toEqual([]);
});

it('goes on in the middle of a header', () => {
  const file1 = { file, begin: 200, end: 300 };
  const some = planned([{ file: null, bytes: header }, file1]);
  expect(shown(piecesFrom(some, 0))).toEqual([100, [200, 300, [[200, 300]]]]);
  expect(shown(piecesFrom(some, 60))).toEqual([40, [200, 300, [[200, 300]]]]);
  expect(shown(piecesFrom(some, 130))).toEqual([[230, 300, [[230, 300]]]]);
});

it('fetches runs near each other together, but not those before, far away or of another file', () => {
  const far = 200 + 2 ** 16 + 1;
  const runs = planned([
    { file, begin: 0, end: 10 },
    { file, begin: 100, end: 200 },
    { file, begin: far, end: far + 1 },
    { file, begin: 50, end: 60 },
    { file: other, begin: 60, end: 70 },
  ]);
  expect(shown(piecesFrom(runs, 0))).toEqual([
    [
      0,
      200,
      [
        [0, 10],
        [100, 200],
      ],
    ],
    [far, far + 1, [[far, far + 1]]],
    [50, 60, [[50, 60]]],
    [60, 70, [[60, 70]]],
  ]);
});
