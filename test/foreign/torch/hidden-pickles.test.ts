/** Pickles where a loader looks and a scanner may not. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import type { ScanReport } from '../../../src/foreign/scan/scan-report.js';
import { Random } from '../../support/random.js';
import { type ArchiveFile, writeArchive } from '../generated-archive.js';
import { headerOf, npy } from '../numpy/arrays.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-hidden-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PAYLOAD = 'cposix\nsystem\n)R.';

function scan(bytes: Buffer): ScanReport {
  const path = join(folder, 'file');
  writeFileSync(path, bytes);
  return scanPickle(path);
}

function archive(name: string, data: Buffer, isDeflated = false): Buffer {
  const files: ArchiveFile[] = [{ name, data, isDeflated }];
  return writeArchive(files, new Random(1, 0));
}

/** An array of NumPy of version 2, with the payload for its items. */
function array(descr: string, padding = 0): Buffer {
  const header = `{'descr': ${descr}, 'fortran_order': False, 'shape': (1,), }${' '.repeat(padding)}`;
  const head = Buffer.from('\x93NUMPY\x02\0\0\0\0\0', 'latin1');
  head.writeUInt32LE(header.length, 8);
  return Buffer.concat([head, Buffer.from(header + PAYLOAD)]);
}

/** An array of so many bytes. */
function numbersOf(count: number): Buffer {
  return npy(headerOf('|u1', `(${count},)`), Buffer.alloc(count));
}

const hostile = [expect.objectContaining({ module: 'posix', name: 'system', kind: 'hostile' })];

it.each([
  "'|O'",
  "'O8'",
  "'<O'",
  "'object'",
  "'\\x4f'",
  "'i4,O'",
  "'obj' 'ect'",
  "'obj' # \n 'ect'",
  "[('a', '<f4'), ('b', 'O')]",
])('behind the header of an array of %s', (descr) => {
  expect(scan(array(descr)).globals).toEqual(hostile);
  expect(scan(archive('a.npy', array(descr))).globals).toEqual(hostile);
});

it('of arrays whatever their entries are called, stored or deflated, with long headers', () => {
  for (const name of ['a.npy', 'a', 'm/data/0', 'm/data.pkl', 'm/x.pkl', 'm/version']) {
    for (const isDeflated of [false, true]) {
      expect(scan(archive(name, array("'O'"), isDeflated)).globals).toEqual(hostile);
      expect(scan(archive(name, array("'O'", 30_000), isDeflated)).globals).toEqual(hostile);
    }
  }
  expect(scan(array("'O'", 100_000)).verdict).toBe('suspicious');
});

it('in arrays that are longer than a pickle may be: they are not called safe', () => {
  const long = Buffer.concat([array("'O'"), Buffer.alloc(65 * 2 ** 20)]);
  expect(scan(archive('a.npy', long, true)).findings).toMatchObject([{ kind: 'limit' }]);
  const numbers = numbersOf(65 * 2 ** 20);
  expect(scan(archive('a.npy', numbers, true))).toMatchObject({
    verdict: 'no-pickle',
    pickleCount: 0,
  });
});

it('in entries that are deflated, whatever they are called', () => {
  const pickle = Buffer.from(`\x80\x02${PAYLOAD}`, 'latin1');
  expect(scan(archive('m/x', pickle, true)).globals).toEqual(hostile);
});

it('in a file that begins as safetensors does', () => {
  // A text of four bytes, the last of which is the first of the header; the length of the header is 1112.
  const bytes = Buffer.concat([
    Buffer.from(`X\x04\0\0\0\0\0\0{0${PAYLOAD}`, 'latin1'),
    Buffer.alloc(2000),
  ]);
  expect(scan(bytes)).toMatchObject({ verdict: 'suspicious', globals: hostile });
});

it('after more pickles than are looked at: the file is not called safe', () => {
  const many = scan(Buffer.alloc(40_000, Buffer.from('\x80\x02N.', 'latin1')));
  expect(many).toMatchObject({ verdict: 'suspicious', pickleCount: 1000 });
  expect(many.findings).toMatchObject([{ kind: 'limit' }]);
});

it('behind bytes that a class reads which the pickle names, as those of joblib', () => {
  const wrapper = 'cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81';
  const bytes = Buffer.from(`\x80\x04${wrapper}\0\0\0\0\x80?${PAYLOAD}`, 'latin1');
  const { verdict, findings } = scan(bytes);
  expect(verdict).toBe('suspicious');
  expect(findings).toMatchObject([{ kind: 'unread-bytes' }]);
});

it.each([
  ['the name ends the file, and loses its last letter', 'cposix\nsystemX', 'posix', 'system'],
  ['the module ends the file, and there is no name', 'cantigravityX', 'antigravity', ''],
  ['the line of the module ends the file', 'cantigravity\n', 'antigravity', ''],
  ['an instance of it', 'iantigravity\n', 'antigravity', ''],
  ['nothing follows the opcode', 'c', '', ''],
  ['nothing follows the opcode of an instance, in a text', 'ia', '', ''],
  ['the line of the module is empty, and ends the file', '(i\n', '', ''],
  ['the name ends the file behind an empty line', 'c\nabc', '', 'ab'],
  ['no words, in a whole pickle with text behind it', 'ca b\nc d\n)R.text', 'a b', 'c d'],
])("which Python's own reader asks for: %s", (_, text, module, name) => {
  const { verdict, globals } = scan(Buffer.from(text));
  expect(verdict).not.toMatch(/^(safe|no-pickle)$/);
  expect(globals).toEqual([expect.objectContaining({ module, name })]);
});

it('in no text that begins as a pickle may', () => {
  for (const text of [
    'configure it\nby hand',
    '<c!DOCTYPE html>',
    'c!DOCTYPE html><html>',
    'import os\n',
    // Python imports nothing from a module without a name: a column of a table.
    'c\n1\n2\n',
    'i\n\nmiddle',
  ]) {
    expect(scan(Buffer.from(text)), text).toMatchObject({ verdict: 'no-pickle', globals: [] });
  }
});
