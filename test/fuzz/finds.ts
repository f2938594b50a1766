/** Failing inputs of this run and of earlier ones: their folders, and the report to the developer. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Finds that were mended, a folder for each target; its README describes each. */
export const MENDED = fileURLToPath(new URL('../fixtures/fuzz/', import.meta.url));

/** Finds of runs on this machine; git does not know of them. */
const FOUND = fileURLToPath(new URL('../../.fuzz/', import.meta.url));

/** Inputs of a target that once failed: replayed at the start of every run. */
export function mendedInputs(target: string): (readonly [name: string, input: Buffer])[] {
  const folder = join(MENDED, target);
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))] as const);
}

/** An error's message without the parts that differ from input to input. */
export function signatureOf(error: Error): string {
  const where = error.name === 'Problem' ? '' : (error.stack?.match(/\n\s+at .*/)?.[0] ?? '');
  const about = error.message
    .split('\n', 1)[0]
    ?.replaceAll(/'[^']*'|"[^"]*"|-?[\d.]+/g, '…')
    // Lists, of any length.
    .replaceAll(/\[[…,\s[\]]*\]/g, '[…]');
  return `${error.name}: ${about?.slice(0, 160)}${where}`;
}

/** Writes the input where the developer finds it; the name says which find it is. */
export function keep(target: string, input: Buffer, signature: string): string {
  const folder = join(FOUND, target);
  mkdirSync(folder, { recursive: true });
  const name = createHash('sha256').update(signature).digest('hex').slice(0, 12);
  const path = join(folder, name);
  writeFileSync(path, input);
  return path;
}
