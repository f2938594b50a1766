/** `metadata modelspec`: Stability AI's ModelSpec in the metadata of a file. */

import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { formatBytes } from '../../inspect/format.js';
import {
  checkModelspec,
  imageTypeOf,
  MODELSPEC_PREFIX,
  MODELSPEC_VERSION,
  type ModelspecProblem,
  thumbnailOf,
} from '../../inspect/modelspec.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { SHOWN_VALUE_LENGTH, visible } from '../output/visible.js';
import { cutLines } from '../output/width.js';
import { openSource, requireModel } from '../sources/open-source.js';
import {
  type CommandContext,
  type OptionValues,
  type Outcome,
  printResult,
  requireAction,
  requireArgument,
  requireNone,
  UsageError,
} from './command.js';
import { editFile, requireLocal, requireNoChoice, requireNoEditOptions } from './metadata-edit.js';
import { repositoryChoice } from './repository-options.js';

const THUMBNAIL = `${MODELSPEC_PREFIX}thumbnail`;
const HASH = `${MODELSPEC_PREFIX}hash_sha256`;

/** Whoever opens the file reads its header, with the thumbnail. One of 256 × 256 pixels takes some 10 to 100 kB. */
const MAX_THUMBNAIL_BYTE_LENGTH = 2 ** 20;

/** The metadata of a model; empty when it has no metadata, as in PyTorch and NumPy files. */
export async function sourceMetadata(
  source: string,
  options: OptionValues,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const choice = repositoryChoice(options);
  const opened = await openSource(source, { signal, storage: 'read', choice });
  try {
    return requireModel(opened).metadata ?? new Map();
  } finally {
    opened.close();
  }
}

/** `KEY=VALUE` arguments as pairs. */
export function keyValuePairs(args: readonly string[]): Map<string, string> {
  const pairs = new Map<string, string>();
  for (const text of args) {
    const at = text.indexOf('=');
    if (at <= 0) throw new UsageError(`expected KEY=VALUE, found ${JSON.stringify(text)}`);
    const key = text.slice(0, at);
    if (pairs.has(key)) throw new UsageError(`${JSON.stringify(key)} is given twice`);
    pairs.set(key, text.slice(at + 1));
  }
  return pairs;
}

interface ModelspecResult {
  readonly source: string;
  readonly modelspec: Readonly<Record<string, string>>;
}

async function showFields(
  context: CommandContext,
  options: OptionValues,
  source: string,
  args: readonly string[],
): Promise<Outcome> {
  requireNone(args);
  const metadata = await sourceMetadata(source, options, context.signal);
  const found = [...metadata].filter(([key]) => key.startsWith(MODELSPEC_PREFIX));
  const result: ModelspecResult = { source, modelspec: Object.fromEntries(found) };
  printResult(context, options, result, ({ modelspec }, style, width) => {
    const facts = Object.entries(modelspec).map(([key, value]): readonly [string, string] => {
      const image = key === THUMBNAIL ? thumbnailOf(value) : null;
      const shown =
        image === null
          ? visible(value, SHOWN_VALUE_LENGTH)
          : `${image.type}, ${formatBytes(image.bytes.length)}`;
      return [visible(key.slice(MODELSPEC_PREFIX.length)), shown];
    });
    if (facts.length === 0) return [style.dim('no modelspec in the metadata')];
    const lines = infoLines(facts, (text) => text);
    return cutLines(lines, width);
  });
  return found.length === 0 ? 'no' : 'done';
}

interface CheckResult {
  readonly source: string;
  readonly ok: boolean;
  readonly problems: readonly ModelspecProblem[];
}

async function check(
  context: CommandContext,
  options: OptionValues,
  source: string,
  args: readonly string[],
): Promise<Outcome> {
  requireNone(args);
  const problems = checkModelspec(await sourceMetadata(source, options, context.signal));
  const ok = problems.every(({ level }) => level !== 'error');
  printResult<CheckResult>(context, options, { source, ok, problems }, checkLines);
  return ok ? 'done' : 'no';
}

