/** The output of every command: on terminals of 80 and 120 columns, into a pipe, and as JSON. */
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.js';
import { FileServer } from '../remote/download/file-server.js';
import { safeOpen } from '../support/api.js';
import { useHub } from '../support/hub-environment.js';
import { TWO_SHARDS, writeCheckpoint } from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { writeTensors } from '../support/write-tensors.js';
import { call, type Terminal } from './call.js';
import { LAYERED } from './models.js';

const QUANTIZED_WEIGHT = 'model.layers.0.mlp.down_proj.weight';

/** The recorded outputs, by the names of their files. */
const CALLS: Readonly<Record<string, string>> = {
  help: '--help',
  inspect: 'inspect model.safetensors',
  'inspect-tree': 'inspect model.safetensors --tree',
  'inspect-shards': 'inspect shards --sort size',
  'inspect-torch': 'inspect zip-state-dict.pt',
  'inspect-quantized': 'inspect quantized',
  'inspect-remote': 'inspect URL --tree',
  show: 'show model.safetensors model.norm --stats --histogram',
  'show-quantized': `show quantized ${QUANTIZED_WEIGHT} --slice :2,:3 --stats`,
  'show-quantized-raw': `show quantized ${QUANTIZED_WEIGHT} --slice :2,:3 --stats --raw`,
  'show-remote': 'show URL model.norm --stats',
  stats: 'stats model.safetensors',
  'stats-csv': 'stats quantized --csv',
  diff: 'diff model.safetensors other.safetensors',
  'diff-values': 'diff model.safetensors other.safetensors --values',
  'diff-tree': 'diff model.safetensors other.safetensors --values --tree',
  'diff-base': 'diff model.safetensors other.safetensors --base other.safetensors --values',
  'diff-quantized': 'diff plain.safetensors quantized --values',
  'diff-remote': 'diff URL other.safetensors',
  header: 'header model.safetensors',
  'metadata-get': 'metadata get model.safetensors',
  'metadata-set': 'metadata set model.safetensors license=mit --dry-run',
  'metadata-rm': 'metadata rm model.safetensors format lost --dry-run',
  'metadata-clear': 'metadata clear model.safetensors --dry-run',
  'metadata-export': 'metadata export model.safetensors',
  'metadata-import': 'metadata import model.safetensors new.json --dry-run',
  'metadata-strip': 'metadata strip model.safetensors --dry-run',
  'modelspec-show': 'metadata modelspec show model.safetensors',
  'modelspec-check': 'metadata modelspec check model.safetensors',
  'modelspec-set': 'metadata modelspec set model.safetensors author=me --dry-run',
  'modelspec-thumbnail': 'metadata modelspec thumbnail model.safetensors image.png',
  verify: 'verify bad',
  hash: 'hash model.safetensors --all',
  'hash-write': 'hash model.safetensors --write',
  convert: 'convert model.safetensors cast.safetensors --dtype F16 --dry-run',
  'convert-quantized': 'convert quantized whole --dequantize BF16',
  'convert-quantized-plan': 'convert quantized whole --dequantize F16 --dry-run',
  split: 'split model.safetensors parts --max-shard-size 600B',
  'split-replaced': 'split model.safetensors shards --max-shard-size 600B --force',
  'split-plan': 'split model.safetensors shards --max-shard-size 600B --dry-run',
  join: 'join shards -o whole',
  'join-replaced': 'join shards model.safetensors -o other.safetensors --duplicates last',
  merge: 'merge tunable --adapter adapter=0.5 -o merged --dry-run',
  'merge-written': 'merge tunable --adapter adapter -o merged',
  download: 'download URL copy.safetensors',
  'download-plan': 'download URL copy.safetensors --dry-run',
  scan: 'scan evil-os-system.pt',
  error: 'show model.safetensors lost',
  'wrong-use': 'inspct model.safetensors',
};

