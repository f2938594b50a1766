/** Aborts of writers: at once in the middle of a survey, and nothing is left. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ColumnNorms } from '../../src/merge/adapters/magnitude.js';
import { provideKernels, type SurveyedElements } from '../../src/tensor/float32/kernels.js';
import {
  type Checkpoint,
  mergeAdapters,
  mergeModels,
  saveCheckpoint,
  saveFile,
  serializeStream,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { addon } from '../tensor/float32/cast-tables.js';
import { checkpoint, type Values, valuesOf } from './make-adapter.js';

const REASON = new Error('no longer needed');
/** Six windows of a survey. */
const SHAPE = [1536, 1024];

let folder: string;
let controller: AbortController;

beforeEach(() => {
  folder = temporaryPath('writers');
  mkdirSync(folder);
  controller = new AbortController();
});

afterEach(() => {
  vi.restoreAllMocks();
  provideKernels(() => addon);
});

function random(seed: number): Values {
  let state = seed;
  const values = Float32Array.from({ length: 1536 * 1024 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state / 2 ** 32;
  });
  return valuesOf(SHAPE, values);
}

/** A view whose survey aborts in its second window; the functions return how many were surveyed in all. */
const VIEWS = {
  async models() {
    let count = 0;
    const surveyAsync = async (elements: SurveyedElements): Promise<void> => {
      if (++count === 2) controller.abort(REASON);
      await addon.surveyAsync(elements);
    };
    provideKernels(() => ({ ...addon, surveyAsync }));
    const merged = await mergeModels({
      method: 'ties',
      base: checkpoint({ x: random(1) }),
      models: [{ source: checkpoint({ x: random(2) }), weight: 1, density: 0.5 }],
    });
    return { view: merged as Checkpoint, windows: () => count };
  },
  async adapters() {
    const counted = ColumnNorms.prototype.count;
    const count = vi.spyOn(ColumnNorms.prototype, 'count');
    count.mockImplementation(function (this: ColumnNorms, values) {
      if (count.mock.calls.length === 2) controller.abort(REASON);
      counted.call(this, values);
    });
    const adapter = checkpoint({
      'lora_unet_x.lora_down.weight': valuesOf([1, 1024], new Float32Array(1024)),
      'lora_unet_x.lora_up.weight': valuesOf([1536, 1], new Float32Array(1536)),
      'lora_unet_x.dora_scale': valuesOf([1, 1024], new Float32Array(1024).fill(2)),
    });
    const view = await mergeAdapters(checkpoint({ 'x.weight': random(1) }), [adapter]);
    return { view, windows: () => count.mock.calls.length };
  },
} as const;

const WRITERS = {
  saveFile: (view: Checkpoint) =>
    saveFile(join(folder, 'out.safetensors'), view, { signal: controller.signal }),
  saveCheckpoint: (view: Checkpoint) =>
    saveCheckpoint(join(folder, 'out'), view, { signal: controller.signal }),
  async serializeStream(view: Checkpoint) {
    for await (const _ of serializeStream(view, { signal: controller.signal }));
  },
} as const;

const CASES = (Object.keys(VIEWS) as (keyof typeof VIEWS)[]).flatMap((kind) =>
  (Object.keys(WRITERS) as (keyof typeof WRITERS)[]).map((writer) => [kind, writer] as const),
);

it.each(CASES)('%s: %s ends in the middle of a survey', async (kind, writer) => {
  const { view, windows } = await VIEWS[kind]();
  await expect(WRITERS[writer](view)).rejects.toBe(REASON);
  expect(windows()).toBeLessThanOrEqual(3);
  const left = readdirSync(folder, { recursive: true });
  expect(left).toEqual([]);
});
