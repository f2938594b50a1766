/** The changes of two sources since their common base, for `diff --base`. */

import type { AnyCheckpoint } from '../../index.js';
import { compare } from '../../inspect.js';
import { modelsOf, type OpenedSource } from '../sources/open-source.js';
import { type CommandContext, CommandError } from './command.js';
import { cosinesOfChanges } from './diff-changes.js';
import {
  type Comparison,
  comparedPair,
  compareOpened,
  type DiffResult,
  type FromBase,
  viewOf,
} from './diff-result.js';

/**
 * Requires the base to have a tensor name of A or B, whatever the filter, before tensors are read.
 *
 * @throws CommandError `UNRELATED_BASE`
 */
export async function requireCommonBase(
  base: string,
  [openedBase, ...sides]: readonly [OpenedSource, OpenedSource, OpenedSource],
  comparison: Comparison,
  signal: AbortSignal,
): Promise<void> {
  for (const side of sides) {
    const [a, b] = await comparedPair(openedBase, side, comparison, signal);
    const { changed, unchanged } = await compare(a, b, { bytes: false, signal });
    if (changed.length + unchanged > 0) return;
  }
  throw new CommandError(
    'UNRELATED_BASE',
    `${base}: no tensor in common with A or B; pass the model that both come from as --base`,
  );
}

/** The changes of A and B since their common base. */
export async function sinceBase(
  found: Omit<DiffResult, 'a' | 'b' | 'same'>,
  base: string,
  [openedBase, ...sides]: readonly [OpenedSource, OpenedSource, OpenedSource],
  comparison: Comparison,
  context: CommandContext,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const changes: Map<string, FromBase>[] = [];
  for (const side of sides) {
    const since = await compareOpened([openedBase, side], comparison, context);
    const changed = new Map<string, FromBase>();
    for (const name of since.added) changed.set(name, { changed: 'added' });
    for (const name of since.removed) changed.set(name, { changed: 'removed' });
    for (const { name, values, ...one } of since.changed) {
      const { relative } = values ?? {};
      changed.set(name, { changed: one.changed, ...(relative === undefined ? {} : { relative }) });
    }
    changes.push(changed);
  }
  const [ofA, ofB] = changes as [Map<string, FromBase>, Map<string, FromBase>];
  const changed = new Set([...ofA.keys(), ...ofB.keys()]);
  const [a, b] = sides;
  const cosines = comparison.hasValues
    ? await cosinesOfChanges(
        changed,
        [
          await modelsWithValues(openedBase, comparison, context.signal),
          await modelsWithValues(a, comparison, context.signal),
          await modelsWithValues(b, comparison, context.signal),
        ],
        context,
      )
    : undefined;
  const different = new Set([...found.added, ...found.removed]);
  for (const { name } of found.changed) different.add(name);
  return {
    ...found,
    base,
    changed: found.changed.map((one) => {
      const cosine = cosines?.byName.get(one.name);
      return {
        ...one,
        fromBase: [ofA.get(one.name) ?? null, ofB.get(one.name) ?? null] as const,
        ...(cosine === undefined ? {} : { cosineOfChanges: cosine }),
      };
    }),
    changedAlike: [...ofA.keys()].filter((name) => ofB.has(name) && !different.has(name)),
    ...(cosines === undefined ? {} : { cosineOfChanges: cosines.ofAll }),
  };
}

/** The models of a source by their folders, as their values are compared. */
async function modelsWithValues(
  source: OpenedSource,
  { isRaw }: Comparison,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, AnyCheckpoint>> {
  const models = new Map(modelsOf(source));
  for (const [folder, model] of isRaw ? [] : models) {
    models.set(folder, (await viewOf(model, signal)) ?? model);
  }
  return models;
}
