import { describe, expect, it } from 'vitest';
import { scanOpcodes } from '../../../src/foreign/pickle/scan.js';
import { pickle, pickle2, unicode } from './pickle-bytes.js';

function names(bytes: Uint8Array): string[] {
  return scanOpcodes(bytes).globals.map(
    ({ module, name, position }) => `${position} ${module}.${name}`,
  );
}

describe('scanOpcodes', () => {
  it('lists the globals with their positions, each once', () => {
    expect(names(pickle2('cos\nsystem\n0cos\nsystem\n0ca\nb\n.'))).toEqual([
      '2 os.system',
      '26 a.b',
    ]);
    expect(names(pickle('\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x930h\x00h\x01\x930N.'))).toEqual(
      ['16 os.system'],
    );
    expect(names(pickle2('(ios\nsystem\n.'))).toEqual(['3 os.system']);
    expect(names(pickle('(S"ls"\nios\nsystem\n.'))).toEqual(['7 os.system']);
  });

  it('follows texts through the stack and the memo, as Python does', () => {
    const twisted = pickle(
      '\x80\x04',
      unicode('system'),
      'q\x07',
      '0',
      unicode('os'),
      '2',
      '0',
      '(',
      'NN',
      '1',
      'h\x07',
      '\x93.',
    );
    expect(names(twisted)).toEqual([`${twisted.length - 2} os.system`]);
    expect(names(pickle('\x80\x04(N00', unicode('os'), unicode('system'), '\x93.'))).toEqual([
      '24 os.system',
    ]);
  });

  it('says so when the names of a global do not stand in the pickle', () => {
    expect(scanOpcodes(pickle('\x80\x04NN\x93.')).problem).toContain('names are no texts');
  });

  it('keeps what it found before the pickle breaks', () => {
    const scan = scanOpcodes(pickle2('cos\nsystem\n\xff'));
    expect(scan.globals).toHaveLength(1);
    expect(scan.problem).toContain('0xff');
  });

  it('lists opcodes that no pickler writes', () => {
    const odd = (bytes: Uint8Array): string[] =>
      scanOpcodes(bytes).oddOpcodes.map(({ name }) => name);
    expect(odd(pickle2('(ca\nb\no\x82\x01Pa\n.'))).toEqual(['OBJ', 'EXT1', 'PERSID']);
    expect(odd(pickle2('I1\n.'))).toEqual(['INT']);
    expect(odd(pickle('I1\n.'))).toEqual([]);
  });

  it('passes over everything else', () => {
    const scan = scanOpcodes(
      pickle(
        '\x80\x04\x95\x01\0\0\0\0\0\0\0',
        '(U\x02\xff\xffT\x01\0\0\0aC\x01aK\x01M\x01\x02J\x01\0\0\0G',
        '\0'.repeat(8),
        '\x8a\x01\x01\x8b\x01\0\0\0\x01l}(ds.',
      ),
    );
    expect(scan.problem).toBeUndefined();
  });
});
