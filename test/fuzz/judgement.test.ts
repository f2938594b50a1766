/** The fuzzer's judgement of scans and finds. */
import { type ScanReport, scanPickle } from 'safetensors-mmap';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../foreign/torch/fixtures.js';
import { signatureOf } from './finds.js';
import { Problem } from './target.js';
import { compareWithScan } from './targets/torch.js';

describe('what a checkpoint that opens has to do with the scan of it', async () => {
  const safe = await scanPickle(fixturePath('zip-state-dict.pt'));
  const compare = (changes: Partial<ScanReport>) => () =>
    compareWithScan(undefined, { ...safe, ...changes });
  const finding = { message: '', position: 0 };

  it('nothing is wrong with what was read', () => {
    const kind = 'unread-entry';
    expect(compare({})).not.toThrow();
    expect(compare({ findings: [{ ...finding, kind, entry: 'm/x' }] })).not.toThrow();
    expect(compare({ findings: [{ ...finding, kind, entry: 'm/data.pkl' }] })).toThrow('opened');
    expect(compare({ findings: [{ ...finding, kind: 'opcode', entry: 'm/x' }] })).toThrow('opened');
    const code = { ...finding, kind: 'code' } as const;
    expect(compare({ findings: [{ ...code, entry: 'm/code/a.py' }] })).not.toThrow();
    expect(compare({ findings: [{ ...code, entry: undefined }] })).toThrow('opened');
    expect(compare({ format: 'TorchScript' })).toThrow('opened');
    expect(compare({ verdict: 'no-pickle' })).toThrow('opened');
  });

  it('it is damaged, or names what torch forbids, only where nothing was read', () => {
    expect(compare({ problems: ['entry "m/.storage_alignment": broken'] })).not.toThrow();
    expect(compare({ problems: ['byte 1 of m/x.pkl: expected more'] })).not.toThrow();
    for (const problem of [
      'entry "m/byteorder": x',
      'byte 1 of m/data.pkl: x',
      'x',
      'entry "m/data/0": x',
    ]) {
      expect(compare({ problems: [problem] }), problem).toThrow('opened');
    }
    const named = { module: 'a', name: 'b', position: 0, kind: 'unknown' } as const;
    expect(compare({ globals: [{ ...named, entry: 'm/x.pkl' }] })).not.toThrow();
    expect(compare({ globals: [{ ...named, entry: 'm/data.pkl' }] })).toThrow('opened');
    expect(compare({ globals: [{ ...named, entry: undefined }] })).toThrow('opened');
  });
});

it('finds that differ in numbers, texts and lengths of lists alone are one', () => {
  const signature = (message: string) => signatureOf(new Problem(message));
  const one = signature('one way gives {"shape":[0],"sha256":"ab"}, another ERR');
  expect(signature('one way gives {"shape":[-1,0,3],"sha256":"c"}, another ERR')).toBe(one);
  expect(signature('one way gives {"shape":[]}, another ERR')).not.toBe(one);
});
