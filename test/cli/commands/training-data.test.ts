import { expect, it } from 'vitest';
import { strippedAs } from '../../../src/cli/commands/metadata.js';

it.each([
  ['ss_learning_rate', '1e-4', 'training'],
  ['ss_tag_frequency', '{}', 'training'],
  ['ss_network_dim', '16', null],
  ['ss_base_model_version', 'sdxl_base_v1-0', null],
  ['sshs_model_hash', 'ab', null],
  ['format', 'pt', null],
  ['modelspec.title', 'Cats / dogs', null],
  ['source', '/home/élise/x', 'path'],
  ['source', 'see (/mnt/d/x)', 'path'],
  ['source', '{"path":"/workspace/x"}', 'path'],
  ['source', 'C:\\Users\\x', 'path'],
  ['source', '{"p":"D:\\\\models"}', 'path'],
  ['source', 'E:/models', 'path'],
  ['source', '\\\\server\\share', 'path'],
  ['source', '~/models', 'path'],
  ['source', 'file:///srv/x', 'path'],
  ['source', '/Volumes/disk/x', 'path'],
  ['source', 'https://example.org/home/x', null],
  ['source', 'hf://org/data/x', null],
  ['ratio', '1/2', null],
  ['thumb', 'data:image/png;base64,/home//AA', null],
])('%s: %s → %s', (key, value, expected) => {
  expect(strippedAs(key, value)).toBe(expected);
});
