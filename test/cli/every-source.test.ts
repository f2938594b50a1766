/**
 * Every command over every kind of source: it works on the right tensors, or names the reason in an error with a code.
 */
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.js';
import { run } from '../../src/cli/run.js';
import { ggufBytes } from '../foreign/gguf/generated-gguf.js';
import { headerOf, npy } from '../foreign/numpy/arrays.js';
import { unicode } from '../foreign/pickle/pickle-bytes.js';
import { storedArchive } from '../foreign/stored-archive.js';
import { dict, legacyFile, tensor } from '../foreign/torch/legacy-file.js';
import { FileServer } from '../remote/download/file-server.js';
import { open } from '../support/api.js';
import { useHub } from '../support/hub-environment.js';
import { HubServer } from '../support/hub-server.js';
import { filesOf, writeBelow } from '../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../support/make-file.js';
import { call } from './call.js';

const VALUES = Float32Array.of(0, 1, 2, 3, 4, 5);
const BYTES = new Uint8Array(VALUES.buffer);
const NAME = 'a.weight';
const WEIGHT: Entry = { name: NAME, dtype: 'F32', shape: [2, 3], bytes: BYTES };
const OTHER: Entry = { name: 'b.bias', dtype: 'U8', shape: [4] };
const METADATA = { format: 'pt', 'modelspec.title': 'Cats' };

const FILE = fileBytes([WEIGHT, OTHER], { metadata: METADATA });
const SHARDS = filesOf({
  metadata: METADATA,
  shards: {
    'model-00001-of-00002.safetensors': [WEIGHT],
    'model-00002-of-00002.safetensors': [OTHER],
  },
});
const INDEX = 'model.safetensors.index.json';
const PIPELINE = {
  'model_index.json': JSON.stringify({ unet: ['diffusers', 'U'], vae: ['diffusers', 'V'] }),
  'unet/config.json': '{}',
  'unet/diffusion_pytorch_model.safetensors': FILE,
  'vae/config.json': '{}',
  'vae/diffusion_pytorch_model.safetensors': FILE,
};
/** 1 and 2 with a scale of 2. */
const QUANTIZED = fileBytes([
  { name: NAME, dtype: 'F8_E5M2', shape: [1, 2], bytes: Uint8Array.of(0x3c, 0x40) },
  {
    name: `${NAME}_scale_inv`,
    dtype: 'F32',
    shape: [1, 1],
    bytes: new Uint8Array(Float32Array.of(2).buffer),
  },
]);
const ARRAY = npy(headerOf('<f4', '(2, 3)'), BYTES);

/** A kind of source. */
interface Kind {
  readonly source: string;
  /** The name of the tensor to show. */
  readonly name: string;
  /** The number of tensors. */
  readonly count: number;
  /** The contents of the files that `hash` hashes. */
  readonly files: readonly Uint8Array[];
  readonly metadata: Readonly<Record<string, string>>;
}

let folder: string;
let files: FileServer;
let hub: HubServer;
const kinds = new Map<string, Kind>();

