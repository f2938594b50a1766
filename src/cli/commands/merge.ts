/** `merge`: Merge adapters into a checkpoint, or models into one. */

import { existsSync } from 'node:fs';
import { type AdapterChange, type AnyCheckpoint, mergeAdapters, open } from '../../index.js';
import { formatBytes, plural } from '../../inspect/format.js';
import type { Style } from '../output/style.js';
import { tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { isRemote, placeOf } from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  type OptionValues,
  optionValues,
  printResult,
  requireChoice,
  UsageError,
} from './command.js';
import { MODEL_OPTIONS, type ModelsResult, mergeModelsInto } from './merge-models.js';
import { formatRelativeSize, relativeSize } from './relative-size.js';
import { type SavedResult, saveMerged } from './save-merged.js';
import {
  DIGESTS,
  DRY_RUN,
  deletedLines,
  FORCE,
  forceLines,
  replacedLines,
  requirePath,
  SHARD_SIZE,
  shardSizeOf,
} from './written.js';

const COMPONENTS = ['unet', 'transformer', 'te', 'te1', 'te2', 'te3'] as const;

/** A changed weight. */
interface ChangeResult extends AdapterChange {
  /** Norm of the whole change of the weight relative to that of the weight; null except in a dry run. */
  readonly relativeSize: number | null;
}

/** The result, for `--json`. */
interface MergeResult extends SavedResult {
  readonly source: string;
  readonly changes: readonly ChangeResult[];
  readonly warnings: readonly string[];
}

