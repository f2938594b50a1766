/** How much a merge changes a weight. */

import type { Tensor } from '../../index.js';

/** The norm of the change of a weight, relative to that of the weight; infinite for a changed weight of zeros. */
export async function relativeSize(
  before: Tensor,
  after: Tensor,
  signal: AbortSignal,
): Promise<number> {
  const others = before.rowBlocks({ signal });
  let [change, all] = [0, 0];
  for await (const { values } of after.rowBlocks({ signal })) {
    const old = (await others.next()).value as { readonly values: Float32Array };
    for (let i = 0; i < values.length; i++) {
      const value = old.values[i] as number;
      change += ((values[i] as number) - value) ** 2;
      all += value ** 2;
    }
  }
  return change === 0 ? 0 : Math.sqrt(change / all);
}

/** The same as text. */
export function formatRelativeSize(size: number | null): string {
  return size === null ? '' : `${Number((100 * size).toPrecision(3))} %`;
}
