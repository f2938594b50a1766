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

  it('says so when the names of a global do not stand in the pickle, and goes on', () => {
    const scan = scanOpcodes(pickle('\x80\x04NN\x930cos\nsystem\n.'));
    expect(scan.suspiciousOpcodes).toMatchObject([
      { name: 'STACK_GLOBAL', position: 4, isHidden: true },
    ]);
    expect(scan.globals).toHaveLength(1);
    expect(scan.problem).toBeUndefined();
  });

  it.each([
    ['1_0', 10],
    ['+7', 7],
    [' 3 ', 3],
    ['007', 7],
    ['\x0b1\x0c', 1],
    ['-0', 0],
    ['9\0 8', 9],
  ])('reads the memo number %j as Python does, and notes it', (spelling, number) => {
    const twisted = pickle(
      ...[unicode('system'), `p${spelling}\n0`, unicode('os')],
      ...[`g${number}\n\x93.`],
    );
    const { globals, suspiciousOpcodes, problem } = scanOpcodes(twisted);
    expect(problem).toBeUndefined();
    expect(globals).toMatchObject([{ module: 'os', name: 'system' }]);
    expect(suspiciousOpcodes).toMatchObject([
      { name: 'PUT', message: expect.stringContaining('number') },
    ]);
  });

  it.each(['p-1', 'p1__0', 'p_1', 'p1_', 'px', 'p'])('ends at %j, as Python does', (put) => {
    expect(scanOpcodes(pickle(`N${put}\n.`)).problem).toBeDefined();
  });

  it.each(['I1_0', 'I010', 'I0x1', 'I 1', 'I1L', 'I+1', 'L1_0L', 'L1LL', 'F1_0.5', 'F nan'])(
    'notes the number %j, which readers take in several ways',
    (line) => {
      expect(scanOpcodes(pickle(`${line}\n.`)).suspiciousOpcodes).toHaveLength(1);
    },
  );

  it.each(['I00', 'I01', 'I-5', 'L12L', 'L-3', 'F1.5', 'F-1e-05', 'Finf', 'Fnan', 'F1e+16'])(
    'knows the number %j, as picklers write it',
    (line) => {
      const scan = scanOpcodes(pickle(`${line}\n.`));
      expect([scan.suspiciousOpcodes, scan.problem]).toEqual([[], undefined]);
    },
  );

  it('notes frames that end within an opcode, begin within another, or go on', () => {
    const odd = (...parts: string[]): number =>
      scanOpcodes(pickle(...parts)).suspiciousOpcodes.length;
    const frame = (length: number): string => `\x95${String.fromCharCode(length)}${'\0'.repeat(7)}`;
    expect(odd('\x80\x04', frame(4), 'K\x01K\x02', '0.')).toBe(0);
    expect(odd('\x80\x04', frame(3), 'K\x01K\x02', '0.')).toBe(1);
    expect(odd('\x80\x04', frame(12), 'K\x01', frame(2), 'N0', 'N.')).toBe(1);
    expect(odd('\x80\x04', frame(3), 'N.', '.')).toBe(1);
  });

  it('follows texts as the first protocols spell them', () => {
    expect(names(pickle("S'os'\nVsystem\n\x93."))).toEqual(['14 os.system']);
    expect(names(pickle('U\x02osT\x06\0\0\0system\x93.'))).toEqual(['15 os.system']);
    const escaped = scanOpcodes(pickle("S'\\x6fs'\nVsystem\n\x93."));
    expect(escaped.suspiciousOpcodes).toMatchObject([{ name: 'STACK_GLOBAL', isHidden: true }]);
  });

  it('tells of persistent ids, with what is known of them', () => {
    const ids: unknown[] = [];
    const notePersistentId = (id: unknown): number => ids.push(id);
    const id = `(${unicode('storage')}ctorch\nFloatStorage\n${unicode('0')}NK\x04tQ`;
    scanOpcodes(pickle('\x80\x02', id, '.'), 0, undefined, { notePersistentId });
    const type = { module: 'torch', name: 'FloatStorage', position: 15 };
    expect(ids).toEqual([['storage', type, '0', null, 4]]);
  });

  it('keeps what it found before the pickle breaks', () => {
    const scan = scanOpcodes(pickle2('cos\nsystem\n\xff'));
    expect(scan.globals).toHaveLength(1);
    expect(scan.problem).toContain('0xff');
  });

  it('lists opcodes that no pickler writes', () => {
    const odd = (bytes: Uint8Array): string[] =>
      scanOpcodes(bytes).suspiciousOpcodes.map(({ name }) => name);
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
