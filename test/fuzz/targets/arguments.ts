/** Arguments of the command line: an exit code and one line with the error; never an internal error. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { call } from '../../cli/call.js';
import { bytesOf, FIXTURES } from '../../foreign/torch-fixtures.js';
import type { Random } from '../../support/random.js';
import { writeTensors } from '../../support/write-tensors.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';
import { inputOf, TREE, treeOf } from '../tree.js';

const COMMANDS: readonly string[] = [
  'inspect', 'show', 'stats', 'diff', 'header', 'metadata', 'verify', 'hash', 'convert', 'split', 'join', 'download', 'scan',
  'doctor', 'help', '--help', '--version', '',
]; // biome-ignore format: a table

const WORDS: readonly string[] = [
  'model.safetensors', 'model.pt', 'arrays.npz', 'broken.safetensors', 'sharded', 'missing', '.', 'new', 'new.safetensors',
  't', 'a.b', 'get', 'set', 'delete', 'edit', '--json', '--no-color', '--verbose', '--help', '-h', '--', '-', '--in-place',
  '--output', '-o', '--dtype', 'BF16', 'float32', '--cast', '--max-shard-size', '5GB', '1', '0', '-1', '1e400', '--names',
  '--include', '--exclude', '*', '[a-', '**.weight', '--rename', 'a=b', 'a:b', '--slice', ':', '::-1', '...', '--sort',
  'size', '--limit', '--depth', '--summary', '--shards', '--stats', '--histogram', '--headers-only', '--dry-run', '--overwrite',
  '--algorithm', 'sha256', '--root', 'state_dict', '--revision', 'main', '--token', '--no-', '--json=1', '--json=', '\0',
  '\ud800', '\u001b[31m', 'é', 'x'.repeat(300), 'hf://org/model', 'https://127.0.0.1:1/m', '--variant', '--filter', '--set',
]; // biome-ignore format: a table

/** The look of an internal error: Node's own words, without a code. */
const FROM_WITHIN =
  /Cannot (read|set|destructure|convert|mix|access)|is not (a function|iterable|defined|a constructor)|Maximum call stack|\[object Object\]|undefined is|Invalid (array|typed array|string) length/;

/** Characters that a line of output must not contain: a name from a file must not control the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\0-\x08\x0b-\x1f\x7f-\x9f]/;

let home: string;

function writeFiles(): void {
  for (const name of ['new', 'new.safetensors', 'sharded'])
    rmSync(name, { recursive: true, force: true });
  const data = Float32Array.of(1, -2, Number.NaN, 4);
  const tensors = {
    t: { dtype: 'F32', shape: [2, 2], data },
    'a.b': { dtype: 'F32', shape: [4], data },
  } as const;
  const metadata = {
    format: 'pt',
    'modelspec.title': 'x\u001b[2J',
    ss_tag_frequency: '{"a":{"b":1}}',
  };
  writeTensors('model.safetensors', tensors, { metadata });
  mkdirSync('sharded');
  writeTensors('sharded/model.safetensors', tensors);
  writeFileSync('broken.safetensors', Buffer.alloc(30, 7));
  const fixture = FIXTURES.find(({ family, expect }) => family === 'zip' && expect === 'tensors');
  const arrays = FIXTURES.find(({ file, expect }) => file.endsWith('.npz') && expect === 'tensors');
  if (fixture !== undefined) writeFileSync('model.pt', bytesOf(fixture));
  if (arrays !== undefined) writeFileSync('arrays.npz', bytesOf(arrays));
}

function begin({ folder }: Place): void {
  home = process.cwd();
  const place = join(folder, 'arguments');
  mkdirSync(place, { recursive: true });
  process.chdir(place);
  globalThis.fetch = () => Promise.resolve(new Response('not here', { status: 404 }));
  writeFiles();
}

function end(): void {
  process.chdir(home);
}

function make(random: Random, corpus: Corpus): Buffer {
  if (random.chance(0.5))
    return TREE.mutate(corpus.pick(random), corpus.pick(random), random, WORDS);
  const args = Array.from({ length: random.below(5) }, () => random.pick(WORDS));
  if (random.chance(0.6))
    args.unshift(random.pick(['model.safetensors', 'model.pt', 'sharded', 'arrays.npz']));
  return inputOf([random.pick(COMMANDS), ...args]);
}

async function check(input: Buffer): Promise<string> {
  const args = treeOf(input);
  const areWords = Array.isArray(args) && args.every((arg) => typeof arg === 'string');
  // Paths stay in the folder.
  if (!areWords || args.some((arg) => /(^|=)\/|\.\.(?!\.)|~/.test(arg as string)))
    return 'no arguments';
  const terminal = args.length % 2 === 0 ? { columns: 80 } : undefined;
  const { code, stdout, stderr } = await call(args as string[], terminal);
  if (![0, 1, 2].includes(code)) throw new Problem(`exit code ${code}`);
  for (const text of [stdout, stderr]) {
    const within = FROM_WITHIN.exec(text);
    if (within !== null) throw new Problem(`an error from within: ${within[0]}\n${text}`);
    // On a terminal, progress is written over itself.
    if (CONTROL.test(text.replaceAll('\r\u001b[K', '')))
      throw new Problem(`control characters\n${JSON.stringify(text)}`);
  }
  if (code === 2 && stderr === '') throw new Problem('exit code 2, and nothing says why');
  if (/convert|split|join|metadata|download/.test(args[0] as string)) writeFiles();
  return `exit code ${code}`;
}

export const commandLine: Target = {
  name: 'arguments',
  about: 'arguments of the command line, in this process',
  sources: /^cli\//,
  form: TREE,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 200,
  outcomes: ['exit code 0', 'exit code 1', 'exit code 2'],
  asksPythonOf: 0,
  begin,
  end,
  seeds: () => COMMANDS.map((command) => inputOf([command, 'model.safetensors'])),
  make,
  check,
};
