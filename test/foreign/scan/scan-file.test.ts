import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import type { ScanReport } from '../../../src/foreign/scan/scan-report.js';
import { readArchive } from '../../../src/foreign/zip/read-archive.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { type ArchiveFile, writeArchive } from '../generated-archive.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';
import { type Fixture, fixturePath, fixtures, scanFixture } from '../torch/fixtures.js';
import { dict, tensor } from '../torch/legacy-file.js';
import { readerOf } from '../zip/archives.js';

function scan({ file }: Fixture): ScanReport {
  return scanPickle(fixturePath(file), { verify: true });
}

/** A tensor of an archive: its persistent id has no view. */
function zipTensor(key: string, size: readonly number[]): string {
  return tensor(key, size, [3, 1]).replace('NtQ', 'tQ');
}

const ofTorch = fixtures.filter(({ family }) => family !== 'numpy');

describe('limits of scanPickle', () => {
  const path = fixturePath('zip-state-dict.pt');

  it.each([
    { maxEntries: 1 },
    { maxDirectoryByteLength: 1 },
    { maxPickleByteLength: 1 },
    { maxOpcodes: 1 },
  ])('%o', (limits) => {
    const { verdict, findings, problems } = scanPickle(path, { limits });
    expect(verdict).not.toBe('safe');
    const [name = ''] = Object.keys(limits);
    expect(JSON.stringify([findings, problems])).toContain(`limits.${name}`);
  });

  it('are checked', () => {
    expect(() => scanPickle(path, { limits: { maxOpcodes: 0 } })).toThrow(
      'limits.maxOpcodes must be',
    );
    const limits = { maxDepth: 1 } as object;
    expect(() => scanPickle(path, { limits })).toThrow('unknown option "limits.maxDepth"');
  });
});