/** The forms, by the line above them. */
const FORMS: Readonly<Record<string, readonly [args: readonly string[], Terminal | undefined]>> = {
  '80 columns': [[], { columns: 80 }],
  '120 columns, colours': [[], { columns: 120, hasColors: true }],
  'a pipe': [[], undefined],
  '--json': [['--json'], undefined],
};

const METADATA = {
  format: 'pt',
  ss_learning_rate: '0.0001',
  ss_dataset_dirs: '{"/mnt/data/cats": {"n_repeats": 2}}',
  'modelspec.title': 'Cats',
  'modelspec.architecture': 'stable-diffusion-xl-v1-base/lora',
  'modelspec.hash_sha256': '0x00',
  'modelspec.description':
    'Cats that sit, cats that sleep, and one that looks out of the window at a bird. '.repeat(3),
  'modelspec.thumbnail': 'data:image/png;base64,iVBORw0KGgo=',
};

const COPIED = ['zip-state-dict.pt', 'evil-os-system.pt'];

let folder: string;
let server: FileServer;

/** A folder with everything that the calls name. */
function writeSources(): void {
  const values = Float32Array.of(0.5, -1, 2, 4, Number.NaN, 0, 8, 16);
  const entries = [
    ...LAYERED,
    { name: 'model.norm', dtype: 'F32', shape: [2, 4], bytes: new Uint8Array(values.buffer) },
  ] as const;
  const bytes = fileBytes(entries, { metadata: METADATA });
  writeFileSync('model.safetensors', bytes);
  server.files.set('model.safetensors', { bytes, tag: '"model"' });
  writeTensors('other.safetensors', {
    'model.norm': { dtype: 'F32', shape: [2, 4], data: Float32Array.from(values, (x) => x + 1) },
    'model.scale': { dtype: 'F32', shape: [], data: Float32Array.of(513) },
    'lm_head.weight': { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
    added: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) },
  });
  writeCheckpoint(TWO_SHARDS, 'shards');
  writeCheckpoint(
    {
      metadata: { total_size: 1 },
      shards: TWO_SHARDS.shards,
      weightMap: {
        embed: 'model-00001-of-00002.safetensors',
        'a.weight': 'model-00001-of-00002.safetensors',
        gone: 'model-00002-of-00002.safetensors',
      },
    },
    'bad',
  );
  cpSync(join(root, 'test/fixtures/quantized/fp8-block-ragged'), 'quantized', { recursive: true });
  const adapters = join(root, 'test/fixtures/merge/peft-linear-f32');
  cpSync(join(adapters, 'base'), 'tunable', { recursive: true });
  cpSync(join(adapters, 'adapter'), 'adapter', { recursive: true });
  // As the quantized one, but for one weight, which is one everywhere.
  const { shape } = safeOpen('quantized').info(QUANTIZED_WEIGHT);
  const ones = new Float32Array(shape.reduce((product, length) => product * length, 1)).fill(1);
  writeTensors('plain.safetensors', { [QUANTIZED_WEIGHT]: { dtype: 'F32', shape, data: ones } });
  writeFileSync('new.json', '{"format":"np","title":"Cats"}');
  for (const name of COPIED) copyFileSync(join(root, 'test/fixtures/torch', name), name);
}

/** The files as they were written, by what a change of any of them would change. */
let written: string;

function listing(): string {
  const paths = readdirSync('.', { recursive: true, encoding: 'utf8' }).toSorted();
  const states = paths.map((path) => {
    const { size, mtimeNs, ctimeNs, ino } = statSync(path, { bigint: true });
    return [path, size, mtimeNs, ctimeNs, ino].join();
  });
  return states.join('\n');
}

beforeAll(async () => {
  server = await FileServer.start();
  renew();
});

afterAll(async () => {
  remove();
  await server.close();
});

/** Creates a folder with all sources, and works in it. */
function renew(): void {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-golden-'));
  process.chdir(folder);
  writeSources();
  written = listing();
}

