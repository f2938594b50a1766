/** Safetensors files of ranks: whole tensors, or an error that names what is missing, twice there, or different. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { tilingFault } from '../../../src/foreign/distributed/pieces/tiling.js';
import {
  type Checkpoint,
  convert,
  loadFile,
  open as openAnything,
  safeOpen,
  saveCheckpoint,
  select,
} from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import {
  type Box,
  bytesOfBox,
  randomWhole,
  rankFile,
  type SavedPiece,
  type Whole,
  writeRanks,
} from './generated.js';

const open = (path: string): Promise<Checkpoint> => openAnything(path, { remote: false });

const INVALID = 'SAFETENSORS_INVALID_DISTRIBUTED';

/** The pieces of tensors, each in the file of a random rank that has no other piece of the tensor. */
function dealt(wholes: readonly Whole[], ranks: number, random: Random): SavedPiece[] {
  return wholes.flatMap((whole) => {
    const first = random.below(ranks);
    return whole.boxes.map((box, i) => ({
      rank: (first + i) % ranks,
      ...{ name: whole.name, dtype: whole.dtype, box, bytes: bytesOfBox(whole, box) },
    }));
  });
}

/** A tensor of 4 × 6 bytes in four boxes, one for each rank. */
function grid(): { whole: Whole; pieces: SavedPiece[] } {
  const boxes = [0, 2].flatMap((row) =>
    [0, 4].map((column) => ({ offsets: [row, column], shape: [2, column === 0 ? 4 : 2] })),
  );
  const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
  const whole: Whole = { name: 'w', dtype: 'U8', shape: [4, 6], bytes, boxes };
  const pieces = boxes.map((box, rank) => {
    return { rank, name: 'w', dtype: 'U8' as const, box, bytes: bytesOfBox(whole, box) };
  });
  return { whole, pieces };
}

it('random boxes are assembled, whole and in slices', async () => {
  for (let number = 0; number < 150; number++) {
    const random = new Random(59, number);
    const wholes = Array.from({ length: random.from(1, 4) }, (_, i) =>
      randomWhole(`t${i}`, random),
    );
    const ranks = Math.max(...wholes.map(({ boxes }) => boxes.length), random.from(1, 4));
    const folder = writeRanks(ranks, dealt(wholes, ranks, random));
    const checkpoint = await open(folder);
    expect(checkpoint.keys()).toEqual(wholes.map(({ name }) => name));
    for (const whole of wholes) {
      const tensor = checkpoint.getTensor(whole.name);
      expect([tensor.dtype, tensor.shape]).toEqual([whole.dtype, whole.shape]);
      expect(tensor.bytes, `${number}`).toEqual(whole.bytes);
      if (whole.shape.length === 0) continue;
      const [size] = whole.shape as [number];
      const begin = random.below(size);
      const end = random.from(begin, size);
      const row = whole.bytes.length / size;
      const rows = (await open(folder)).getSlice(whole.name, `${begin}:${end}`);
      expect(rows.bytes).toEqual(whole.bytes.subarray(begin * row, end * row));
    }
    checkpoint.close();
    rmSync(folder, { recursive: true });
  }
});

it('works with writers and views', async () => {
  const { whole, pieces } = grid();
  const folder = writeRanks(4, pieces);
  const [converted, saved] = [temporaryPath('converted.safetensors'), temporaryPath('saved')];
  await convert(folder, converted, { durable: false });
  expect(loadFile(converted).get('w')?.bytes).toEqual(whole.bytes);
  expect(safeOpen(converted).metadata).toEqual(new Map([['format', 'pt']]));
  const checkpoint = await open(folder);
  await saveCheckpoint(saved, select(checkpoint, { rename: { w: 'v' } }), { durable: false });
  expect(safeOpen(saved).getTensor('v').bytes).toEqual(whole.bytes);
  expect((await checkpoint.readTensors(['w'])).get('w')?.bytes).toEqual(whole.bytes);
  expect((await checkpoint.verify()).problems).toEqual([]);
  expect([checkpoint.format, checkpoint.local]).toEqual(['dcp', true]);
  checkpoint.close();
  expect(() => checkpoint.getTensor('w')).toThrow('closed');
});

