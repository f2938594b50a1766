/** The pictures of docs/how-it-works.md are those that the script draws. */
import { expect, it } from 'vitest';
import { pictures } from '../../scripts/diagrams.mjs';
import { textOf } from '../support/source-tree.js';

it.each(Object.entries(pictures))('docs/pictures/%s is drawn by the script', (name, picture) => {
  expect(textOf(`docs/pictures/${name}`)).toBe(picture);
  expect(textOf('docs/how-it-works.md')).toContain(`(pictures/${name})`);
});
