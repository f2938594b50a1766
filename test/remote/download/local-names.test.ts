import { describe, expect, it } from 'vitest';
import { isTooLongHere, requireLocalNames } from '../../../src/remote/download/local-names.js';
import { temporaryPath } from '../../support/make-file.js';

function check(names: readonly string[], platform: string): () => void {
  return () => requireLocalNames(names, 'https://hub.example/org/name', platform);
}

describe('names of files in a repository', () => {
  it.each([
    'CON',
    'nul.json',
    'a/aux/model.safetensors',
    'com1.safetensors',
    'LPT².txt',
    'CONOUT$',
    'folder./x.json',
    'README.md ',
    'what?.json',
    'a|b.json',
  ])('are refused on Windows when it cannot have them: %s', (name) => {
    expect(check(['config.json', name], 'win32')).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
        message: expect.stringContaining(`found ${JSON.stringify(name)}`),
      }),
    );
    for (const platform of ['linux', 'darwin']) expect(check([name], platform)).not.toThrow();
  });

  it('are refused where one is a folder of another', () => {
    for (const platform of ['linux', 'darwin', 'win32']) {
      expect(check(['a/b', 'a'], platform)).toThrow('found both: "a"');
      expect(check(['a', 'a/b/c'], platform)).toThrow('found both: "a"');
      expect(check(['a', 'ab/c', 'b/a'], platform)).not.toThrow();
    }
  });

  it.each([
    ['README.md', 'readme.md'],
    ['unet/config.json', 'UNet/config.json'],
    ['caf\u00e9.json', 'cafe\u0301.json'],
    ['\u017fame.json', 'same.json'],
    ['\u03c3.json', '\u03c2.json'],
  ])('are refused where the system takes two for one: %s, %s', (...names) => {
    for (const platform of ['win32', 'darwin']) {
      expect(check(names, platform)).toThrow('names that differ in more than case here');
    }
    expect(check(names, 'linux')).not.toThrow();
  });

  it.each([
    ['a'.repeat(256), true, true],
    ['a'.repeat(255), false, false],
    // Two bytes each, three, and four in two UTF-16 units.
    ['\u00e9'.repeat(128), true, false],
    ['\u6a21'.repeat(86), true, false],
    ['\u{1f600}'.repeat(64), true, false],
    ['\u{1f600}'.repeat(128), true, true],
    [`${'folder/'.repeat(60)}file`, false, false],
    [`${'a'.repeat(256)}/file`, true, true],
  ])('are too long by bytes, on Windows by UTF-16 units: %s', (name, here, onWindows) => {
    const path = temporaryPath('file');
    expect(['linux', 'darwin'].map((on) => isTooLongHere(name, path, on))).toEqual([here, here]);
    expect(isTooLongHere(name, path, 'win32')).toBe(onWindows);
    const refusal = expect.objectContaining({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
    for (const [platform, isUnsupported] of [
      ['linux', here],
      ['win32', onWindows],
    ] as const) {
      if (isUnsupported) expect(check([name], platform)).toThrow(refusal);
      else expect(check([name], platform)).not.toThrow();
    }
  });

  it('are too long where the whole path is', () => {
    const path = temporaryPath(`${'folder/'.repeat(700)}file`);
    expect(isTooLongHere('file', path, 'linux')).toBe(true);
    expect(isTooLongHere('file', temporaryPath('missing/file'), 'linux')).toBe(false);
  });

  it('are mostly fine', () => {
    const names = ['config.json', 'console.json', 'a.con', 'unet/config.json', 'com10.json'];
    for (const platform of ['linux', 'darwin', 'win32']) {
      expect(check(names, platform)).not.toThrow();
    }
  });
});
