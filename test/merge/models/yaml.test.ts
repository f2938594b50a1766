/** Recipes in YAML: what the reader accepts means the same to a whole parser. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { parseYaml } from '../../../src/merge/models/yaml.js';
import { Random } from '../../support/random.js';
import { pathOf } from '../fixtures.js';

const recipes = readdirSync(pathOf('.')).filter((name) => name.startsWith('mk-'));

it.each(recipes)('%s', (name) => {
  const text = readFileSync(pathOf(name, 'config.yml'), 'utf8');
  expect(parseYaml(text)).toEqual(parse(text));
});