function put(name: string, bytes: Uint8Array | string): string {
  return writeBelow(folder, name, bytes);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-every-'));
  files = await FileServer.start();
  hub = await HubServer.start({
    'org/model': { files: Object.fromEntries(SHARDS) },
    'org/pipeline': { files: PIPELINE },
    'org/cached': { files: Object.fromEntries(SHARDS) },
  });
  useHub(hub.url);
  // The test's own: the files of a test end with it.
  vi.stubEnv('HF_HOME', join(folder, 'hub-home'));
  const serve = (name: string, bytes: Uint8Array): string => {
    files.files.set(name, { bytes, tag: `"${name}"` });
    return files.url(name);
  };
  const shards = [...SHARDS].filter(([name]) => name !== INDEX).map(([, bytes]) => bytes);
  for (const [name, bytes] of SHARDS) {
    put(`shards/${name}`, bytes);
    serve(name, bytes);
  }
  for (const [name, bytes] of Object.entries(PIPELINE)) put(`pipeline/${name}`, bytes);
  const pickle = dict(
    [unicode(NAME), tensor('0', [2, 3], [3, 1])],
    [unicode('b.bias'), tensor('1', [4])],
  );
  const torch = readFileSync(legacyFile(pickle, { 0: 6, 1: 4 }));
  const npz = storedArchive({ [`${NAME}.npy`]: ARRAY, 'b.npy': ARRAY });
  put('quantized/model.safetensors', QUANTIZED);
  put('quantized/config.json', '{}');
  cpSync(join(folder, 'shards'), join(folder, 'models/a'), { recursive: true });
  put('models/b/c/other.safetensors', FILE);
  put('models/b/torch.pt', torch);
  const ddufFiles = storedArchive(PIPELINE);
  const kind = (key: string, source: string, given: Partial<Kind> = {}): void => {
    kinds.set(key, { source, name: NAME, count: 2, files: [FILE], metadata: METADATA, ...given });
  };
  const ones = (length: number): Uint8Array =>
    new Uint8Array(new Float32Array(length).fill(1).buffer);
  put('adapter/adapter_config.json', '{"peft_type":"LORA","r":1,"lora_alpha":1}');
  put(
    'adapter/adapter_model.safetensors',
    fileBytes([
      { name: 'base_model.model.a.lora_A.weight', dtype: 'F32', shape: [1, 3], bytes: ones(3) },
      { name: 'base_model.model.a.lora_B.weight', dtype: 'F32', shape: [2, 1], bytes: ones(2) },
    ]),
  );
  const ofShards = { files: shards };
  const ofPipeline = { name: `unet/${NAME}`, count: 4, files: [FILE, FILE] };
  kind('file', put('model.safetensors', FILE));
  kind('folder', join(folder, 'shards'), ofShards);
  kind('index', join(folder, 'shards', INDEX), ofShards);
  kind('url', serve('model.safetensors', FILE));
  kind('url-index', files.url(INDEX), ofShards);
  kind('hf', 'hf://org/model', ofShards);
  kind('hf-pipeline', 'hf://org/pipeline', ofPipeline);
  kind('cached', 'org/cached', ofShards);
  kind('torch', put('model.pt', torch), { files: [torch], metadata: {} });
  kind('url-torch', serve('model.pt', torch));
  kind('npy', put('array.npy', ARRAY), { name: '', count: 1, files: [ARRAY], metadata: {} });
  kind('npz', put('arrays.npz', npz), { files: [npz], metadata: {} });
  kind('pipeline', join(folder, 'pipeline'), ofPipeline);
  kind('dduf', put('pipeline.dduf', ddufFiles), ofPipeline);
  kind('quantized', join(folder, 'quantized'), { files: [QUANTIZED], metadata: {} });
  const gguf = ggufBytes({
    tensors: [
      { name: NAME, dims: [3, 2], type: 0, offset: 0 },
      { name: 'b.bias', dims: [4], type: 24, offset: 32 },
    ],
    data: Buffer.concat([WEIGHT.bytes as Uint8Array, Buffer.alloc(8), Buffer.alloc(32)]),
  });
  kind('gguf', put('model.gguf', gguf), { files: [gguf], metadata: {} });
  kind('models', join(folder, 'models'));
  expect((await call(['download', 'hf://org/cached', 'cache'])).code).toBe(0);
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await files.close();
  await hub.close();
  rmSync(folder, { recursive: true });
});

/** Outcomes by the words of the table: the exit code, and the code of the error. */
const OUTCOMES: Readonly<Record<string, readonly [exitCode: number, code: string]>> = {
  usage: [2, 'USAGE_ERROR'],
  range: [2, 'ERR_OUT_OF_RANGE'],
  foreign: [1, 'SAFETENSORS_FOREIGN_FORMAT'],
  // The first bytes are no header's length; the message names the format.
  header: [1, 'SAFETENSORS_HEADER_TOO_LARGE'],
  none: [1, 'SAFETENSORS_CHECKPOINT_NOT_FOUND'],
  several: [1, 'SAFETENSORS_DIFFUSERS_PIPELINE'],
  absent: [1, 'ENOENT'],
  unmatched: [1, 'SAFETENSORS_MERGE_UNMATCHED'],
  codes: [1, 'SAFETENSORS_MERGE_UNSUPPORTED'],
};

