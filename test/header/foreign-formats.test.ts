import { execFileSync } from 'node:child_process';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { describeForeignFormat } from '../../src/header/foreign-formats.js';

function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function hasPython(): boolean {
  try {
    execFileSync('python3', ['-c', ''], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

describe('describeForeignFormat', () => {
  test.each([
    ['version https://git-lfs.github.com/spec/v1\noid sha256:00\n', /LFS pointer.*git lfs pull/],
    ['PK\x03\x04\0\0\x08\x08\0\0\0\0', /zip archive/],
    ['\x80\x02}q\0.', /pickle/],
    ['\x80\x05\x95', /pickle/],
    ['(dp0\nS"a"\n', /pickle.*text form/],
    ['ccollections\nOrderedDict\np0\n', /pickle.*text form/],
    ['GGUF\x03\0\0\0', /GGUF/],
    ['\x89HDF\r\n\x1a\n\0', /HDF5/],
    ['\x1f\x8b\x08\0', /gzip/],
    ['\x28\xb5\x2f\xfd\x04', /zstd/],
    ['\x93NUMPY\x01\0', /\.npy/],
    ['7z\xbc\xaf\x27\x1c\0\x04', /7z/],
    ['Rar!\x1a\x07\x01\0', /RAR/],
    ['BZh91AY', /bzip2/],
    ['\xfd7zXZ\0', /xz/],
    ['<!DOCTYPE html><html>', /HTML/],
    ['\n <HTML lang=en>', /HTML/],
    ['\xef\xbb\xbf<?xml version="1.0"?><Error>', /XML/],
    ['\x08\x07\x12\x07pytorch', /^an ONNX model$/],
    ['{"error":"Repository not found"}', /JSON document/],
    ['{"metadata":{"total_size":1},"weight_map":{}}', /index of a checkpoint/],
    ['{"t":{"dtype":"F32","shape":[2]', /without the length/],
    ['\0'.repeat(64), /zeros/],
    [`model/weights${'\0'.repeat(244)}ustar`, /tar archive/],
  ])('%j', (head, expected) => {
    expect(describeForeignFormat(latin1(head))).toMatch(expected);
  });

  test.each([[''], ['\x40\0\0\0\0\0\0\0{"t":'], ['random text'], ['PK'], ['GG'], ['\x08\x01\x12']])(
    'nothing is said of %j',
    (head) => {
      expect(describeForeignFormat(latin1(head))).toBeNull();
    },
  );

  test('only the first bytes are looked at', () => {
    const long = new Uint8Array(1 << 20).fill(0x20);
    long.set(latin1('<html>'), 600);
    expect(describeForeignFormat(long)).toBeNull();
  });

  test('what gzip writes is recognised', () => {
    expect(describeForeignFormat(gzipSync('weights'))).toMatch('gzip');
  });

  test.skipIf(!hasPython())('every pickle protocol of Python is recognised', () => {
    for (const protocol of [0, 2, 3, 4, 5]) {
      const program = `import pickle,sys;from collections import OrderedDict
for o in ({'w': [1.0]}, [1], OrderedDict(w=1)):
  sys.stdout.write(pickle.dumps(o, ${protocol}).hex() + '\\n')`;
      const output = execFileSync('python3', ['-c', program], { encoding: 'utf8' });
      for (const hex of output.trim().split('\n')) {
        expect(describeForeignFormat(Buffer.from(hex, 'hex')), `${protocol}: ${hex}`).toMatch(
          'pickle',
        );
      }
    }
  });
});
