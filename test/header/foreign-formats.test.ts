import { execFileSync } from 'node:child_process';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import {
  describeContainer,
  describeForeignFormat,
  isTarArchive,
  likeness,
} from '../../src/header/foreign-formats.js';

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
    ['\x08\x03\x12\x07', /^an ONNX model$/],
    ['\x08\x1f\x12\x07', /^an ONNX model$/],
    ['{"error":"Repository not found"}', /JSON document/],
    ['{"metadata":{"total_size":1},"weight_map":{}}', /index of a checkpoint/],
    ['{"t":{"dtype":"F32","shape":[2]', /without the length/],
    ['\0'.repeat(64), /zeros/],
    [`model/weights${'\0'.repeat(244)}ustar`, /tar archive/],
    ['version https://hawser.github.com/spec/v1\noid', /LFS pointer/],
    ['# xet version 0\nfilesize', /Xet pointer/],
    ['/annex/objects/SHA256E-s4--01.safetensors\n', /git-annex pointer.*git annex get/],
    ['outs:\n- md5: 0123456789abcdef0123456789abcdef\n  path: m', /DVC pointer.*dvc pull/],
    [
      '../../blobs/9f86d081884c7d65',
      /^a symbolic link to "\.\.\/\.\.\/blobs\/9f86d081884c7d65", checked/,
    ],
    ['model-00001-of-00002.safetensors\n', /symbolic link to "model-00001-of-00002\.safetensors"/],
    ['../my models/a b.safetensors', /symbolic link/],
    ['!<symlink>\xff\xfea\0', /link of Cygwin/],
    ['\x82\xa7decoder\x81\xa5layer', /MessagePack/],
    ['\xde\0\x14\xa6params\x80', /MessagePack/],
    ['\x81\xd9\x05model\x80', /MessagePack/],
    ['\x08\x01\x12\xab\x04\x0a', /SavedModel/],
    ['\x1c\0\0\0TFL3\x14\0', /TensorFlow Lite/],
    ['<?xml version="1.0"?>\n<net name="m" version="11">', /OpenVINO/],
    [
      '\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x25torch.distributed.checkpoint.metadata',
      /reads its folder/,
    ],
  ])('%j', (head, expected) => {
    expect(describeForeignFormat(latin1(head))).toMatch(expected);
  });

  test.each([
    [''],
    ['\x40\0\0\0\0\0\0\0{"t":'],
    ['random text'],
    ['PK'],
    ['GG'],
    ['\x08\x02\x12'],
    ['\x81\xa5lay\xffr'],
    ['\x81\xa5lay'],
    ['a sentence of words.'],
    [`../${'a'.repeat(600)}`],
    ['\x08\x20\x12'],
    ['\x08\x07'],
  ])('nothing is said of %j', (head) => {
    expect(describeForeignFormat(latin1(head))).toBeNull();
  });

  test('only the first bytes are looked at', () => {
    const long = new Uint8Array(1 << 20).fill(0x20);
    long.set(latin1('<html>'), 600);
    expect(describeForeignFormat(long)).toBeNull();
  });

  test('what gzip writes is recognised', () => {
    expect(describeForeignFormat(gzipSync('weights'))).toMatch('gzip');
  });

  test.skipIf(!hasPython())('every pickle protocol of Python is recognised', () => {
    const program = `import pickle,sys;from collections import OrderedDict
for protocol in (0, 2, 3, 4, 5):
  for o in ({'w': [1.0]}, [1], OrderedDict(w=1)):
    print(protocol, pickle.dumps(o, protocol).hex())`;
    const output = execFileSync('python3', ['-c', program], { encoding: 'utf8' });
    const lines = output.trim().split('\n');
    expect(lines).toHaveLength(15);
    for (const line of lines) {
      const bytes = Buffer.from(line.slice(2), 'hex');
      expect(describeForeignFormat(bytes), line).toMatch('pickle');
    }
  });
});

/** The first 512 bytes of a tar archive without a mark: bytes of one kind, and this field as their sum. */
function tarHead(byte: number, field: string): Uint8Array {
  const head = new Uint8Array(512).fill(byte);
  head.set(latin1(field.padEnd(8, '\0')), 148);
  return head;
}

/** The sum of 504 bytes, the field itself as blanks, plus `more`. */
const sumOf = (byte: number, more = 0): number => 256 + 504 * byte + more;
const octal = (number: number): string => number.toString(8);

