/** Random merges of every method and kind of adapter, with the values that NumPy computes in float64. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  mergeAdapters,
  mergeModels,
  parse,
  safeOpen,
  serialize,
  type Tensor,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const SCRIPT = fileURLToPath(new URL('merge_reference.py', import.meta.url));
const python = findPython('numpy');
const COUNT = 200;

interface Case {
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly models?: readonly { readonly weight: number; readonly density: number }[];
  readonly config?: Readonly<Record<string, unknown>>;
  readonly scale?: number;
}

/** Parameters of models by methods; others have none. */
const PARAMETERS: Readonly<Record<string, readonly ('weight' | 'density')[]>> = {
  linear: ['weight'],
  task_arithmetic: ['weight'],
  ties: ['weight', 'density'],
  dare_ties: ['weight', 'density'],
  dare_linear: ['weight', 'density'],
};

/** Methods that have no such settings. */
const WITHOUT: Readonly<Record<string, readonly string[]>> = {
  task_arithmetic: ['rescale', 'seed'],
  ties: ['seed'],
};

/** The tensors of all cases, by number and role, then by name. */
function groupsOf(tensors: Iterable<[string, Tensor]>): Map<string, Map<string, Tensor>> {
  const groups = new Map<string, Map<string, Tensor>>();
  for (const [path, tensor] of tensors) {
    const [number, role, ...rest] = path.split('/');
    const group = groups.get(`${number}/${role}`) ?? new Map<string, Tensor>();
    groups.set(`${number}/${role}`, group.set(rest.join('/'), tensor));
  }
  return groups;
}

async function merge(
  kind: string,
  { settings, models = [], config, scale = 1 }: Case,
  tensorsOf: (role: string) => Map<string, Tensor> | undefined,
): Promise<Checkpoint> {
  const opened = (role: string): Checkpoint | undefined => {
    const tensors = tensorsOf(role);
    return tensors && parse(serialize(tensors));
  };
  const base = opened('base');
  if (settings === undefined) {
    const adapter = {
      source: opened('adapter'),
      scale,
      ...(config === undefined ? {} : { config }),
    };
    return await mergeAdapters(base as Checkpoint, [adapter as never]);
  }
  const own = Object.entries(settings).filter(([name]) => WITHOUT[kind]?.includes(name) !== true);
  const recipe = {
    method: kind,
    dtype: 'F32',
    ...(base === undefined ? {} : { base }),
    ...Object.fromEntries(own),
    models: models.map((model, i) => ({
      source: opened(String(i)),
      ...Object.fromEntries((PARAMETERS[kind] ?? []).map((name) => [name, model[name]])),
    })),
  };
  return (await mergeModels(recipe as never)) as Checkpoint;
}

describe.skipIf(isSkipped(python))(titleWith(python, 'random merges'), () => {
  it(`have the values of NumPy, ${COUNT} of each kind`, { timeout: 600_000 }, async () => {
    const folder = temporaryPath('cases');
    mkdirSync(folder);
    const { methods, adapters } = JSON.parse(runPython(python, [SCRIPT, folder, String(COUNT)]));
    expect([methods.length, adapters.length]).toEqual([10, 14]);
    const counts: Record<string, number> = {};
    for (const kind of [...methods, ...adapters]) {
      const cases: Case[] = JSON.parse(readFileSync(join(folder, `${kind}.json`), 'utf8'));
      const groups = groupsOf(safeOpen(join(folder, `${kind}.safetensors`)));
      for (const [number, one] of cases.entries()) {
        const merged = await merge(kind, one, (role) => groups.get(`${number}/${role}`));
        const results = groups.get(`${number}/expected`) as Map<string, Tensor>;
        for (const [name, { data }] of results) {
          const expected = data as Float64Array;
          const found = merged.getTensor(name).toFloat32();
          expect(found.length).toBe(expected.length);
          const largest = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-30);
          const wrong = expected.findIndex((value, i) => {
            return !(Math.abs((found[i] as number) - value) <= 3e-7 * largest);
          });
          if (wrong === -1) continue;
          const values = `${found[wrong]}, not ${expected[wrong]}`;
          expect.fail(`${kind} ${number}: ${name}[${wrong}] is ${values}`);
        }
        counts[kind] = (counts[kind] ?? 0) + 1;
      }
      expect(counts[kind]).toBe(COUNT);
    }
    process.stdout.write(`merges compared with NumPy: ${JSON.stringify(counts)}\n`);
  });
});