/**
 * Expected outcomes: `ok` for a right result, `no` for a result with exit code 1, else a word of the list above.
 *
 * - `header` has no JSON to print for PyTorch and NumPy; `metadata` is about one model, and changes one local file.
 * - An address is read as safetensors; `scan` reads local paths, and the page of `serve` opens addresses itself.
 * - DDUF: `scan` does not account for the weights in the archive.
 */
const TABLE = `
                        | file  | folder | index  | url   | url-index | hf       | hf-pipeline | cached | torch   | url-torch | npy     | npz     | pipeline | dduf    | quantized | gguf    | models
inspect                 | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
show                    | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
stats                   | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
diff                    | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
header                  | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | foreign | header    | foreign | foreign | ok       | ok      | ok        | foreign | none
metadata get            | ok    | ok     | ok     | ok    | ok        | ok       | foreign     | ok     | ok      | header    | ok      | ok      | foreign  | foreign | ok        | ok      | none
metadata set            | ok    | usage  | header | usage | usage     | usage    | usage       | absent | header  | usage     | header  | header  | usage    | header  | usage     | header  | usage
metadata modelspec show | ok    | ok     | ok     | ok    | ok        | ok       | foreign     | ok     | no      | header    | no      | no      | foreign  | foreign | no        | no      | none
verify                  | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | no        | ok      | ok      | ok       | ok      | ok        | ok      | no
hash                    | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
convert                 | ok    | ok     | ok     | ok    | ok        | ok       | several     | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
convert -               | ok    | ok     | ok     | usage | usage     | usage    | usage       | ok     | ok      | usage     | ok      | ok      | several  | several | ok        | ok      | none
convert --dequantize    | ok    | ok     | ok     | ok    | ok        | ok       | several     | ok     | range   | header    | range   | range   | ok       | ok      | ok        | ok      | none
split                   | ok    | ok     | ok     | ok    | ok        | ok       | several     | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
join                    | ok    | ok     | ok     | ok    | ok        | ok       | several     | ok     | ok      | header    | ok      | ok      | ok       | ok      | ok        | ok      | none
join several            | ok    | ok     | ok     | usage | usage     | usage    | usage       | ok     | ok      | usage     | ok      | ok      | several  | several | ok        | ok      | none
download                | usage | usage  | usage  | ok    | ok        | ok       | ok          | usage  | usage   | ok        | usage   | usage   | usage    | usage   | usage     | usage   | usage
scan                    | ok    | ok     | ok     | usage | usage     | usage    | usage       | absent | ok      | usage     | ok      | ok      | ok       | no      | ok        | ok      | ok
serve                   | ok    | ok     | ok     | ok    | ok        | ok       | ok          | ok     | ok      | ok        | ok      | ok      | ok       | ok      | ok        | ok      | ok
merge                   | ok    | ok     | ok     | ok    | ok        | ok       | several     | ok     | ok      | header    | unmatched| ok      | several  | foreign | codes     | ok      | none
page                    | usage | usage  | usage  | usage | usage     | usage    | usage       | absent | usage   | usage     | usage   | usage   | usage    | usage   | usage     | usage   | usage
doctor                  | usage | usage  | usage  | usage | usage     | usage    | usage       | usage  | usage   | usage     | usage   | usage   | usage    | usage   | usage     | usage   | usage
completion              | usage | usage  | usage  | usage | usage     | usage    | usage       | usage  | usage   | usage     | usage   | usage   | usage    | usage   | usage     | usage   | usage
`;

/**
 * A command's result, checked against the kind of source. Runs again on other arguments where one call is not enough.
 */
type Check = (result: Result, kind: Kind, target: string) => void | Promise<void>;

// biome-ignore lint/suspicious/noExplicitAny: the results of all commands
type Result = any;

/** A call of a command: its arguments, and what its result must be. */
interface Row {
  readonly args: (source: string, target: string, kind: Kind) => readonly string[];
  readonly check: Check;
}

const shownText = '[[0. 1. 2.]\n [3. 4. 5.]]';

/** The values of the first model that was written or downloaded. */
async function valuesIn(target: string, key: string): Promise<readonly number[]> {
  const [, pipeFolder, name] = /^(?:(\w+)\/)?(.*)$/.exec(key) as unknown as [
    string,
    string?,
    string?,
  ];
  const checkpoint = await open(pipeFolder === undefined ? target : join(target, pipeFolder));
  try {
    const tensor = await checkpoint.getTensor(name ?? '');
    return [...tensor.toFloat32()];
  } finally {
    checkpoint.close();
  }
}