describe('scanPickle', () => {
  it.each(ofTorch.filter(({ armed }) => armed === true))(
    'finds the payload of $id, which runs in Python',
    (fixture) => {
      const { verdict, globals } = scan(fixture);
      expect(verdict).not.toBe('safe');
      expect(globals.some(({ kind }) => kind !== 'allowed')).toBe(true);
    },
  );

  it.each(
    ofTorch.filter(({ family, expect: outcome }) => {
      return outcome === 'tensors' && ['zip', 'legacy'].includes(family);
    }),
  )('calls $id safe', (fixture) => {
    expect(scan(fixture)).toMatchObject({ verdict: 'safe', findings: [], problems: [] });
  });

  it.each(
    ofTorch.filter(({ family, expect: outcome }) => {
      return outcome === 'refuse' && family === 'hostile-zip';
    }),
  )('does not call $id safe', (fixture) => {
    expect(['suspicious', 'malformed']).toContain(scan(fixture).verdict);
  });

  it('names TorchScript, which is a program', () => {
    const { format, advice } = scanPickle(fixturePath('zip-torchscript.pt'));
    expect(format).toBe('TorchScript');
    expect(advice).toContain('torch.jit.load');
  });

  it('says that there is no pickle in a text, also when it begins with the letter of an opcode', () => {
    const path = temporaryPath('setup.py');
    writeFileSync(path, 'import os\nimport sys\n');
    expect(scanPickle(path)).toMatchObject({ verdict: 'no-pickle', globals: [], findings: [] });
    writeFileSync(path, 'ios\nsystem\n');
    expect(scanPickle(path).verdict).toBe('suspicious');
  });

  it('says what of a file needs code, and where', () => {
    const { verdict, globals, format } = scanPickle(fixturePath('zip-namespace.pt'));
    expect(verdict).toBe('needs-code');
    expect(format).toContain('zip');
    const [found] = globals.filter(({ kind }) => kind === 'unknown');
    expect(found).toMatchObject({ module: 'argparse', name: 'Namespace' });
    expect(found?.entry).toMatch(/\/data\.pkl$/);
    expect(found?.position).toBeGreaterThan(0);
  });

  it('lists every irregularity of an archive, and checksums when they are asked for', () => {
    const kinds = (name: string, verify = false): string[] =>
      scanPickle(fixturePath(name), { verify }).findings.map(({ kind }) => kind);
    expect(kinds('zip-x-dup-storage.pt')).toContain('duplicate-name');
    expect(kinds('zip-x-local-name.pt')).toContain('local-header');
    expect(kinds('zip-x-suffix.pt')).toContain('surroundings');
    expect(kinds('zip-x-crc-pkl.pt')).toContain('checksum');
    expect(kinds('zip-x-crc-storage.pt')).toEqual([]);
    expect(kinds('zip-x-crc-storage.pt', true)).toEqual(['checksum']);
    expect(kinds('evil-after-stop.pt')).toContain('trailing-bytes');
    expect(kinds('evil-ext1.pt')).toContain('opcode');
  });

  it('sees pickles behind the headers of arrays', () => {
    const { verdict, globals } = scanPickle(fixturePath('np-x-object-evil.npy'));
    expect(verdict).toBe('suspicious');
    expect(globals.map(({ module }) => module)).toContain('posix');
    expect(scanPickle(fixturePath('np-f4.npy'))).toMatchObject({
      verdict: 'no-pickle',
      pickleCount: 0,
    });
    expect(scanPickle(fixturePath('np-x-npz-object.npz')).pickleCount).toBe(1);
  });

  it('compares the checksums of arrays, too', () => {
    const bytes = readFileSync(fixturePath('np-savez.npz'));
    const [entry] = readArchive(readerOf(bytes), {}).entries.values();
    const last = (entry?.end ?? 0) - 1;
    bytes[last] = (bytes[last] ?? 0) ^ 1;
    const path = temporaryPath('arrays.npz');
    writeFileSync(path, bytes);
    expect(scanPickle(path).verdict).toBe('no-pickle');
    const { verdict, findings } = scanPickle(path, { verify: true });
    expect(findings).toMatchObject([{ kind: 'checksum', entry: entry?.name }]);
    expect(verdict).toBe('suspicious');
  });

  it('says what to do with NumPy values', () => {
    expect(scanPickle(fixturePath('zip-numpy.pt')).advice).toContain('pdparams');
    expect(scanPickle(fixturePath('zip-state-dict.pt')).advice).toBeUndefined();
  });

  it('says that there is no pickle in other formats, and names them', () => {
    expect(scanPickle(fixturePath('html.bin'))).toMatchObject({
      verdict: 'no-pickle',
      format: expect.stringContaining('HTML'),
    });
    expect(scanPickle(fixturePath('safetensors-as-bin.bin'))).toMatchObject({
      verdict: 'no-pickle',
      format: 'a safetensors file',
    });
  });

  it.each([
    ['scan-put-underscore.pkl', 'opcode', 'system'],
    ['scan-npy-u-prefix.npy', 'header', 'system'],
    ['scan-npy-stringdtype.npy', 'header', 'system'],
    ['scan-legacy-tar-polyglot.pt', 'unread-archive', undefined],
    ['scan-six-pickles.pkl', 'trailing-bytes', 'system'],
    ['scan-nested-zip.mar', 'nested-archive', undefined],
    ['scan-keras-lambda.keras', 'code', undefined],
    ['scan-torch-package.pt', 'code', undefined],
  ])('says what %s hides: %s', (file, kind, global) => {
    const { verdict, findings, globals } = scanPickle(scanFixture(file));
    expect(verdict).toBe('suspicious');
    expect(findings.map((finding) => finding.kind)).toContain(kind);
    const hostile = globals.filter((found) => found.kind === 'hostile').map(({ name }) => name);
    expect(hostile).toEqual(global === undefined ? [] : [global]);
  });

  it('accounts for storages by the lengths that the pickle says', () => {
    const kindsOf = (files: readonly ArchiveFile[]): string[] => {
      const path = temporaryPath('model.pt');
      writeFileSync(path, writeArchive(files, new Random(1, 0)));
      return scanPickle(path).findings.map(({ kind, entry }) => `${kind} ${entry}`);
    };
    const file = (name: string, data: Buffer | string, isDeflated = false): ArchiveFile => ({
      name: `m/${name}`,
      data: Buffer.from(data),
      isDeflated,
    });
    const data = dict([unicode('t'), zipTensor('0', [2, 3])]);
    const pickle = file('data.pkl', Buffer.from(pickle2(data, '.')));
    const storage = file('data/0', Buffer.alloc(24));
    expect(kindsOf([pickle, storage, file('version', '3\n')])).toEqual([]);
    expect(kindsOf([pickle, file('data/0', Buffer.alloc(24), true)])).toEqual([]);
    expect(kindsOf([pickle, file('data/0', Buffer.alloc(25))])).toEqual(['unread-entry m/data/0']);
    expect(kindsOf([pickle, storage, file('data/model.pth', 'PK\x03\x04')])).toEqual([
      'nested-archive m/data/model.pth',
    ]);
    expect(kindsOf([pickle, storage, file('data/1', Buffer.alloc(4))])).toEqual([
      'unread-entry m/data/1',
    ]);
    const other = file(
      'data.pkl',
      Buffer.from(pickle2(data.replace('X\x01\0\0\x000', 'X\x04\0\0\0m.pt'), '.')),
    );
    expect(kindsOf([other, file('data/m.pt', Buffer.alloc(24))])).toEqual([
      'unread-entry m/data/m.pt',
    ]);
    expect(kindsOf([pickle, storage, file('bytecode.pkl', Buffer.from(pickle2('N.')))])).toEqual([
      'unread-entry m/bytecode.pkl',
    ]);
    expect(kindsOf([pickle, storage, file('version', '3; import os')])).toEqual([
      'unread-entry m/version',
    ]);
    expect(kindsOf([pickle, storage, file('data/serialization_id', '1')])).toEqual([
      'unread-entry m/data/serialization_id',
    ]);
  });

  it('runs nothing', () => {
    for (const { file } of fixtures) scanPickle(fixturePath(file));
    expect(existsSync('PWNED')).toBe(false);
  });
});