function remove(): void {
  process.chdir(root);
  rmSync(folder, { recursive: true, force: true });
}

/** Runs a call on the files as they were at first. */
async function printedAnew(
  args: readonly string[],
  terminal: Terminal | undefined,
): Promise<string> {
  if (listing() !== written) {
    remove();
    renew();
  }
  const url = server.url('model.safetensors');
  const { code, stdout, stderr } = await call(
    args.map((arg) => (arg === 'URL' ? url : arg)),
    terminal,
  );
  // Progress appears after a second, which is the machine's business.
  const [before = '', ...lines] = stderr.split('\r\x1b[K');
  const lasting = before + (lines.at(-1) ?? '');
  return `${stdout}${lasting}exit code ${code}\n`.replaceAll(url, 'URL');
}

/** Path of a reviewed output. */
function goldenFile(kind: 'all' | 'help', name: string): string {
  return `../fixtures/cli/${kind}/${name}.txt`;
}

/** Escapes of colours so that they can be read, and diffs of the golden files are text. */
function readable(text: string): string {
  return text.replaceAll('\x1b', '\u241b');
}

describe('golden', () => {
  it.each(Object.entries(CALLS))('%s: %s', async (name, line) => {
    const args = line.split(' ');
    let text = `$ safetensors-mmap ${line}\n`;
    for (const [form, [more, terminal]] of Object.entries(FORMS)) {
      if (name === 'help' && form === '--json') continue;
      const printed = await printedAnew([...args, ...more], terminal);
      text += `\n==== ${form}\n${readable(printed)}`;
      if (terminal?.hasColors !== true) continue;
      const plain = await printedAnew(args, { columns: terminal.columns });
      expect(stripVTControlCharacters(printed)).toBe(plain);
      // A terminal with NO_COLOR prints the same: see the tests of the program.
      expect(await printedAnew([...args, '--no-color'], terminal)).toBe(plain);
    }
    await expect(text).toMatchFileSnapshot(goldenFile('all', name));
  });

  it.each(Object.keys(COMMANDS))('help of %s', async (name) => {
    let text = '';
    for (const [form, [, terminal]] of Object.entries(FORMS).slice(0, 3)) {
      text += `==== ${form}\n${readable(await printedAnew([name, '--help'], terminal))}`;
    }
    await expect(text).toMatchFileSnapshot(goldenFile('help', name));
  });

  it('there is one of every command', () => {
    const called = new Set(Object.values(CALLS).map((line) => line.split(' ')[0]));
    // They have separate tests: what the first three print depends on the machine, the port and the build.
    const others = ['serve', 'page', 'doctor', 'completion'];
    expect(Object.keys(COMMANDS).filter((name) => !called.has(name))).toEqual(others);
  });
});

describe.runIf(process.platform === 'linux')('doctor', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('prints what its golden file has, but for numbers and paths', async () => {
    useHub('https://hub.example');
    vi.stubEnv('HF_HUB_CACHE', '/cache');
    let text = '';
    for (const [form, [more, terminal]] of Object.entries(FORMS)) {
      const printed = await printedAnew(['doctor', ...more], terminal);
      const general = printed
        .replaceAll(root, '/package/')
        .replaceAll(/\/package\/[^"\s]+\.node/g, 'ADDON')
        .replaceAll(`${process.platform}-${process.arch}`, 'PLATFORM')
        .replace(/^(.*buffers.*? {2,}).*$/m, '$1TEXT')
        .replace(/("counted":)\w+/, '$1BOOLEAN')
        .replaceAll(/(?<!\[|code )\b\d(?:[\d,.]*\d)?( [GTP]B)?/g, 'N');
      text += `==== ${form}\n${readable(general)}`;
    }
    await expect(text).toMatchFileSnapshot(goldenFile('all', 'doctor'));
  });
});