it('extra() has the ranks and the pieces, with unknown completeness', async () => {
  const { pieces } = grid();
  const checkpoint = await open(writeRanks(4, pieces));
  const extra = (await checkpoint.extra()) as ReadonlyMap<string, unknown>;
  expect([extra.get('ranks'), extra.get('isComplete')]).toEqual([4, null]);
  expect(extra.get('pieces')).toEqual(
    new Map([['w', pieces.map(({ box, rank }) => `w[${rangesOf(box)}] in ${rankFile(rank)}`)]]),
  );
});

function rangesOf({ offsets, shape }: SavedPiece['box']): string {
  return offsets.map((at, axis) => `${at}:${at + (shape[axis] as number)}`).join(', ');
}

it('a tensor with one piece is a view of the file, under its own name', async () => {
  const bytes = Uint8Array.from({ length: 8192 }, (_, i) => i);
  const box = { offsets: [0], shape: [8192] };
  const folder = writeRanks(1, [{ rank: 0, name: 'a', dtype: 'U8', box, bytes }]);
  const checkpoint = await open(folder);
  const tensor = checkpoint.getTensor('a');
  expect(tensor.bytes).toEqual(bytes);
  expect(checkpoint.getTensor('a').data.buffer).toBe(tensor.data.buffer);
  expect(checkpoint.storage).toBe('mmap');
  expect(() => checkpoint.getSlice('a', 0, 0)).toThrow('tensor "a": 2 indices');
});

describe('an error names the tensor and the range', () => {
  it.each([
    [0, 'the elements [0:2, 0:4] of [4, 6] are missing'],
    [1, 'the elements [0:2, 4:6] of [4, 6] are missing'],
    [2, 'the elements [2:4, 0:4] of [4, 6] are missing'],
    [3, 'the elements [2:4, 4:6] of [4, 6] are missing'],
  ] as const)('without the piece of rank %i', async (rank, message) => {
    const pieces = grid().pieces.filter((piece) => piece.rank !== rank);
    const opening = open(writeRanks(4, pieces));
    await expect(opening).rejects.toMatchObject({ code: INVALID, tensor: 'w' });
    await expect(opening).rejects.toThrow(message);
  });

  it('for an overlap', async () => {
    const { pieces } = grid();
    const box = { offsets: [1, 3], shape: [1, 1] };
    const extra = { rank: 4, name: 'w', dtype: 'U8' as const, box, bytes: new Uint8Array(1) };
    const opening = open(writeRanks(5, [...pieces, extra]));
    await expect(opening).rejects.toMatchObject({ code: INVALID, tensor: 'w' });
    const files = `"${rankFile(0)}" and "${rankFile(4)}"`;
    const message = `the pieces in ${files} overlap at [1:2, 3:4] of [4, 6]`;
    await expect(opening).rejects.toThrow(message);
  });

  it('for the same piece with other bytes; with equal bytes it counts once', async () => {
    const { pieces, whole } = grid();
    const [first] = pieces as [SavedPiece];
    const checkpoint = await open(writeRanks(5, [...pieces, { ...first, rank: 4 }]));
    expect(checkpoint.getTensor('w').bytes).toEqual(whole.bytes);
    checkpoint.close();
    const bytes = first.bytes.map((byte, i) => (i === 7 ? byte ^ 1 : byte));
    rmSync(temporaryPath('ranks'), { recursive: true });
    const opening = open(writeRanks(5, [...pieces, { ...first, rank: 4, bytes }]));
    await expect(opening).rejects.toMatchObject({ code: INVALID, tensor: 'w' });
    const files = `"${rankFile(0)}" and "${rankFile(4)}"`;
    await expect(opening).rejects.toThrow(`the pieces [0:2, 0:4] in ${files} differ`);
  });

  it('for pieces of two dtypes, and of other dimensions', async () => {
    const { pieces } = grid();
    const [first, ...others] = pieces as [SavedPiece, ...SavedPiece[]];
    const ofI8 = open(writeRanks(4, [{ ...first, dtype: 'I8' }, ...others]));
    await expect(ofI8).rejects.toThrow('expected pieces of one dtype, found I8 and U8');
    rmSync(temporaryPath('ranks'), { recursive: true });
    const box = { offsets: [0], shape: [8] };
    const flat = open(writeRanks(4, [{ ...first, box }, ...others]));
    await expect(flat).rejects.toMatchObject({ code: INVALID, tensor: 'w' });
  });
});

