/** `metadata`: reads and changes the metadata of files. */

import { readFileSync } from 'node:fs';
import { infoLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible, visibleJson } from '../output/visible.js';
import { cutLines } from '../output/width.js';
import {
  type Command,
  type CommandContext,
  type OptionValues,
  type Outcome,
  printResult,
  requireAction,
  requireArgument,
  requireNone,
  UsageError,
} from './command.js';
import {
  editFile,
  fileMetadata,
  requireLocal,
  requireNoChoice,
  requireNoEditOptions,
} from './metadata-edit.js';
import { keyValuePairs, modelspec, sourceMetadata } from './modelspec.js';
import { REPOSITORY } from './repository-options.js';

/** Prefix of the keys of kohya's scripts and their successors. */
const TRAINING_KEY = /^ss_/;

/** Keys that programs need to use such a file; kohya's scripts write them even with `--no_metadata`. */
const NEEDED_KEYS: readonly string[] = [
  'ss_v2',
  'ss_base_model_version',
  'ss_network_module',
  'ss_network_dim',
  'ss_network_alpha',
  'ss_network_args',
];

/** A path of some machine: in a home, on a mounted disk, a Windows drive or share; or a file: URL. */
const LOCAL_PATH =
  /(?:^|[^\w.:/])(?:file:\/\/|\/(?:home|Users|Volumes|root|mnt|media|workspace|content|kaggle|data|tmp|var|opt)\/|~\/|[A-Za-z]:[\\/]|\\\\\w)/;

/** The reason to remove a value; null to keep it. */
export function strippedAs(key: string, value: string): 'training' | 'path' | null {
  if (TRAINING_KEY.test(key) && !NEEDED_KEYS.includes(key)) return 'training';
  return !value.startsWith('data:') && LOCAL_PATH.test(value) ? 'path' : null;
}

const SHOWN_WHOLE_VALUE_LENGTH = 2000;

interface GetResult {
  readonly source: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Requested keys that the metadata lack. */
  readonly missing: readonly string[];
}

type Action = (
  context: CommandContext,
  options: OptionValues,
  source: string,
  args: readonly string[],
) => Promise<Outcome>;

const get: Action = async (context, options, source, keys) => {
  const { stdout, stderr, signal } = context;
  const metadata = await sourceMetadata(source, options, signal);
  const wanted = keys.length === 0 ? [...metadata.keys()] : keys;
  const missing = wanted.filter((key) => !metadata.has(key));
  const found = wanted.filter((key) => metadata.has(key));
  const [only] = found;
  if (only !== undefined && wanted.length === 1 && keys.length === 1 && options['json'] !== true) {
    // A pipe gets the raw value.
    const value = metadata.get(only) as string;
    stdout.write(`${stdout.isTerminal ? visible(value) : value}\n`);
    return 'done';
  }
  const values = Object.fromEntries(found.map((key) => [key, metadata.get(key) as string]));
  const result: GetResult = { source, metadata: values, missing };
  printResult(context, options, result, (_, _style, width) => {
    const facts = Object.entries(values).map(
      ([key, value]) =>
        [visible(key, SHOWN_NAME_LENGTH), visible(value, SHOWN_WHOLE_VALUE_LENGTH)] as const,
    );
    const lines = facts.length === 0 ? [] : infoLines(facts, (text) => text);
    return cutLines(lines, width);
  });
  // Standard output has values only.
  if (options['json'] !== true) {
    for (const key of missing) stderr.write(`no key ${visible(key, SHOWN_NAME_LENGTH)}\n`);
  }
  return missing.length === 0 ? 'done' : 'no';
};

const set: Action = async (context, options, source, args) => {
  requireArgument('KEY=VALUE', args[0]);
  return await editFile(context, options, requireLocal(source), keyValuePairs(args));
};

const rm: Action = async (context, options, source, keys) => {
  requireArgument('KEY', keys[0]);
  const changes = new Map(keys.map((key): [string, null] => [key, null]));
  return await editFile(context, options, requireLocal(source), changes);
};

