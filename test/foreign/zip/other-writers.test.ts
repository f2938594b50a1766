/** Archives of Python's zipfile, in all the ways it writes them, and of tools of the command line. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { filesOf } from './archives.js';

const python = findPython();
if (isSkipped(python)) process.stderr.write(`foreign: skipped: ${python.missing}\n`);

const SCRIPT = `
import json, os, random, sys, zipfile

class Unseekable:
    """A stream such as a pipe: sizes come behind the data."""
    def __init__(self, file): self.file = file
    def write(self, data): return self.file.write(data)
    def flush(self): self.file.flush()

random.seed(14)
names = ['archive/data.pkl', 'archive/data/0', 'w.npy', 'größe/\\u6570', 'a b', 'archive/', '\\ufeffx']
written = []
for index in range(120):
    path = os.path.join(sys.argv[1], f'{index}.zip')
    method = random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with open(path, 'wb') as file:
        target = Unseekable(file) if random.random() < 0.4 else file
        with zipfile.ZipFile(target, 'w', method) as archive:
            for name in random.sample(names, random.randrange(len(names) + 1)):
                data = b'' if name.endswith('/') else random.randbytes(random.choice([0, 1, 30, 5000]))
                with archive.open(name, 'w', force_zip64=random.random() < 0.4) as entry:
                    entry.write(data)
            if random.random() < 0.2: archive.comment = b'made by a test'
    with zipfile.ZipFile(path) as archive:
        files = [[i.filename, archive.read(i).hex()] for i in archive.infolist() if not i.is_dir()]
        written.append({'path': path, 'files': files})
print(json.dumps(written))
`;

describe.skipIf(isSkipped(python))(titleWith(python, 'archives of zipfile'), () => {
  test('are read as zipfile reads them', () => {
    const answer = runPython(python, ['-c', SCRIPT, dirname(temporaryPath('archives'))]);
    const written: readonly { path: string; files: unknown }[] = JSON.parse(answer);
    expect(written).toHaveLength(120);
    for (const { path, files } of written) expect(filesOf(readFileSync(path)), path).toEqual(files);
  });
});

describe('archives of other tools, where these are installed', () => {
  const tools: readonly [string, readonly string[]][] = [
    ['zip', ['-qr', 'TARGET', 'größe', 'data']],
    ['zip', ['-qr0', 'TARGET', 'größe', 'data']],
    ['zip', ['-qrfz', 'TARGET', 'größe', 'data']],
    ['zip', ['-qrD', '-X', 'TARGET', 'größe', 'data']],
    ['jar', ['cf', 'TARGET', 'größe', 'data']],
    ['jar', ['cM0f', 'TARGET', 'größe', 'data']],
  ];
  const isThere = (tool: string): boolean => spawnSync(tool, ['-h']).error === undefined;

  test('are looked for', () => {
    expect(isThere(process.execPath)).toBe(true);
  });

  test.each(tools.filter(([tool]) => isThere(tool)))('%s %j', (tool, args) => {
    const folder = dirname(temporaryPath('archives'));
    for (const name of ['größe', 'data']) mkdirSync(`${folder}/${name}`);
    writeFileSync(`${folder}/größe/ü`, 'weights '.repeat(100));
    writeFileSync(`${folder}/data/0`, new Uint8Array(0));
    const replaced = args.map((arg) => arg.replace('TARGET', 'a.zip'));
    const { status, stderr } = spawnSync(tool, replaced, { cwd: folder, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    const files = filesOf(readFileSync(`${folder}/a.zip`)).filter(
      ([name]) => !name.startsWith('META'),
    );
    const content = Buffer.from('weights '.repeat(100)).toString('hex');
    expect(files.toSorted()).toEqual([
      ['data/0', ''],
      ['größe/ü', content],
    ]);
  });
});