it('a rank without a file is named', async () => {
  const folder = writeRanks(4, grid().pieces);
  rmSync(join(folder, rankFile(1)));
  await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
  await expect(open(folder)).rejects.toThrow('1 of 4 ranks are missing: shard-00002');
});

it('a file that no rank has is named, and files of two saves are not mixed', async () => {
  const bytes = fileBytes([], { metadata: { DCP_SHARDING_INFO: '{}' } });
  const folder = temporaryPath('several');
  mkdirSync(folder);
  const place = (name: string): void => writeFileSync(join(folder, name), bytes);
  place('shard-00001-model-00001-of-00002.safetensors');
  place('shard-00002-model-00001-of-00002.safetensors');
  await expect(open(folder)).rejects.toThrow('1 of 2 files are missing: model-00002');
  place('shard-00003-model-00001-of-00001.safetensors');
  await expect(open(folder)).rejects.toThrow('they are from different saves');
});

it('names of tensors may be those of pieces', async () => {
  const { whole, pieces } = grid();
  const box = { offsets: [0], shape: [1] };
  const name = `w[0:2, 0:4] in ${rankFile(0)}`;
  const other = { rank: 0, name, dtype: 'U8', box, bytes: Uint8Array.of(99) } as const;
  const checkpoint = await open(writeRanks(4, [...pieces, other]));
  expect(checkpoint.getTensor('w').bytes).toEqual(whole.bytes);
  expect([...checkpoint.getTensor(name).bytes]).toEqual([99]);
});

it('a thousand dimensions are too many', async () => {
  const ones = Array.from({ length: 1000 }, () => 1);
  const box = { offsets: ones.map(() => 0), shape: ones };
  const piece = { rank: 0, name: 'a', dtype: 'U8', box, bytes: Uint8Array.of(1) } as const;
  const opening = open(writeRanks(1, [piece]));
  await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_FOREIGN_LIMIT' });
});

it('an empty tensor may be split', async () => {
  const split = [0, 2].map((row, rank) => {
    const box = { offsets: [row, 0], shape: [rank === 0 ? 2 : 1, 0] };
    return { rank, name: 'e', dtype: 'U8', box, bytes: new Uint8Array() } as const;
  });
  const tensor = (await open(writeRanks(2, split))).getTensor('e');
  expect([tensor.shape, tensor.bytes.length]).toEqual([[3, 0], 0]);
});

it('close({ detach: true }) empties views of the files', async () => {
  const bytes = Uint8Array.from({ length: 8192 }, (_, i) => i);
  const box = { offsets: [0], shape: [8192] };
  const checkpoint = await open(writeRanks(1, [{ rank: 0, name: 'a', dtype: 'U8', box, bytes }]));
  const { data } = checkpoint.getTensor('a');
  checkpoint.close({ detach: true });
  expect(data.length).toBe(0);
});

it('other weights in the folder are the model', async () => {
  const folder = writeRanks(4, grid().pieces);
  writeFileSync(
    join(folder, 'model.safetensors'),
    fileBytes([{ name: 'm', dtype: 'U8', shape: [1] }]),
  );
  const checkpoint = await open(folder);
  expect([checkpoint.format, checkpoint.keys()]).toEqual(['safetensors', ['m']]);
});

