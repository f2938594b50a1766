/** Which reports fail `node test/sanitize/run.mjs`. */
import { describe, expect, it } from 'vitest';
import { findings } from './reports.mjs';

const ADDON = '/build/sanitize/safetensors-mmap.node';
const NODE = '/usr/bin/node';

/** A stack of these modules, the innermost first. */
function stack(...modules: readonly string[]): string {
  return modules.map((module, i) => `    #${i} 0x7f00${i}  (${module}+0x1${i})\n`).join('');
}

function leak(...modules: readonly string[]): string {
  return `Direct leak of 32 byte(s) in 1 object(s) allocated from:\n${stack(...modules)}\n`;
}

function leakReport(...leaks: readonly string[]): string {
  const line = '='.repeat(65);
  const summary = `SUMMARY: AddressSanitizer: 64 byte(s) leaked in ${leaks.length} allocation(s).\n`;
  return `\n${line}\n==458==ERROR: LeakSanitizer: detected memory leaks\n\n${leaks.join('')}${summary}`;
}

describe('a leak', () => {
  const ours = leak('/lib/libasan.so.8', '/lib/libstdc++.so.6.0.30', ADDON, NODE);
  const node = leak('/lib/libasan.so.8', NODE, ADDON, NODE);
  const shell = leak('/lib/libasan.so.8', '/usr/bin/bash');

  it('is a finding when the addon asked for the memory', () => {
    expect(findings(leakReport(node, ours, shell), ADDON)).toEqual([ours.trim()]);
  });

  it('is no finding when Node asked for it while the addon called, or another program did', () => {
    expect(findings(leakReport(node, shell), ADDON)).toEqual([]);
  });

  it('is a finding when nobody knows who asked', () => {
    expect(findings(leakReport(leak('/lib/libasan.so.8')), ADDON)).toHaveLength(1);
  });
});

it.each([
  [
    'an error',
    `=====\n==9==ERROR: AddressSanitizer: heap-use-after-free\n${stack(NODE)}\nfreed by\n${stack(ADDON)}`,
  ],
  ['undefined behaviour', 'native/convert.h:9:1: runtime error: null pointer passed as argument 2'],
  ['a check of the sanitizer itself', '==9==LeakSanitizer has encountered a fatal error.'],
])('%s is one finding, wherever it is', (_, log) => {
  expect(findings(log, ADDON)).toEqual([log.trim()]);
});

it('refused memory is no finding', () => {
  expect(findings('==9==WARNING: AddressSanitizer failed to allocate 0x7 bytes\n', ADDON)).toEqual(
    [],
  );
});
