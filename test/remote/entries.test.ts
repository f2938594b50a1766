/** The entries for Node and for browsers have the same names, except those that need Node. */
import { expect, it } from 'vitest';
import * as hub from '../../src/hub.js';
import * as hubBrowser from '../../src/hub-browser.js';
import * as node from '../../src/remote.js';
import * as browser from '../../src/remote-browser.js';
import { textOf } from '../support/source-tree.js';

/** Names that only the entry for Node has. */
const CALLS = ['SelectionError', 'download'];
const TYPES = [
  'SelectionReport',
  'CastTarget',
  'ConfigMismatch',
  'DownloadOptions',
  'DownloadPlan',
  'DownloadResult',
  'DownloadedFile',
  'DryRun',
  'DryRunResult',
  'LockOptions',
  'OverwriteOptions',
  'ReplacedFile',
  'PlannedDownload',
  'PlannedFile',
  'RequestEvent',
  'SelectableInfo',
  'SelectedAs',
  'SelectionOptions',
  'SummedStreamOptions',
  'TensorChoice',
  'WritePlan',
];

/** Names that a module exports, types too. */
function namesIn(path: string): string[] {
  const lists = textOf(path).matchAll(/^export (?:type )?\{([^}]*)\}/gm);
  return [...lists]
    .flatMap(([, list = '']) => list.split(','))
    .map((name) => name.replace(/^\s*(?:type )?/, '').trim())
    .filter(Boolean)
    .sort();
}

it('the entries agree', () => {
  const names = namesIn('src/remote.ts');
  expect(names.length).toBeGreaterThan(60);
  expect(names.filter((name) => !CALLS.includes(name) && !TYPES.includes(name))).toEqual(
    namesIn('src/remote-browser.ts'),
  );
  expect(names).toEqual(expect.arrayContaining([...CALLS, ...TYPES]));
});

it('what can be called agrees, and is in the lists', () => {
  const names = Object.keys(node).sort();
  expect(names.filter((name) => !CALLS.includes(name))).toEqual(Object.keys(browser).sort());
  expect(namesIn('src/remote.ts')).toEqual(expect.arrayContaining(names));
});

it('the entries of hub agree', () => {
  expect(namesIn('src/hub.ts').length).toBeGreaterThan(30);
  expect(namesIn('src/hub.ts')).toEqual(namesIn('src/hub-browser.ts'));
  expect(Object.keys(hub).sort()).toEqual(Object.keys(hubBrowser).sort());
});

it('the entries of quantized tensors agree', () => {
  expect(namesIn('src/quantized.ts').length).toBeGreaterThan(30);
  expect(namesIn('src/quantized.ts')).toEqual(namesIn('src/quantized-browser.ts'));
});