const clear: Action = async (context, options, source, args) => {
  requireNone(args);
  const path = requireLocal(source);
  const changes = Array.from(fileMetadata(path).keys(), (key): [string, null] => [key, null]);
  return await editFile(context, options, path, new Map(changes));
};

/** The inverse of `import`: the object alone, for a file. */
const exportAll: Action = async ({ stdout, signal }, options, source, args) => {
  requireNone(args);
  const metadata = await sourceMetadata(source, options, signal);
  const indent = options['json'] === true ? 0 : 2;
  stdout.write(`${visibleJson(JSON.stringify(Object.fromEntries(metadata), null, indent))}\n`);
  return 'done';
};

const importAll: Action = async (context, options, source, [from, ...more]) => {
  requireArgument('JSON-FILE', from);
  requireNone(more);
  const path = requireLocal(source);
  const changes = new Map<string, string | null>();
  for (const key of fileMetadata(path).keys()) changes.set(key, null);
  for (const [key, value] of Object.entries(readObject(from))) changes.set(key, value);
  return await editFile(context, options, path, changes);
};

function readObject(path: string): Record<string, string> {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8').replace(/^\ufeff/, ''));
  } catch (error) {
    if (!(Object(error).name === 'SyntaxError')) throw error;
    throw new UsageError(`${path}: expected JSON: ${Object(error).message}`);
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const other = isObject
    ? Object.entries(value as object).find(([, text]) => typeof text !== 'string')
    : ['', value];
  if (other === undefined) return value as Record<string, string>;
  const where = isObject ? ` at ${JSON.stringify(other[0])}` : '';
  throw new UsageError(`${path}: expected an object of strings, found ${typeof other[1]}${where}`);
}

/** Removes training data and local paths. */
const strip: Action = async (context, options, source, args) => {
  requireNone(args);
  const path = requireLocal(source);
  const changes = new Map<string, null>();
  for (const [key, value] of fileMetadata(path)) {
    if (strippedAs(key, value) !== null) changes.set(key, null);
  }
  return await editFile(context, options, path, changes);
};

const METADATA_ACTIONS: Readonly<Record<string, Action>> = {
  get,
  set,
  rm,
  clear,
  export: exportAll,
  import: importAll,
  strip,
};

/** Actions that change nothing, and take any source. */
const READING: readonly string[] = ['get', 'export'];

/** A word with separate actions. */
const MODELSPEC = 'modelspec';

export const metadataCommand: Command = {
  summary: 'Read and change metadata',
  usage: 'metadata get|set|rm|clear|export|import|strip|modelspec SOURCE …',
  description:
    'get SOURCE [KEY…] prints values; set FILE KEY=VALUE…, rm FILE KEY… and clear FILE change them; export ' +
    'SOURCE prints all as JSON, import FILE JSON-FILE replaces all; strip FILE removes training data and local ' +
    "paths; modelspec show|check|set|thumbnail SOURCE handles Stability AI's ModelSpec.",
  example: 'metadata set model.safetensors license=mit',
  options: {
    'in-place': {
      type: 'boolean',
      help: 'overwrite the header in the file instead of writing a new file; not crash-safe',
    },
    'dry-run': {
      type: 'boolean',
      help: 'report the changes, and whether they fit in place, without writing',
    },
    ...REPOSITORY,
  },
  positionals: [0, Number.POSITIVE_INFINITY],
  async run(context, [word = '', ...args], options) {
    const actions = [...Object.keys(METADATA_ACTIONS), MODELSPEC];
    if (word === '') throw new UsageError(`metadata takes ${actions.join(', ')}: say which`);
    const action = requireAction('metadata', word, actions);
    if (action === MODELSPEC) return await modelspec(context, options, args);
    const [source, ...rest] = args;
    const isReading = READING.includes(action);
    requireArgument(isReading ? 'SOURCE' : 'FILE', source);
    if (isReading) requireNoEditOptions(action, options);
    else requireNoChoice(action, options);
    return await (METADATA_ACTIONS[action] as Action)(context, options, source, rest);
  },
};