const isWritten: Check = async (result, { name, source }, target) => {
  expect(result.files.length).toBeGreaterThan(0);
  const isQuantized = basename(source) === 'quantized';
  expect(await valuesIn(target, name)).toEqual(isQuantized ? [1, 2] : [...VALUES]);
};

const ROWS: Readonly<Record<string, Row>> = {
  inspect: {
    args: (source) => ['inspect', source],
    check: (result, { count, name }) => {
      const models = result.components ?? { '': result };
      const names = Object.entries(models as Record<string, Result>).flatMap(([key, model]) =>
        model.tensors.map((one: Result) => (key === '' ? one.name : `${key}/${one.name}`)),
      );
      expect(names).toHaveLength(count);
      expect(names).toContain(name);
    },
  },
  show: {
    args: (source, _, { name }) => ['show', source, name],
    check: ({ text, name }, kind) => {
      expect(name).toBe(kind.name);
      expect(text).toBe(basename(kind.source) === 'quantized' ? '[[2. 4.]]' : shownText);
    },
  },
  stats: {
    args: (source) => ['stats', source],
    check: ({ tensors }, { count, name, source }) => {
      const isQuantized = basename(source) === 'quantized';
      expect(tensors).toHaveLength(isQuantized ? 1 : count);
      const found = tensors.find((one: Result) => one.name === name);
      expect([found.min, found.max]).toEqual(isQuantized ? [2, 4] : [0, 5]);
    },
  },
  diff: {
    args: (source) => ['diff', source, source, '--values'],
    check: ({ same, unchanged }, { count, source }) => {
      // The scale belongs to the weight.
      const logical = basename(source) === 'quantized' ? 1 : count;
      expect({ same, unchanged }).toEqual({ same: true, unchanged: logical });
    },
  },
  header: {
    args: (source) => ['header', source],
    check: (header, { name }) => {
      const tensors = Object.values(header as Record<string, Result>).flatMap((one) =>
        one.data_offsets === undefined ? Object.keys(one) : [],
      );
      expect([...Object.keys(header), ...tensors]).toContain(basename(name));
    },
  },
  'metadata get': {
    args: (source) => ['metadata', 'get', source],
    check: ({ metadata }, kind) => expect(metadata).toEqual(kind.metadata),
  },
  'metadata set': {
    args: (source) => ['metadata', 'set', source, 'a=b', '--dry-run'],
    check: ({ set }) => expect(set).toEqual({ a: 'b' }),
  },
  'metadata modelspec show': {
    args: (source) => ['metadata', 'modelspec', 'show', source],
    check: ({ modelspec }) => expect(modelspec).toEqual({ 'modelspec.title': 'Cats' }),
  },
  verify: {
    args: (source) => ['verify', source],
    check: ({ ok, checks }) => expect([ok, checks[0]]).toEqual([true, 'headers']),
  },
  hash: {
    args: (source) => ['hash', source, '--all'],
    check: ({ files }, kind) => {
      const sums = kind.files.map((bytes) => createHash('sha256').update(bytes).digest('hex'));
      expect(files.map((one: Result) => one.sha256)).toEqual(sums);
      const names = files.flatMap((one: Result) => Object.keys(one.tensors));
      expect(names).toHaveLength(kind.count);
    },
  },
  convert: {
    args: (source, target) => ['convert', source, target],
    check: isWritten,
  },
  'convert -': {
    args: (source) => ['convert', source, '-', '--dry-run'],
    check: ({ byteLength }) => expect(byteLength).toBeGreaterThan(0),
  },
  'convert --dequantize': {
    args: (source, target) => ['convert', source, target, '--dequantize', 'F32'],
    check: async ({ dequantizedCount }, { name, source }, target) => {
      const isQuantized = basename(source) === 'quantized';
      expect(dequantizedCount).toBe(isQuantized ? 1 : 0);
      expect(await valuesIn(target, name)).toEqual(isQuantized ? [2, 4] : [...VALUES]);
    },
  },
  split: {
    args: (source, target) => ['split', source, target, '--max-shard-size', '24'],
    check: isWritten,
  },
  join: {
    args: (source, target) => ['join', source, '-o', target],
    check: isWritten,
  },
  'join several': {
    args: (source, target) => ['join', source, source, '-o', target, '--duplicates', 'first'],
    check: isWritten,
  },
  download: {
    args: (source, target) => ['download', source, target],
    check: async ({ files }, { name }, target) => {
      expect(files.length).toBeGreaterThan(0);
      expect(await valuesIn(target, name)).toEqual([...VALUES]);
    },
  },
  scan: {
    args: (source) => ['scan', source],
    check: ({ verdict, files, skipped }) => {
      const verdicts = files?.map((one: Result) => one.verdict) ?? [verdict];
      for (const one of verdicts) expect(['safe', 'no-pickle']).toContain(one);
      expect(skipped ?? []).toEqual([]);
    },
  },
  serve: {
    args: (source) => ['serve', source],
    check: ({ sources, addresses, address }, { files, source }) => {
      // The page opens addresses by itself.
      if (/^(?:https?|hf):/.test(source)) {
        expect([sources, addresses]).toEqual([[], [source]]);
        expect(address).toMatch(new RegExp(`#open=${encodeURIComponent(source)}$`));
        return;
      }
      const count = /pipeline/.test(source) ? 2 : /models/.test(source) ? 3 : 1;
      expect(sources).toHaveLength(count);
      const names = sources.flatMap((one: Result) => one.files);
      expect(names.length).toBeGreaterThanOrEqual(files.length);
    },
  },
  merge: {
    args: (source, target) => ['merge', source, '--adapter', join(folder, 'adapter'), '-o', target],
    check: async ({ files }, { name }, target) => {
      expect(files.length).toBeGreaterThan(0);
      // The adapter adds 1.
      expect(await valuesIn(target, name)).toEqual([...VALUES].map((value) => value + 1));
    },
  },
  page: { args: (source) => ['page', source], check: () => expect.unreachable() },
  doctor: { args: (source) => ['doctor', source], check: () => expect.unreachable() },
  completion: { args: (source) => ['completion', source], check: () => expect.unreachable() },
};

