/** Every member of the handles gives the same results over every kind of source. */
import { describe, expect, test } from 'vitest';
import { comparable, DIFFERENCES, type Difference } from './kinds/differences.js';
import { NAMED_KINDS, openKind, openReference } from './kinds/kinds.js';
import { casesOf, MEMBERS, membersOf } from './kinds/members.js';
import { outcomeOf } from './kinds/outcome.js';

const shown = new Set<Difference>();

describe.each(NAMED_KINDS)('%s', (_, kind) => {
  test('has a case for every member, and the members of its type', async () => {
    const handle = await openKind(kind);
    const expected = Object.entries(MEMBERS).filter(([, { only }]) => {
      return only === undefined || handle.local;
    });
    expect(membersOf(handle).toSorted()).toEqual(expected.map(([name]) => name).toSorted());
  });

  test('has the names, and the same errors for wrong ones', async () => {
    const handle = await openKind(kind);
    const names = kind.tensors.map(({ name }) => name);
    expect(handle.keys()).toEqual(names.toSorted());
    expect(handle.size).toBe(names.length);
    const missing = await outcomeOf(handle, async () => await handle.getTensor('embed.wieght'));
    const message = 'tensor "embed.wieght": no such tensor; did you mean "embed.weight"?';
    expect(missing).toEqual({
      error: {
        type: 'TensorNotFoundError',
        code: 'SAFETENSORS_TENSOR_NOT_FOUND',
        tensor: 'embed.wieght',
        path: '<path>',
        message,
      },
    });
    const hasAlias = handle.metadata?.has('head.weight') === true;
    expect(handle.has('head.weight')).toBe(hasAlias);
    if (!hasAlias) return;
    expect(await handle.info('head.weight')).toEqual(await handle.info('embed.weight'));
    const aliased = (await handle.readTensors(['head.weight'])).get('head.weight');
    expect(aliased).toMatchObject({ name: 'embed.weight', shape: [4, 6] });
  });

  test('gives the results of a mapped file with the same tensors', async () => {
    const handle = await openKind(kind);
    const reference = await openReference(kind);
    const listed = DIFFERENCES.filter(({ of }) => of(kind, handle));
    for (const { name, label, call } of casesOf(handle)) {
      const outcomes = [await outcomeOf(handle, call), await outcomeOf(reference, call)] as const;
      const [found, expected] = comparable(name, outcomes, listed, shown);
      expect(found, `${name}: ${label}`).toEqual(expected);
    }
  });
});

test('lists no difference that no kind has', () => {
  const stale = DIFFERENCES.filter((difference) => !shown.has(difference));
  expect(stale.map(({ reason }) => reason)).toEqual([]);
});
