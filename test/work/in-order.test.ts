import { expect, it } from 'vitest';
import { InOrder } from '../../src/work/in-order.js';

it('uses results in the order of the work, whichever ends first', async () => {
  const inOrder = new InOrder();
  const used: string[] = [];
  const note = (result: string): void => void used.push(result);
  let resolve = (_result: string): void => {};
  const late = new Promise<string>((done) => {
    resolve = done;
  });
  const first = inOrder.use(late, note);
  const second = inOrder.use('second', note);
  await new Promise((done) => setImmediate(done));
  expect(used).toEqual([]);
  resolve('first');
  await Promise.all([first, second]);
  expect(used).toEqual(['first', 'second']);
});

it('uses nothing after a failure, whose error all later work gets', async () => {
  const inOrder = new InOrder();
  const used: string[] = [];
  const note = (result: string): void => void used.push(result);
  const failed = inOrder.use(Promise.reject(new Error('lost')), note);
  const next = inOrder.use('next', note);
  const lost = { status: 'rejected', reason: new Error('lost') };
  expect(await Promise.allSettled([failed, next])).toEqual([lost, lost]);
  expect(used).toEqual([]);
});
