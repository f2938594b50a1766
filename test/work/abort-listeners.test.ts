import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { whenAborted } from '../../src/work/abort-listeners.js';

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

it('listens once for all who wait, and not any more when nobody does', () => {
  const { signal } = new AbortController();
  const nothing = (): void => {};
  const ends = Array.from({ length: 20 }, () => whenAborted(signal, nothing));
  expect(listenersOf(signal)).toBe(1);
  for (const end of ends.slice(1)) end();
  expect(listenersOf(signal)).toBe(1);
  ends[0]?.();
  ends[0]?.();
  expect(listenersOf(signal)).toBe(0);
  whenAborted(signal, nothing)();
  expect(listenersOf(signal)).toBe(0);
});

it('tells all who still wait, each once, whatever the others do meanwhile', () => {
  const controller = new AbortController();
  const told: string[] = [];
  const end = whenAborted(controller.signal, () => told.push('ended'));
  whenAborted(controller.signal, () => {
    told.push('first');
    whenAborted(controller.signal, () => told.push('too late'));
  });
  const same = (): number => told.push('twice');
  whenAborted(controller.signal, same);
  whenAborted(controller.signal, same);
  end();
  controller.abort();
  expect(told).toEqual(['first', 'twice', 'twice']);
});