function checkLines({ ok, problems }: CheckResult, style: Style): readonly string[] {
  const lines = problems.map(({ key, level, message }) => {
    const mark = level === 'error' ? style.error('error') : style.warning('warning');
    return `${mark}  ${visible(key, SHOWN_VALUE_LENGTH)} ${message}`;
  });
  return [...lines, ok ? 'follows ModelSpec' : 'does not follow ModelSpec'];
}

async function setFields(
  context: CommandContext,
  options: OptionValues,
  source: string,
  args: readonly string[],
): Promise<Outcome> {
  const path = requireLocal(source);
  requireArgument('KEY=VALUE', args[0]);
  const changes = new Map<string, string>();
  let modelspecHash = false;
  for (const [name, value] of keyValuePairs(args)) {
    const key = name.startsWith(MODELSPEC_PREFIX) ? name : MODELSPEC_PREFIX + name;
    if (key === HASH && value === 'auto') modelspecHash = true;
    else changes.set(key, key === THUMBNAIL && value.startsWith('@') ? imageUrl(value) : value);
  }
  const version = `${MODELSPEC_PREFIX}sai_model_spec`;
  const metadata = await sourceMetadata(path, options, context.signal);
  if (!metadata.has(version) && !changes.has(version)) changes.set(version, MODELSPEC_VERSION);
  return await editFile(context, options, path, changes, modelspecHash ? { modelspecHash } : {});
}

/** The image at a path after `@`, as a data URL. */
function imageUrl(value: string): string {
  const path = value.slice(1);
  const { size } = statSync(path);
  if (size > MAX_THUMBNAIL_BYTE_LENGTH) {
    const expected = `expected an image of at most ${MAX_THUMBNAIL_BYTE_LENGTH} bytes`;
    throw new UsageError(`${path}: ${expected}, found ${size}`);
  }
  const bytes = readFileSync(path);
  const type = imageTypeOf(bytes);
  if (type === null) throw new UsageError(`${path}: expected a PNG, JPEG or WebP image`);
  return `data:${type};base64,${bytes.toString('base64')}`;
}

interface ThumbnailResult {
  readonly source: string;
  readonly target: string;
  /** Null without an image in the metadata. */
  readonly type: string | null;
  readonly byteLength: number;
}

async function thumbnail(
  context: CommandContext,
  options: OptionValues,
  source: string,
  [target, ...more]: readonly string[],
): Promise<Outcome> {
  requireArgument('the file to write the image to', target);
  requireNone(more);
  const value = (await sourceMetadata(source, options, context.signal)).get(THUMBNAIL);
  const image = value === undefined ? null : thumbnailOf(value);
  // An existing file is an error: overwriting it is hardly intended.
  if (image !== null) writeFileSync(target, image.bytes, { flag: 'wx' });
  const { type = null, bytes = [] } = image ?? {};
  const result: ThumbnailResult = { source, target, type, byteLength: bytes.length };
  printResult(context, options, result, ({ type, byteLength }) => [
    type === null
      ? `${visible(source)}: has ${value === undefined ? 'no thumbnail' : 'a thumbnail other than a data URL'}`
      : `${visible(target)}: ${type}, ${formatBytes(byteLength)}`,
  ]);
  return image === null ? 'no' : 'done';
}

const MODELSPEC_ACTIONS = { show: showFields, check, set: setFields, thumbnail };

/** Runs `metadata modelspec ACTION SOURCE …`. */
export async function modelspec(
  context: CommandContext,
  options: OptionValues,
  [word, source, ...args]: readonly string[],
): Promise<Outcome> {
  const actions = Object.keys(MODELSPEC_ACTIONS) as (keyof typeof MODELSPEC_ACTIONS)[];
  requireArgument(actions.join('|'), word);
  const action = requireAction('metadata modelspec', word, actions);
  requireArgument('SOURCE', source);
  if (action !== 'set') requireNoEditOptions(`modelspec ${action}`, options);
  else requireNoChoice('modelspec set', options);
  return await MODELSPEC_ACTIONS[action](context, options, source, args);
}