/** An adapter and its scale: `style.safetensors=0.8`. */
function adapterOf(text: string, component: (typeof COMPONENTS)[number] | undefined): object {
  const [, path = text, scale] =
    /^(.+)=([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)$/i.exec(text) ?? [];
  const last = text.slice(text.lastIndexOf('=') + 1);
  // A query of an address may have the sign, and so may the name of a file.
  if (scale === undefined && last !== text && !isRemote(text) && !existsSync(placeOf(text))) {
    const found = JSON.stringify(last);
    throw new UsageError(`--adapter ${text}: expected a number after =, found ${found}`);
  }
  return {
    source: placeOf(path),
    ...(scale === undefined ? {} : { scale: Number(scale) }),
    ...(component === undefined ? {} : { component }),
  };
}

async function mergeInto(
  context: CommandContext,
  options: OptionValues,
  source: string,
  target: string,
): Promise<MergeResult> {
  const { signal } = context;
  const { component: chosen, unmatched = 'error' } = options;
  const component =
    chosen === undefined ? undefined : requireChoice('component', chosen, COMPONENTS);
  const adapters = optionValues(options, 'adapter').map((text) => adapterOf(text, component));
  const unmatchedRule = requireChoice('unmatched', unmatched, ['error', 'skip']);
  const base: AnyCheckpoint = await open(placeOf(source), { signal });
  try {
    const merging = { unmatched: unmatchedRule, signal };
    const merged = await mergeAdapters(base, adapters as never, merging);
    const { baseFiles } = await import('../../open/merged-files.js');
    const others = await baseFiles(placeOf(source), base as never, signal);
    const saved = await saveMerged(context, options, target, merged, others);
    const changes: ChangeResult[] = [];
    for (const change of merged.changes) {
      const { name } = change;
      const size = saved.dryRun
        ? await relativeSize(await base.getTensor(name), await merged.getTensor(name), signal)
        : null;
      changes.push({ ...change, relativeSize: size });
    }
    const { replaced, deleted, ...facts } = saved;
    return { source, ...facts, changes, warnings: merged.warnings, replaced, deleted };
  } finally {
    base.close();
  }
}

const COLUMNS = [
  { title: 'weight', gives: true, ofModels: true },
  { title: 'kind', ofModels: true },
  { title: 'rank', align: 'right', ofModels: false },
  { title: 'scale', align: 'right', ofModels: false },
  { title: 'change', align: 'right', ofModels: true },
] as const;

function linesOf(result: MergeResult | ModelsResult, style: Style, width: number | null): string[] {
  const { target, dryRun, files, byteLength, changes, warnings, replaced, deleted } = result;
  const merged = changes.filter(({ kind }) => kind !== 'copied');
  const names = new Set(merged.map(({ name }) => name));
  const rows = changes.map((change) => {
    const texts = [visible(change.name, SHOWN_NAME_LENGTH), change.kind];
    const size = formatRelativeSize(change.relativeSize);
    if (!('scale' in change)) return [...texts, size];
    const { rank, scale } = change;
    const rankText = rank === null ? '' : String(rank);
    return [...texts, rankText, String(Number(scale.toPrecision(4))), size];
  });
  const hasFactors = changes.some((change) => 'scale' in change);
  const columns = hasFactors ? COLUMNS : COLUMNS.filter(({ ofModels }) => ofModels);
  return [
    `${style.bold(visible(target, SHOWN_NAME_LENGTH))}: ${dryRun ? 'would have ' : ''}${plural(files.length, 'file')}, ${formatBytes(byteLength)} of tensors, ${plural(names.size, 'weight')} merged`,
    ...files.map((name) => `  ${visible(name, SHOWN_NAME_LENGTH)}`),
    ...(dryRun ? tableLines(columns, rows, width, style.bold) : []),
    ...warnings.map((text) => style.warning(`warning: ${visible(text, SHOWN_NAME_LENGTH)}`)),
    ...replacedLines(replaced, deleted, dryRun),
    ...deletedLines(deleted, dryRun),
    ...forceLines(result, style),
  ];
}

export const mergeCommand: Command = {
  summary: 'Merge adapters into a checkpoint, or models',
  usage: 'merge SOURCE [MODEL…] -o FOLDER',
  description:
    'With --adapter, write SOURCE with adapters merged into its weights: LoRA, DoRA, LoHa, LoKr, IA3 and others of ' +
    'PEFT, kohya, LyCORIS and Diffusers. With --method, merge SOURCE and the other models. Without both, SOURCE is a ' +
    'recipe in YAML or JSON, with the keys of mergekit or those of mergeModels. Configuration, tokenizer and other ' +
    'files of a base in a folder or the Hub cache are copied, and configuration and tokenizer of a remote base. ' +
    'Weight files in FOLDER are replaced only with --force.',
  example: 'merge my-model --adapter my-adapter=0.8 -o merged',
  options: {
    adapter: {
      type: 'string',
      multiple: true,
      value: 'ADAPTER',
      help: 'a folder, a file or an address, and its strength, such as style.safetensors=0.8; repeatable',
    },
    output: {
      type: 'string',
      short: 'o',
      value: 'FOLDER',
      help: 'the folder of the new checkpoint',
    },
    ...MODEL_OPTIONS,
    unmatched: {
      type: 'string',
      value: 'RULE',
      choices: ['error', 'skip'],
      help: 'keys of adapters, or tensors of models, without a counterpart: error (the default), or skip them',
    },
    component: {
      type: 'string',
      value: 'NAME',
      choices: COMPONENTS,
      help: 'which model SOURCE is, if the adapter is for several: unet, transformer, te, te1, te2 or te3',
    },
    ...SHARD_SIZE,
    ...DIGESTS,
    ...FORCE,
    ...DRY_RUN,
  },
  positionals: [1, Number.POSITIVE_INFINITY],
  async run(context, sources, options) {
    const { output: target } = options;
    if (typeof target !== 'string') throw new UsageError('-o FOLDER is missing');
    requirePath(target);
    if (target.endsWith('.safetensors')) {
      throw new UsageError('-o takes a folder; `join FOLDER -o FILE` writes one file');
    }
    shardSizeOf(options);
    const [source = '', second] = sources;
    const hasAdapters = optionValues(options, 'adapter').length > 0;
    if (hasAdapters && (second !== undefined || options['method'] !== undefined)) {
      throw new UsageError('--adapter merges adapters into one checkpoint; merge models first');
    }
    const others = hasAdapters ? Object.keys(MODEL_OPTIONS) : ['component'];
    const flag = others.find((one) => options[one] !== undefined);
    if (flag !== undefined) {
      const without = hasAdapters ? 'has no effect with --adapter' : 'needs --adapter';
      throw new UsageError(`--${flag} ${without}`);
    }
    const result = hasAdapters
      ? await mergeInto(context, options, source, target)
      : await mergeModelsInto(context, options, sources, target);
    printResult(context, options, result, linesOf);
    return 'done';
  },
};
