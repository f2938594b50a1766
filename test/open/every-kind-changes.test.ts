/** Files that change under an open handle, over every kind of source whose files can change. */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { fileBytes } from '../support/make-file.js';
import { type Files, METADATA, TENSORS } from './kinds/files.js';
import { type Handle, type Kind, NAMED_KINDS, openUntilEnd } from './kinds/kinds.js';
import { type Case, casesOf } from './kinds/members.js';
import { outcomeOf } from './kinds/outcome.js';

/** The time in which `getTensor` asks the system once about a file. */
const CHECK_INTERVAL_MS = 1;

/** Labels of calls that need no byte of a tensor. */
const WITHOUT_BYTES: readonly string[] = ['empty', 'none'];

/** Members that read other bytes than those of tensors, or whose answer is the change. */
const OTHERS: readonly string[] = ['ok', 'verify', 'residency', 'sibling'];

/** The weights of a kind, changed. */
function changedFiles(files: Files, change: (bytes: Uint8Array, i: number) => Uint8Array): Files {
  const weights = [...files].filter(([name]) => !name.endsWith('.json'));
  return new Map(weights.map(([name, bytes], i) => [name, change(bytes, i)]));
}

/** Files of the same length whose headers have the tensors in another order. */
function otherHeaders({ files, layout }: Kind): Files {
  const isFile = layout === 'file';
  const parts = isFile ? [TENSORS] : [TENSORS.slice(0, 3), TENSORS.slice(3)];
  return changedFiles(files(), (bytes, i) => {
    const metadata = isFile ? { metadata: METADATA } : {};
    const shortest = fileBytes(parts[i]?.toReversed() ?? [], metadata);
    const padding = bytes.length - shortest.length;
    return fileBytes(parts[i]?.toReversed() ?? [], { ...metadata, padding });
  });
}

type Outcomes = readonly (readonly [one: Case, outcome: unknown])[];

async function outcomesOf(handle: Handle): Promise<Outcomes> {
  const outcomes = [];
  for (const one of casesOf(handle)) {
    outcomes.push([one, await outcomeOf(handle, one.call)] as const);
  }
  return outcomes;
}

const hasValue = (outcome: unknown): boolean => 'value' in (outcome as object);
const namedKinds = NAMED_KINDS.filter(([, { name }]) => name !== 'bytes');

describe.each(namedKinds)('%s', (_, kind) => {
  const truncated = () => changedFiles(kind.files(), (bytes) => bytes.subarray(0, -60));
  const appended = () => changedFiles(kind.files(), (bytes) => Buffer.concat([bytes, bytes]));
  const ways: [string, () => Files][] = [
    ['truncated', truncated],
    ['longer', appended],
  ];
  // A reader shows no version, only a length.
  const hasVersion = kind.format === 'safetensors' && kind.name !== 'a reader';
  if (hasVersion) ways.push(['rewritten with other headers', () => otherHeaders(kind)]);

  test.each(ways)('notices files that are %s when it reads bytes', async (_, changed) => {
    const placed = await kind.place(kind.files());
    if (placed.write === undefined) return;
    const handle = await openUntilEnd(placed);
    const before = await outcomesOf(handle);
    await delay(CHECK_INTERVAL_MS + 1);
    for (const [name, bytes] of changed()) placed.write(name, bytes);
    for (const [{ name, label, member, call }, outcome] of before) {
      if (member.readsBytes || OTHERS.includes(name)) continue;
      expect(await outcomeOf(handle, call), `${name}: ${label}`).toEqual(outcome);
    }
    expect(handle.ok).toBe(true);
    for (const [{ name, label, member, call }, outcome] of before) {
      if (!member.readsBytes || !hasValue(outcome) || WITHOUT_BYTES.includes(label)) continue;
      expect(await outcomeOf(handle, call), `${name}: ${label}`).toMatchObject({
        error: { type: 'FileChangedError', code: 'SAFETENSORS_FILE_CHANGED' },
      });
    }
    expect(handle.ok).toBe(false);
  });
});
