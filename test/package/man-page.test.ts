/** The manual has every command and option, and is sound to the program that shows it. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.js';
import { root, textOf } from '../support/source-tree.js';

const PAGE = 'lib/safetensors-mmap.1';

it('names every command and every option', () => {
  const text = textOf(PAGE).replaceAll('\\-', '-');
  for (const { usage, options } of Object.values(COMMANDS)) {
    expect(text).toContain(`.SS "${usage.split(' ')[0]}`);
    for (const option of Object.keys(options)) expect(text).toContain(`--${option}\\fR`);
  }
});

const hasGroff = spawnSync('groff', ['--version']).status === 0;

it.runIf(hasGroff)('gives groff nothing to warn of', () => {
  const options = ['-man', '-ww', '-Tutf8', join(root, PAGE)];
  const { status, stderr } = spawnSync('groff', options, { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
});