it('a name with a huge rank takes no time', async () => {
  const folder = writeRanks(1, []);
  const bytes = fileBytes([], { metadata: { DCP_SHARDING_INFO: '{}' } });
  writeFileSync(join(folder, 'shard-9007199254740991-model-00001-of-00001.safetensors'), bytes);
  await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
});

it.each([
  ['no metadata', {}],
  ['no JSON', { DCP_SHARDING_INFO: '{' }],
  ['no entry of the tensor', { DCP_SHARDING_INFO: '{}' }],
  ['a negative offset', { DCP_SHARDING_INFO: '{"w":{"saved_offsets":[-1,0]}}' }],
] as const)('%s: an error, not a guess', async (_, metadata) => {
  const folder = writeRanks(1, []);
  const entries = [{ name: 'w', dtype: 'U8', shape: [2, 2] }] as const;
  writeFileSync(join(folder, rankFile(0)), fileBytes(entries, { metadata }));
  await expect(open(folder)).rejects.toMatchObject({ code: INVALID });
});

it('parts of a rank without rows count', async () => {
  const bytes = Uint8Array.of(1, 2, 3);
  const pieces = [
    { rank: 0, name: 'a', dtype: 'U8', box: { offsets: [0, 0], shape: [1, 3] }, bytes },
    {
      rank: 1,
      name: 'a',
      dtype: 'U8',
      box: { offsets: [1, 0], shape: [0, 3] },
      bytes: Buffer.of(),
    },
    { rank: 0, name: 'b', dtype: 'U8', box: { offsets: [0], shape: [0] }, bytes: Buffer.of() },
  ] as const;
  const checkpoint = await open(writeRanks(2, pieces));
  expect(checkpoint.getTensor('a').bytes).toEqual(bytes);
  expect(checkpoint.getTensor('b').shape).toEqual([0]);
});

it('a link out of the folder is rejected', async () => {
  const folder = writeRanks(1, []);
  const outside = temporaryPath('outside.safetensors');
  writeFileSync(outside, fileBytes([], { metadata: { DCP_SHARDING_INFO: '{}' } }));
  symlinkSync(outside, join(folder, rankFile(1)));
  await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
});

describe('boxes are compared in bounded time', () => {
  const points = (rows: number, columns: number): Box[] =>
    Array.from({ length: rows * columns }, (_, i) => {
      return { offsets: [Math.floor(i / columns), i % columns], shape: [1, 1] };
    });

  it('of a large grid, in any order', () => {
    const boxes = points(512, 128).sort((a, b) => (a.offsets[1] ?? 0) - (b.offsets[1] ?? 0));
    expect(tilingFault([512, 128], boxes)).toBeUndefined();
    expect(tilingFault([512, 128], boxes.slice(1))).toEqual({
      kind: 'gap',
      box: { offsets: [0, 0], shape: [1, 1] },
    });
  });

  it('that all overlap', () => {
    const boxes = Array.from({ length: 30_000 }, (_, i) => {
      return { offsets: [i, 0], shape: [60_000 - 2 * i, 1] };
    });
    expect(tilingFault([60_000, 2], boxes)?.kind).toBe('gap');
    expect(tilingFault([60_000, 1], boxes)?.kind).toBe('overlap');
  });

  it('that are irregular, too', () => {
    const boxes = Array.from({ length: 6000 }, (_, i) => {
      return { offsets: [0, i], shape: [i + 1, 1] };
    });
    expect(tilingFault([6000, 6000], boxes)?.kind).toBe('gap');
    const both = boxes.flatMap((box, i) => [
      box,
      { offsets: [i + 1, i], shape: [6000 - i - 1, 1] },
    ]);
    expect(
      tilingFault(
        [6000, 6000],
        both.filter(({ shape }) => shape[0] !== 0),
      )?.kind,
    ).toBe('limit');
  });
});
