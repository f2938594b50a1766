/** What the name of a file tells about the checkpoint that it is a part of. */

/** `model-00002-of-00163.safetensors`; of a URL what stands before a query. */
const SHARD_NUMBERS = /-(\d{1,9})-of-(\d{1,9})\.\w+(?:[?#].*)?$/;

/** The number of a file of a checkpoint, from 1, and of how many; null for a name without such numbers. */
export function shardNumbersOf(path: string): { number: number; count: number } | null {
  const [, number, count] = SHARD_NUMBERS.exec(path) ?? [];
  if (number === undefined || count === undefined) return null;
  const numbers = { number: Number(number), count: Number(count) };
  return numbers.count > 1 ? numbers : null;
}
