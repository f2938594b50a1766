/** The directions in which A and B changed the tensors of their common base, for `diff --base --values`. */

import type { AnyCheckpoint, Tensor, TensorEntry } from '../../index.js';
import { Changes, changesOf } from '../../inspect/values/changes.js';
import { tensorsInTurn } from '../../inspect/values/tensors-in-turn.js';
import { progressOn } from '../output/progress.js';
import type { CommandContext } from './command.js';

/** Cosine similarities of a − base and b − base; null where one side has no change. */
interface CosinesOfChanges {
  /** By the names of tensors that all three have in one shape, of a pipeline with the folder before it. */
  readonly byName: ReadonlyMap<string, number | null>;
  /** Of all these tensors together. */
  readonly ofAll: number | null;
}

type ModelsByFolder = ReadonlyMap<string, AnyCheckpoint>;

/** Tensors of one model, in the order of the base. */
interface Triples {
  readonly prefix: string;
  /** One list for each source. */
  readonly sources: readonly { readonly model: AnyCheckpoint; readonly entries: TensorEntry[] }[];
}

/** Compares the changes of the tensors with these names, one after the other. */
export async function cosinesOfChanges(
  names: ReadonlySet<string>,
  sources: readonly [base: ModelsByFolder, a: ModelsByFolder, b: ModelsByFolder],
  { stderr, signal }: CommandContext,
): Promise<CosinesOfChanges> {
  const found = await triplesOf(names, sources, signal);
  const totalBytes = found
    .flatMap((one) => one.sources[0]?.entries ?? [])
    .reduce((sum, { byteLength }) => sum + byteLength, 0);
  const progress = progressOn(stderr, 'comparing changes');
  const byName = new Map<string, number | null>();
  const all = new Changes();
  let before = 0;
  try {
    for (const { prefix, sources } of found) {
      const readers = sources.map(({ model, entries }) => tensorsInTurn(model, entries, signal));
      try {
        for (const { name, byteLength } of sources[0]?.entries ?? []) {
          const tensors: Tensor[] = [];
          for (const reader of readers) tensors.push((await reader.next()).value as Tensor);
          const onProgress = ({ bytes }: { readonly bytes: number }): void =>
            progress.onProgress({ bytes: before + bytes, totalBytes });
          const options = { signal, onProgress };
          const changes = await changesOf(tensors as [Tensor, Tensor, Tensor], options);
          byName.set(prefix + name, changes.cosine);
          all.addAll(changes);
          before += byteLength;
        }
      } finally {
        for (const reader of readers) await reader.return();
      }
    }
  } finally {
    progress.end();
  }
  return { byName, ofAll: all.cosine };
}

/** The named tensors that all three sources have in one shape, by models. */
async function triplesOf(
  names: ReadonlySet<string>,
  [inBase, ...others]: readonly [ModelsByFolder, ModelsByFolder, ModelsByFolder],
  signal: AbortSignal,
): Promise<Triples[]> {
  const found: Triples[] = [];
  for (const [folder, base] of inBase) {
    const models = [base, ...others.flatMap((side) => side.get(folder) ?? [])];
    if (models.length < 3) continue;
    const prefix = folder === '' ? '' : `${folder}/`;
    const sources = models.map((model) => ({ model, entries: [] as TensorEntry[] }));
    const [listed = [], ...sides] = await Promise.all(models.map((one) => one.tensors({ signal })));
    const named = sides.map((entries) => new Map(entries.map((entry) => [entry.name, entry])));
    for (const entry of listed) {
      if (!names.has(prefix + entry.name)) continue;
      const triple = [entry, ...named.flatMap((side) => side.get(entry.name) ?? [])];
      const shapes = new Set(triple.map(({ shape }) => shape.join()));
      if (triple.length < 3 || shapes.size > 1) continue;
      for (const [i, { entries }] of sources.entries()) entries.push(triple[i] as TensorEntry);
    }
    found.push({ prefix, sources });
  }
  return found;
}
