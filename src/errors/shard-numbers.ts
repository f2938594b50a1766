/** Reads the number of a shard from its file name. */

/** `model-00002-of-00163.safetensors`; of a URL what stands before a query. */
const SHARD_NUMBERS = /-(\d{1,9})-of-(\d{1,9})\.\w+(?:[?#].*)?$/;

/** Returns the number of a shard, from 1, and the number of shards; null for a name without these. */
export function shardNumbersOf(path: string): { number: number; count: number } | null {
  const [, number, count] = SHARD_NUMBERS.exec(path) ?? [];
  if (number === undefined || count === undefined) return null;
  const numbers = { number: Number(number), count: Number(count) };
  return numbers.count > 1 ? numbers : null;
}
