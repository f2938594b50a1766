import { describe, expect, it } from 'vitest';
import { requireLocalNames } from '../../src/download/local-names.js';

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

  it.each([
    ['README.md', 'readme.md'],
    ['unet/config.json', 'UNet/config.json'],
    ['caf\u00e9.json', 'cafe\u0301.json'],
  ])('are refused where the system takes two for one: %s, %s', (...names) => {
    for (const platform of ['win32', 'darwin']) {
      expect(check(names, platform)).toThrow('names that differ in more than case here');
    }
    expect(check(names, 'linux')).not.toThrow();
  });

  it('are mostly fine', () => {
    const names = ['config.json', 'console.json', 'a.con', 'unet/config.json', 'com10.json'];
    for (const platform of ['linux', 'darwin', 'win32']) {
      expect(check(names, platform)).not.toThrow();
    }
  });
});