/** Calls a command with `--json`; a server ends after its first output. */
async function called(
  args: readonly string[],
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  if (args[0] !== 'serve') return await call([...args, '--json']);
  const stop = new AbortController();
  const texts = { stdout: '', stderr: '' };
  const output = (name: 'stdout' | 'stderr') => ({
    ...{ isTerminal: false, columns: null, hasColors: false },
    write: (text: string): void => {
      texts[name] += text;
      stop.abort();
    },
  });
  const context = {
    ...{ stdout: output('stdout'), stderr: output('stderr'), signal: stop.signal },
    writeBytes: async () => {},
  };
  return { code: await run([...args, '--json'], context), ...texts };
}

const lines = TABLE.trim()
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim()));
const [[, ...columns] = [], ...table] = lines;

describe.each(Object.keys(ROWS))('%s', (row) => {
  const words = table.find(([name]) => name === row)?.slice(1) ?? [];
  const { args, check } = ROWS[row] as Row;

  it.each(columns.map((key, i) => [key, words[i] ?? 'missing'] as const))(
    '%s: %s',
    async (key, word) => {
      const kind = kinds.get(key) as Kind;
      const target = join(mkdtempSync(join(folder, 'target-')), 'target');
      const { code, stdout, stderr } = await called(args(kind.source, target, kind));
      expect(stderr).not.toMatch(/\n {4}at /);
      if (word === 'ok') {
        expect([code, stderr]).toEqual([0, '']);
        await check(JSON.parse(stdout), kind, target);
        return;
      }
      if (word === 'no') {
        expect([code, stderr]).toEqual([1, '']);
        return;
      }
      const error = JSON.parse(stderr);
      expect([code, error.code]).toEqual(OUTCOMES[word]);
      expect(error.message).not.toMatch(/undefined|\[object/);
      expect(stdout).toBe('');
    },
  );
});

it('has a row for every command, and a column for every kind of source', () => {
  const named = new Set(Object.keys(ROWS).map((row) => row.split(' ')[0]));
  expect([...named].sort()).toEqual(Object.keys(COMMANDS).sort());
  expect(table.map(([name]) => name)).toEqual(Object.keys(ROWS));
  expect(columns).toEqual([...kinds.keys()]);
});