/** Heads, and whether their sum is right: one byte more or less is wrong in each. */
const SUMS: readonly (readonly [string, number, string, boolean])[] = [
  ['octal digits', 1, octal(sumOf(1)), true],
  ['digits of one more', 1, octal(sumOf(1, 1)), false],
  ['digits of one less', 1, octal(sumOf(1, -1)), false],
  ['blanks around', 1, ` ${octal(sumOf(1))} `, true],
  ['other blanks around', 1, `\x1c${octal(sumOf(1))}\x1f`, true],
  ['a plus', 1, `+${octal(sumOf(1))}`, true],
  ['a minus', 1, `-${octal(sumOf(1))}`, false],
  ['a prefix', 1, `0o${octal(sumOf(1))}`, true],
  ['a prefix and an underscore', 0, `0O_${octal(sumOf(0))}`, true],
  ['underscores', 0, '4_0_0', true],
  ['digits above seven', 0, '4008', false],
  ['what follows a zero byte', 0, '400\x009', true],
  ['no digits', 0, '', false],
  ['unsigned bytes', 0xff, octal(sumOf(0xff)), true],
  ['signed bytes', 0xff, `-${octal(-sumOf(-1))}`, true],
  ['signed bytes without their sign', 0xff, octal(-sumOf(-1)), false],
  ['unsigned bytes from 0x80', 0x80, octal(sumOf(0x80)), true],
  ['signed bytes from 0x80', 0x80, `-${octal(-sumOf(-0x80))}`, true],
  ['unsigned bytes up to 0x7f', 0x7f, octal(sumOf(0x7f)), true],
  ['a binary number', 1, '\x80\0\0\0\0\0\x02\xf8', true],
  ['a binary number of one more', 1, '\x80\0\0\0\0\0\x02\xf9', false],
  ['a vast binary number that ends like the sum', 1, '\x80\x01\0\0\0\0\x02\xf8', false],
  ['a negative binary number', 0xff, '\xff\xff\xff\xff\xff\xff\xff\x08', true],
  ['a negative binary number of one more', 0xff, '\xff\xff\xff\xff\xff\xff\xff\x09', false],
  ['another first byte', 1, '\x81\0\0\0\0\0\x02\xf8', false],
];

describe('isTarArchive', () => {
  test.each(SUMS)('by %s', (_, byte, field, expected) => {
    const head = tarHead(byte, field);
    expect(isTarArchive(head)).toBe(expected);
    expect(isTarArchive(Buffer.concat([head, Buffer.alloc(9, 1)]))).toBe(expected);
    expect(isTarArchive(head.subarray(0, 511))).toBe(false);
  });

  test('without digits the sum is zero, as a sum of signed bytes can be', () => {
    const head = tarHead(0, '');
    head.set([0x80, 0x80], 0);
    expect(isTarArchive(head)).toBe(true);
    head[511] = 1;
    expect(isTarArchive(head)).toBe(false);
    head.set(latin1('1'), 148);
    expect(isTarArchive(head)).toBe(true);
  });

  test('a negative sum that is no multiple of eight', () => {
    const head = tarHead(0xff, '\xff\xff\xff\xff\xff\xff\xff\x09');
    head[0] = 0;
    expect(isTarArchive(head)).toBe(true);
  });

  test.skipIf(!hasPython())('says of all of them what Python says', () => {
    const heads = SUMS.map(([, byte, field]) => Buffer.from(tarHead(byte, field)).toString('hex'));
    const program = `import sys, tarfile
for line in sys.stdin:
  head = bytes.fromhex(line)
  try: print(int(tarfile.nti(head[148:156]) in tarfile.calc_chksums(head)))
  except tarfile.HeaderError: print(0)`;
    const output = execFileSync('python3', ['-c', program], {
      input: heads.join('\n'),
      encoding: 'utf8',
    });
    expect(output.trim().split('\n').map(Number)).toEqual(SUMS.map(([, , , is]) => Number(is)));
  });
});

test.each([
  ['PK\x03\x04', 'a zip archive (as torch.save and numpy.savez write)'],
  ['\x1f\x8b', 'a gzip archive: unpack it first'],
  ['\x89HDF\r\n\x1a\n', 'an HDF5 file (as Keras writes)'],
  ['\x80\x02', undefined],
  ['GGUF', undefined],
  ['text', undefined],
])('describeContainer of %j', (head, description) => {
  expect(describeContainer(latin1(head))).toBe(description);
});

describe('likeness', () => {
  const opener = ', which open() reads by its path; ';
  test.each([
    ['PK\x03\x04', 'zip', true],
    ['\x80\x02', 'pickle', true],
    ['\x93NUMPY', 'numpy', true],
    ['PK\x05\x06', 'zip', false],
    ['\x1f\x8b', 'gzip', false],
  ])('of %j tells what opens it', (head, foundFormat, isOpened) => {
    const { looks, context } = likeness(latin1(head), { path: 'a' });
    const advice = isOpened ? [{ option: 'open', text: 'open() reads' }] : undefined;
    expect(context).toEqual({ path: 'a', foundFormat, advice });
    expect(looks.endsWith(opener)).toBe(isOpened);
    expect(looks).toMatch(/^looks like an? .*; $/);
  });

  test('of an address names the download first', () => {
    for (const path of ['https://host.example/m.pt', 'hf://org/name/m.pt']) {
      const { looks } = likeness(latin1('PK\x03\x04'), { path });
      expect(looks).toContain(', which open() reads once it is downloaded; ');
    }
  });

  test('of nothing that is known is empty', () => {
    expect(likeness(latin1('text'), { path: 'a' })).toEqual({ looks: '', context: { path: 'a' } });
  });
});
