import { join } from 'node:path';
import { formatByteSize, formatDuration } from '../byte-size.js';
import type { CollectionsResult } from '../children/collections.js';
import { showProgress } from '../command-line.js';
import { median } from '../median.js';
import type { TensorSpec } from '../model.js';
import { atMost, type Section, type Target } from '../report.js';
import { runChild } from '../run-child.js';
import { writeSparseModel } from '../write-model.js';
import type { TrialContext } from './context.js';

const SCRIPT = join(import.meta.dirname, '../children/collections.js');

/** Live JavaScript objects beside which the buffers are made. */
const LIVE_BYTES = 200_000_000;

/** Files of holes in which tensors are looked up, and the target for full collections. */
interface CollectionScenario {
  readonly title: string;
  readonly files: number;
  /** What every file holds. */
  readonly tensors: readonly TensorSpec[];
  /** How many of them are taken from every file. */
  readonly taken: number;
  readonly target: string;
  readonly limit: number;
}

/** Bytes of one tensor: a matrix of a layer of a large model. */
const TENSOR_BYTES = 20_000_000;

function zeros(count: number, byteLength: number): TensorSpec[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `tensor.${index}`,
    dtype: 'U8',
    shape: [byteLength],
    byteLength,
  }));
}

const SCENARIOS: readonly CollectionScenario[] = [
  {
    title: '1 000 buffers over a 20 GB file',
    files: 1,
    tensors: zeros(1000, TENSOR_BYTES),
    taken: 1000,
    target: '1 000 buffers over 20 GB: at most 2 full collections more than without',
    limit: 2,
  },
  {
    title: '163 files of 5 GB, one buffer of each',
    files: 163,
    tensors: zeros(250, TENSOR_BYTES),
    taken: 1,
    target: '163 files of 5 GB: at most 10 full collections more than without',
    limit: 10,
  },
];

function unmeasured(title: string): Section {
  const notes = ['not measured: needs Node 22 or later, see --node'];
  const targets = SCENARIOS.map(({ target, limit }) => atMost(target, Number.NaN, limit));
  return { title, rows: [], notes, targets, measurements: [] };
}

/** Full collections that buffers over large mappings bring about. */
export async function collectionsTrial(context: TrialContext): Promise<Section> {
  const node = context.collectionsNode;
  const title = `Full collections, beside ${formatByteSize(LIVE_BYTES)} of live objects`;
  if (node === undefined) return unmeasured(title);
  const rows = [['tensors', 'full collections', 'wall time', 'without buffers', 'wall time']];
  const targets: Target[] = [];
  const measurements: unknown[] = [];
  for (const scenario of SCENARIOS) {
    const paths: string[] = [];
    for (let index = 0; index < scenario.files; index++) {
      const path = join(context.folder, `sparse-${scenario.files}-${index}.safetensors`);
      await writeSparseModel(path, scenario.tensors);
      paths.push(path);
    }
    const collect = (mode: 'buffers' | 'none'): Promise<CollectionsResult> => {
      showProgress(`collections: ${scenario.title}, ${mode}`);
      const args = [
        '--expose-gc',
        SCRIPT,
        mode,
        String(LIVE_BYTES),
        String(scenario.taken),
        ...paths,
      ];
      return runChild<CollectionsResult>({ file: node, args }, context.signal);
    };
    const pairs: { buffers: CollectionsResult; none: CollectionsResult }[] = [];
    for (let round = 1; round <= context.rounds; round++) {
      pairs.push({ buffers: await collect('buffers'), none: await collect('none') });
    }
    const middle = (mode: 'buffers' | 'none', figure: 'full' | 'elapsed'): number =>
      median(pairs.map((pair) => pair[mode][figure]));
    rows.push([
      scenario.title,
      String(middle('buffers', 'full')),
      formatDuration(middle('buffers', 'elapsed')),
      String(middle('none', 'full')),
      formatDuration(middle('none', 'elapsed')),
    ]);
    const more = middle('buffers', 'full') - middle('none', 'full');
    targets.push(atMost(scenario.target, more, scenario.limit));
    measurements.push({ title: scenario.title, pairs });
  }
  return {
    title,
    rows,
    notes: [],
    targets,
    measurements,
  };
}
