/** The pairs of a LoRA adapter: rank and size of what each adds to a weight of its base. */

import {
  type AdapterDescription,
  type DescribedModule,
  describeAdapter,
  statistics,
  tensorValues,
  valueNumbers,
} from 'safetensors-mmap/inspect';
import { sampleAxes, sampleSize } from './sample.js';
import type { Source } from './sources.js';
import { partOf } from './statistics.js';
import { readable, tensorFacts } from './values.js';

/** What a change is multiplied by, and from what. */
export type Scale = Pick<DescribedModule, 'rank' | 'alpha' | 'scale'>;

/** What the configuration of an adapter, or its file, declares. */
export interface AdapterFacts {
  /** The base that it was trained on. */
  readonly baseModel: string | null;
  /** Of every module with a scale. */
  readonly scales: readonly Scale[];
}

/** One pair of matrices. */
export interface LoraPair {
  /** The layer that it changes, as the adapter names it. */
  readonly target: string;
  readonly rank: number;
  /** ‖up · down‖, times the scale where it is known. */
  readonly norm: number;
  readonly alpha: number | null;
  /** From adapter_config.json, or alpha of the file; null where neither is there. */
  readonly scale: number | null;
  /** The weight of the base; null without a base, or one that fits. */
  readonly base: string | null;
  /** The norm by that of the base, of which a sample is read; null without a base or a scale. */
  readonly relative: number | null;
}

/** Names of the two matrices of a pair, by programs that make them. */
const FORMS = [
  {
    down: /^(.+)\.lora_A(?:\.[^.]+)?\.weight$/,
    up: (text: string) => text.replace('.lora_A', '.lora_B'),
  },
  {
    down: /^(.+)\.lora_down\.weight$/,
    up: (text: string) => text.replace('.lora_down.', '.lora_up.'),
  },
  {
    down: /^(.+?)[._]lora\.down\.weight$/,
    up: (text: string) => text.replace('lora.down', 'lora.up'),
  },
];

/** The names of a pair. */
interface PairNames {
  readonly target: string;
  readonly down: string;
  readonly up: string;
}

/** Finds the pairs among names. */
function pairNames(names: readonly string[]): PairNames[] {
  const known = new Set(names);
  return names.flatMap((down) => {
    for (const form of FORMS) {
      const [, target] = form.down.exec(down) ?? [];
      if (target === undefined) continue;
      const up = form.up(down);
      if (known.has(up)) return [{ target, down, up }];
    }
    return [];
  });
}

/** Names without what programs put before them and between their parts. */
function plain(name: string): string {
  return name.replace(/\.weight$/, '').replaceAll(/[._]+/g, '_');
}

/** Finds the weight of a base that a pair changes: the longest end of the target that is a name there. */
function baseNames(bases: readonly string[]): (target: string) => string | null {
  const byPlain = new Map(
    bases.filter((name) => name.endsWith('.weight')).map((name) => [plain(name), name]),
  );
  return (target) => {
    let rest = plain(target);
    while (true) {
      const found = byPlain.get(rest);
      if (found !== undefined) return found;
      const next = rest.indexOf('_');
      if (next === -1) return null;
      rest = rest.slice(next + 1);
    }
  };
}

/** The products of all pairs of rows of a matrix. */
function gram(values: ArrayLike<number>, rows: number, columns: number): Float64Array {
  const products = new Float64Array(rows * rows);
  for (let a = 0; a < rows; a++) {
    for (let b = a; b < rows; b++) {
      let sum = 0;
      for (let i = 0; i < columns; i++)
        sum += (values[a * columns + i] as number) * (values[b * columns + i] as number);
      products[a * rows + b] = sum;
      products[b * rows + a] = sum;
    }
  }
  return products;
}

function transposed(values: ArrayLike<number>, rows: number, columns: number): Float64Array {
  const result = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      result[column * rows + row] = values[row * columns + column] as number;
    }
  }
  return result;
}

/** ‖up · down‖, without the product: the sum of the products of what the rows of both have in common. */
export function productNorm(up: ArrayLike<number>, down: ArrayLike<number>, rank: number): number {
  const [rows, columns] = [up.length / rank, down.length / rank];
  const ofUp = gram(transposed(up, rows, rank), rank, rows);
  const ofDown = gram(down, rank, columns);
  return Math.sqrt(
    Math.max(
      0,
      ofUp.reduce((sum, value, at) => sum + value * (ofDown[at] as number), 0),
    ),
  );
}

async function numbers(
  source: Source,
  name: string,
  signal: AbortSignal,
): Promise<ArrayLike<number>> {
  return valueNumbers(await readable(source, name, signal).slice());
}

async function baseNorm(source: Source, name: string, signal: AbortSignal): Promise<number | null> {
  const { shape, elements } = tensorFacts(source, name);
  const axes = sampleAxes(shape, sampleSize(source.isRequested, source.list.names.length));
  const { mean, std } = await statistics(
    tensorValues(partOf(source, name, axes, signal), { signal }),
    'F32',
  );
  return mean === null || std === null ? null : Math.hypot(mean, std) * Math.sqrt(elements);
}

/** An adapter as data; null for one that cannot be merged. */
async function described(
  { checkpoint, isRemote }: Source,
  signal: AbortSignal,
  readAlpha = true,
): Promise<AdapterDescription | null> {
  try {
    return await describeAdapter(checkpoint, { signal, readAlpha: readAlpha || !isRemote });
  } catch (error) {
    if (signal.aborted) throw error;
    return null;
  }
}

/** The modules of an adapter by the names of their tensors. */
async function modulesOf(
  adapter: Source,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, DescribedModule>> {
  const modules = (await described(adapter, signal))?.modules ?? [];
  return new Map(modules.flatMap((module) => module.keys.map((key) => [key, module] as const)));
}

/** What an adapter declares. Sends no requests for values of alpha across a network. */
export async function adapterFacts(
  adapter: Source,
  signal: AbortSignal,
): Promise<AdapterFacts | null> {
  const found = await described(adapter, signal, false);
  if (found === null) return null;
  const scales = found.modules.flatMap(({ rank, alpha, scale }) =>
    scale === null ? [] : [{ rank, alpha, scale }],
  );
  return { baseModel: found.baseModel, scales };
}

/** Rank and norm of every pair of an adapter, next to the weights of a base; the strongest first. */
export async function loraPairs(
  adapter: Source,
  base: Source | null,
  signal: AbortSignal,
): Promise<LoraPair[]> {
  const baseOf = baseNames(base?.list.names ?? []);
  const modules = await modulesOf(adapter, signal);
  const pairs: LoraPair[] = [];
  for (const { target, down, up } of pairNames(adapter.list.names)) {
    const rank = tensorFacts(adapter, down).shape[0] as number;
    const [downValues, upValues] = await Promise.all([
      numbers(adapter, down, signal),
      numbers(adapter, up, signal),
    ]);
    const { alpha = null, scale = null } = modules.get(down) ?? {};
    const norm = productNorm(upValues, downValues, rank) * Math.abs(scale ?? 1);
    const found = baseOf(target);
    const size =
      found === null || base === null || scale === null
        ? null
        : await baseNorm(base, found, signal);
    const relative = size === null || size === 0 ? null : norm / size;
    pairs.push({ target, rank, norm, alpha, scale, base: found, relative });
  }
  const strength = ({ relative, norm }: LoraPair): number => relative ?? norm;
  return pairs.sort((a, b) => strength(b) - strength(a));
}
