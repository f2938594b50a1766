/** The functions for Node and for browsers have the same names; those that need files name the remedy. */
import { expect, it } from 'vitest';
import * as runtime from '../../src/runtime.js';
import * as browser from '../../src/runtime-browser.js';

const inNode = new Map<string, unknown>(Object.entries(runtime));
const inBrowsers = new Map<string, unknown>(Object.entries(browser));

/** Functions that work in browsers, at least with some sources. */
const PORTABLE = [
  'mergeAdapters',
  'mergeModels',
  'open',
  'openPipeline',
  'parseSafetensorsMetadata',
  'serialize',
  'serializeStream',
  'verify',
];

const names = [...inBrowsers.keys()].sort();

it('have the same names', () => {
  expect(names).toEqual([...inNode.keys()].sort());
});

const NEEDS_NODE = {
  code: 'SAFETENSORS_NEEDS_NODE',
  message: expect.stringMatching(/"browser" condition .*customExportConditions/),
};

it.each(names.filter((name) => !PORTABLE.includes(name)))('%s needs Node', async (name) => {
  const call = async (): Promise<unknown> => await (inBrowsers.get(name) as () => unknown)();
  await expect(call()).rejects.toMatchObject(NEEDS_NODE);
  // The promise of an asynchronous function rejects, and nothing throws where it is called.
  const isAsync = inNode.get(name)?.constructor.name === 'AsyncFunction';
  const isPromise = (): boolean => {
    const result = (inBrowsers.get(name) as () => unknown)();
    if (result instanceof Promise) result.catch(() => {});
    return result instanceof Promise;
  };
  if (isAsync) expect(isPromise()).toBe(true);
  else expect(isPromise).toThrow(expect.objectContaining(NEEDS_NODE));
});

it('local sources need Node, others do not', async () => {
  await expect(browser.open('model.safetensors')).rejects.toMatchObject(NEEDS_NODE);
  await expect(browser.open(new Uint8Array(8))).rejects.toMatchObject(NEEDS_NODE);
  await expect(browser.openPipeline('my-pipeline')).rejects.toMatchObject(NEEDS_NODE);
  await expect(browser.verify('model.safetensors')).rejects.toMatchObject(NEEDS_NODE);
  const empty = new Blob([new Uint8Array([2, 0, 0, 0, 0, 0, 0, 0, 123, 125])]);
  const checkpoint = await browser.open(empty);
  expect(checkpoint.size).toBe(0);
  expect(await browser.verify(checkpoint)).toMatchObject({ ok: true, checks: ['headers'] });
  checkpoint.close();
  const options = { root: [] };
  await expect(browser.open(empty, options)).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
});
