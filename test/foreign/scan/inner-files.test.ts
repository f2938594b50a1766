/** Files that a pickle loads from its own bytes: `pickle` stores torch's storages so. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import type { ScanReport } from '../../../src/foreign/scan/scan-report.js';
import { pickle, unicode } from '../pickle/pickle-bytes.js';

const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const folder = mkdtempSync(join(tmpdir(), 'safetensors-inner-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'file.pkl');
const LOADER = 'ctorch.storage\n_load_from_bytes\n';
const SYSTEM = `cposix\nsystem\n(${unicode('true')}tR`;

function scan(bytes: Uint8Array): ScanReport {
  writeFileSync(path, bytes);
  return scanPickle(path);
}

/** A text of BINUNICODE, whose length is that of its UTF-8. */
function utf8(text: string): string {
  const bytes = Buffer.from(text).toString('latin1');
  return `X${latin1Of(Uint32Array.of(bytes.length))}${bytes}`;
}

function latin1Of(numbers: Uint32Array): string {
  return Buffer.from(numbers.buffer).toString('latin1');
}

/** Opcodes of bytes as the protocols spell them. */
const SPELLINGS: Readonly<Record<string, (bytes: Uint8Array) => string>> = {
  BINBYTES: (bytes) =>
    `B${latin1Of(Uint32Array.of(bytes.length))}${Buffer.from(bytes).toString('latin1')}`,
  BINBYTES8: (bytes) =>
    `\x8e${latin1Of(Uint32Array.of(bytes.length, 0))}${Buffer.from(bytes).toString('latin1')}`,
  'protocol 2': (bytes) =>
    `c_codecs\nencode\n(${utf8(Buffer.from(bytes).toString('latin1'))}${unicode('latin1')}tR`,
  'protocol 0': (bytes) => {
    const escaped = Array.from(Buffer.from(bytes).toString('latin1'), (one) =>
      '\\\0\n\r\x1a'.includes(one)
        ? `\\u00${one.charCodeAt(0).toString(16).padStart(2, '0')}`
        : one,
    ).join('');
    return `c_codecs\nencode\n(V${escaped}\nVlatin1\ntR`;
  },
  'a memo': (bytes) => `${SPELLINGS['BINBYTES']?.(bytes)}r\x07\0\0\x000j\x07\0\0\0`,
};

/** The stream that torch writes of a storage: five pickles, and the numbers. */
function storage(
  value = `(${unicode('storage')}ctorch\nFloatStorage\n${unicode('0')}${unicode('cpu')}K\x02NtQ`,
): Uint8Array {
  return Buffer.concat([
    pickle('\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.'),
    pickle('\x80\x02M\xe9\x03.'),
    pickle('\x80\x02}.'),
    pickle('\x80\x02', value, '.'),
    pickle(`\x80\x02](${unicode('0')}e.`),
    new Uint8Array(BigInt64Array.of(2n).buffer),
    new Uint8Array(8),
  ]);
}

function loading(argument: string): Uint8Array {
  return pickle(`\x80\x04${LOADER}(${argument}tR.`);
}

describe('a storage in a pickle', () => {
  it.each(Object.entries(SPELLINGS))('is scanned as the file that it is: %s', (_, spell) => {
    const { verdict, findings, problems, advice } = scan(
      pickle(`\x80\x02${LOADER}(${spell(storage())}tR.`),
    );
    const odd = findings.filter(({ message }) => !message.includes('opcode UNICODE'));
    expect([odd, problems]).toEqual([[], []]);
    if (findings.length > 0) return;
    expect(verdict).toBe('needs-code');
    expect(advice).toContain(
      'load it in Python, only if you trust it, and save it with torch.save',
    );
  });

  it.each(Object.entries(SPELLINGS))('runs code: %s', (_, spell) => {
    for (const inner of [
      storage(SYSTEM),
      pickle(`\x80\x02${SYSTEM}.`),
      Buffer.concat([storage(), pickle(`${SYSTEM}.`)]),
    ]) {
      const { verdict, globals, advice } = scan(loading(spell(inner)));
      expect([verdict, advice]).toEqual(['suspicious', undefined]);
      expect(globals.map(({ module, name, kind }) => `${module}.${name} ${kind}`)).toContain(
        'posix.system hostile',
      );
    }
  });

  it('is suspicious unless its bytes are in the pickle, and are all that is loaded', () => {
    const bytes = SPELLINGS['BINBYTES']?.(storage()) ?? '';
    for (const opcodes of [
      `${LOADER}(cbuiltins\nbytes\n)RtR`,
      `${LOADER}(\x96\x01\0\0\0\0\0\0\0XtR`,
      `${LOADER}(${unicode('a text')}tR`,
      `${LOADER}(${bytes}${bytes}tR`,
      `${LOADER})R`,
      // A method that an attribute replaces is called with what follows.
      `cargparse\nNamespace\n)R}${unicode('__setstate__')}${LOADER}sb${bytes}b`,
      `cargparse\nNamespace\n)R}${unicode('append')}${LOADER}sb${bytes}a`,
      `ccollections\ndefaultdict\n(${LOADER}tR`,
      `${LOADER}q\x010Nh\x01\x86`,
      `${LOADER}`,
    ]) {
      const { verdict, advice } = scan(pickle(`\x80\x04${opcodes}.`));
      expect([opcodes, verdict, advice]).toEqual([opcodes, 'suspicious', undefined]);
    }
  });

  it('hides nothing at any depth', () => {
    const spellings = fc.constantFrom(...Object.keys(SPELLINGS));
    fc.assert(
      fc.property(
        fc.array(spellings, { minLength: 1, maxLength: 10 }),
        fc.boolean(),
        (nested, isStream) => {
          let inner: Uint8Array = pickle(`\x80\x02${SYSTEM}.`);
          for (const name of nested) {
            const opcodes = `${LOADER}(${SPELLINGS[name]?.(inner)}tR`;
            inner = isStream ? storage(opcodes) : pickle(`\x80\x02${opcodes}.`);
          }
          expect(scan(inner)).toMatchObject({ verdict: 'suspicious', advice: undefined });
        },
      ),
      { seed, numRuns: 40 },
    );
  });

  it('is scanned once, however often it is loaded', () => {
    const bytes = Buffer.alloc(100_000, pickle('\x80\x02N.'));
    const opcodes = `${SPELLINGS['BINBYTES']?.(bytes)}r\0\0\0\x000${`${LOADER}(j\0\0\0\0tR0`.repeat(20_000)}`;
    const { findings } = scan(pickle(`\x80\x04${opcodes}N.`));
    expect(
      findings.filter(({ message }) => message.startsWith('in the bytes of a storage')),
    ).toHaveLength(1);
  });
});
