import { expect, it } from 'vitest';
import type { Work } from '../../../src/work/work.js';
import { layOutCheckpoint } from '../../../src/write/checkpoint/layout.js';
import { openSafetensorsSource } from '../../../src/write/checkpoint/safetensors-source.js';
import { selectTensors } from '../../../src/write/checkpoint/selected-tensors.js';
import { writeTemporary } from '../../support/make-file.js';

/** Does the work, and counts the places where the event loop may turn. */
function counted<Result>(work: Work<Result>): { result: Result; turns: number } {
  let turns = 0;
  let next = work.next();
  while (next.done !== true) {
    if (next.value === undefined) turns++;
    next = work.next(next.value?.sync?.());
  }
  return { result: next.value, turns };
}

it('lists, selects and lays out many tensors in turns', async () => {
  const count = 3000;
  const path = writeTemporary(
    Array.from({ length: count }, (_, i) => ({ name: `t${i}`, dtype: 'F32', shape: [1] })),
  );
  const source = await openSafetensorsSource(path, { verify: false, signal: undefined });
  try {
    const selection = { rename: (name: string) => `${name}.x`, dtype: 'BF16' } as const;
    const choices = { selection, shared: 'dedupe', metadata: new Map() } as const;
    const { result: selected, turns } = counted(selectTensors(source, choices));
    expect(selected.report.cast).toHaveLength(count);
    // Listed (1), looked at for what is quantized (2), selected (3), names taken (4), looked for what is left out (5), made
    // entries (6), looked for what shares bytes (7 to 9), kept (10, 11), made metadata (12), table (13, 14) and report (15).
    // And each memory by itself.
    expect(turns).toBeGreaterThanOrEqual(count + 15 * Math.ceil(count / 256));
    const options = { maxShardSize: 200 };
    const laidOut = counted(layOutCheckpoint(selected.table, options, selected.metadataOf));
    expect(laidOut.result.files).toHaveLength(count / 100);
    expect(laidOut.turns).toBeGreaterThanOrEqual(count / 100);
  } finally {
    source.close();
  }
});
