/** Saves that are killed before each call that changes a name. */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type CheckpointProblem, saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { type ChildResult, runChild } from '../../support/run-child.js';
import { contentOf, filled, tensorsOf } from '../../support/saved-tensors.js';

export interface Layout {
  readonly maxShardSize?: number;
  readonly variant?: string;
  readonly filenamePattern?: string;
}

export const ONE = {};
export const TWO = { maxShardSize: 16 };
export const FOUR = { maxShardSize: 8 };
export const CUSTOM = { filenamePattern: 'weights{suffix}.safetensors' };
const OLD = 1;
const NEW = 2;

async function save(folder: string, value: number, layout: Layout): Promise<readonly string[]> {
  const tensors = ['a', 'b', 'c', 'd'].map((name) => [name, filled(2, value)] as const);
  const only = { dtype: 'U8', shape: [0], data: new Uint8Array(0) } as const;
  const all = [...tensors, [`only-${value}`, only] as const];
  const { files, index } = await saveCheckpoint(folder, all, { ...layout, durable: false });
  return index === null ? files : [...files, index];
}

/** A single file that an index names, as some writers do. */
async function saveIndexed(folder: string, layout: Layout): Promise<void> {
  const [file = ''] = await save(folder, OLD, layout);
  const names = ['a', 'b', 'c', 'd', `only-${OLD}`];
  const map = Object.fromEntries(names.map((name) => [name, file]));
  const index = JSON.stringify({ metadata: {}, weight_map: map });
  writeFileSync(join(folder, `${file}.index.json`), index);
}
export const saveIndexedFile = (folder: string): Promise<void> => saveIndexed(folder, ONE);
export const saveIndexedCustom = (folder: string): Promise<void> => saveIndexed(folder, CUSTOM);

/** A single file next to an index whose shards have gone. */
export async function saveBesideIncomplete(folder: string): Promise<void> {
  await save(folder, 9, TWO);
  const index = join(folder, 'model.safetensors.index.json');
  renameSync(index, `${index}.kept`);
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.safetensors')) rmSync(join(folder, name));
  }
  await save(folder, OLD, ONE);
  renameSync(`${index}.kept`, index);
}

/** Shards whose index is missing. */
export async function saveUnindexed(folder: string): Promise<void> {
  await save(folder, OLD, TWO);
  rmSync(join(folder, 'model.safetensors.index.json'));
}

/** Whether nothing but the index is missing. */
function isMissingIndex(error: unknown): boolean {
  const { problems = [] } = error as { problems?: readonly CheckpointProblem[] };
  return (
    problems.length === 1 && /^the index of \d+ shards is missing/.test(problems[0]?.message ?? '')
  );
}

type Before = Layout | ((folder: string) => Promise<void>) | null;

/** The checkpoint before a save, the layout of the new one, and whether the file system has links. */
export type Transition = [string, Before, Layout, ('refused' | 'given')?];

/** A process that is killed while it saves leaves a whole checkpoint, the old one or the new one. */
export async function expectWholeCheckpoints(
  before: Before,
  layout: Layout,
  links: 'refused' | 'given' = 'given',
): Promise<void> {
  const make = async (): Promise<string> => {
    const folder = temporaryPath('killed');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    if (typeof before === 'function') await before(folder);
    else if (before !== null) await save(folder, OLD, before);
    return folder;
  };
  const { variant } = layout;
  const read = (folder: string): Promise<unknown> =>
    contentOf(folder, variant).catch((error: unknown) =>
      // All shards are there, and open as the new checkpoint.
      isMissingIndex(error) ? tensorsOf(folder, variant) : (error as { code: string }).code,
    );
  const old = before === null ? 'SAFETENSORS_CHECKPOINT_NOT_FOUND' : await read(await make());
  const target = temporaryPath('new');
  await save(target, NEW, layout);
  const expected = await read(target);
  const run = (folder: string, last: string): Promise<ChildResult> =>
    runChild('write/checkpoint/children/save-until-call.mjs', [
      ...[folder, `${NEW}`, JSON.stringify(layout), last, links],
    ]);
  /** Reads after the kill; saving again then succeeds, and leaves nothing else. */
  const leftIn = async (folder: string): Promise<unknown> => {
    const content = await read(folder);
    const names = await save(folder, NEW, layout);
    expect(readdirSync(folder).sort()).toEqual([...names].sort());
    expect(await read(folder)).toEqual(expected);
    return content;
  };
  const copies = temporaryPath('copies');
  mkdirSync(copies);
  const saved = await make();
  expect(await run(saved, copies)).toEqual({ code: 0, signal: null, stdout: '', stderr: '' });
  const count = readdirSync(copies).length;
  const found: unknown[] = [];
  for (let call = 1; call <= count; call++) found.push(await leftIn(join(copies, `${call}`)));
  found.push(await leftIn(saved));
  const switched = found.findIndex((content) => JSON.stringify(content) !== JSON.stringify(old));
  expect(switched).toBeGreaterThan(0);
  expect(found.slice(0, switched)).toEqual(found.slice(0, switched).fill(old));
  expect(found.slice(switched)).toEqual(found.slice(switched).fill(expected));
  // The copies equal the leftovers of real kills: before the call that switches, and after it.
  for (const call of [switched, switched + 1]) {
    const folder = await make();
    const { signal, stderr } = await run(folder, `${call}`);
    expect(signal, stderr).toBe(call > count ? null : 'SIGKILL');
    expect(await leftIn(folder)).toEqual(found[call - 1]);
  }
}
