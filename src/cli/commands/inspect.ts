/** `inspect`: the kind, totals, metadata and tensors of a file or checkpoint. */

import { isOfFile } from '../../file/shards/file-problems.js';
import { incompleteKind, partKind } from '../../file/shards/incomplete-models.js';
import { SafetensorsError, type SourceChoice } from '../../index.js';
import { bytesText, countText, groupedText, plural } from '../../inspect/number-texts.js';
import { lackingDtypes } from '../../inspect/torch-dtypes.js';
import { type TreeNode, treeOf } from '../../inspect.js';
import { bar } from '../output/bar.js';
import type { Style } from '../output/style.js';
import { type Column, factLines, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, SHOWN_VALUE_LENGTH, visible } from '../output/visible.js';
import { cutLines } from '../output/width.js';
import { namesTest } from '../sources/glob.js';
import { listSource, type OneModel } from '../sources/list-source.js';
import type {
  ListedCounts,
  ListedFile,
  ListedTensor,
  Listing,
  UnsupportedTensor,
} from '../sources/listing.js';
import { kindText, type LogicalCounts, logicalCounts, logicalModel } from '../sources/logical.js';
import {
  closeSource,
  type ForeignChoices,
  type OpenedParts,
  type OpenedSource,
  openForInspection,
  openSource,
} from '../sources/open-source.js';
import { type Command, optionTexts, printResult, requireChoice } from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import { FILTER, nothingChosen } from './written.js';

const SHARE_BAR_WIDTH = 10;

/** Most characters of a message, which may have a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** Width of the line between a fact's name and its value, for values that are cut. */
const INDENT = '  ';

/** A branch of `--tree`, for `--json`. */
interface TreeResult {
  readonly name: string;
  readonly times: number;
  readonly tensors: number;
  readonly byteLength: number;
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly children?: readonly TreeResult[];
}

/** One model, for `--json`. */
interface ModelResult {
  readonly path: string;
  readonly format: string;
  /** What the file is: a model, a part of a distributed checkpoint, or a delta. */
  readonly kind: string;
  readonly byteLength: number;
  readonly tensorCount: number;
  readonly parameters: number;
  readonly totalParameters: number | null;
  readonly quantization: string | null;
  /** What the quantized weights stand for; null without any, and when the configuration cannot be used. */
  readonly logical: LogicalCounts | null;
  readonly dtypes: Readonly<Record<string, ListedCounts>>;
  readonly files: readonly ListedFile[];
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly warnings: readonly string[];
  readonly unsupported: readonly UnsupportedTensor[];
  readonly tensors?: readonly ListedTensor[];
  readonly tree?: readonly TreeResult[];
}

/** Why a model of a pipeline cannot be listed. */
interface FailedModel {
  readonly code: string;
  readonly message: string;
}

/** A pipeline has several models, by their folders. */
type InspectResult =
  | ({ readonly source: string } & ModelResult)
  | {
      readonly source: string;
      readonly format: 'diffusers' | 'safetensors';
      readonly kind: string;
      readonly byteLength: number;
      readonly parameters: number;
      /** Folders that model_index.json names and that are not there. */
      readonly missing: readonly string[];
      /** Why models cannot be listed, by their folders. */
      readonly failed: Readonly<Record<string, FailedModel>>;
      readonly components: Readonly<Record<string, ModelResult>>;
    };

const QUANTIZATION = /^SAFETENSORS_QUANTIZATION_/;

const ORDERS = ['offset', 'name', 'size'] as const;

interface View {
  readonly isTree: boolean;
  readonly filter: ((name: string) => boolean) | undefined;
  readonly order: (typeof ORDERS)[number];
}

function warningsOf({ dtypes, ignoredFiles }: Listing, { counts, refusal }: Logical): string[] {
  const refused = Object.values(counts?.problems ?? {});
  const [first] = refused;
  const many = `${plural(refused.length, 'weight')} cannot be dequantized: ${first}`;
  return [
    ...lackingDtypes(dtypes.keys()),
    ...ignoredFiles.map((name) => `${name} next to it is ignored`),
    ...(first === undefined ? [] : [refused.length === 1 ? first : many]),
    ...(refusal === undefined ? [] : [refusal]),
  ];
}

/** The logical tensors of a source, or why there are none. */
interface Logical {
  readonly counts: LogicalCounts | null;
  readonly refusal?: string;
}

async function logicalOf(
  opened: OneModel,
  tensors: Listing['tensors'],
  signal: AbortSignal,
): Promise<Logical> {
  try {
    const model = await logicalModel(opened, tensors, signal);
    return { counts: model && logicalCounts(model) };
  } catch (error) {
    if (!(error instanceof SafetensorsError) || !QUANTIZATION.test(error.code)) throw error;
    return { counts: null, refusal: error.message };
  }
}

/** By code units: the order only has to be stable. */
function byName(a: ListedTensor, b: ListedTensor): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** The tensors that match `--filter`. */
function filtered<Named extends { readonly name: string }>(
  tensors: readonly Named[],
  { filter }: View,
): Named[] {
  return tensors.filter(({ name }) => filter === undefined || filter(name));
}

function chosen(tensors: readonly ListedTensor[], view: View): ListedTensor[] {
  const { order } = view;
  const found = filtered(tensors, view);
  if (order === 'name') found.sort(byName);
  if (order === 'size') found.sort((a, b) => b.byteLength - a.byteLength);
  return found;
}

function treeResult({ label, leaf, children, ...counts }: TreeNode): TreeResult {
  return {
    ...{ name: label, ...counts },
    ...(leaf === null ? {} : { dtype: leaf.dtype, shape: leaf.shape }),
    ...(children.length === 0 ? {} : { children: children.map(treeResult) }),
  };
}

async function modelResult(
  opened: OneModel,
  view: View,
  signal: AbortSignal,
  kind = 'model',
): Promise<ModelResult> {
  const listing = await listSource(opened, signal);
  const logical = await logicalOf(opened, listing.tensors, signal);
  const { format, path, files, parameters, totalParameters, quantization, metadata } = listing;
  const tensors = chosen(listing.tensors, view);
  return {
    path,
    format,
    kind,
    byteLength: files.reduce((sum, file) => sum + file.byteLength, 0),
    tensorCount: listing.tensors.length,
    ...{ parameters, totalParameters, quantization, logical: logical.counts },
    dtypes: Object.fromEntries(listing.dtypes),
    files,
    metadata: metadata === null ? null : Object.fromEntries(metadata),
    warnings: warningsOf(listing, logical),
    unsupported: filtered(listing.unsupported, view),
    ...(view.isTree ? { tree: treeOf(tensors).map(treeResult) } : { tensors }),
  };
}

function failure(error: Error): FailedModel {
  const { code } = error as NodeJS.ErrnoException;
  return { code: String(code), message: error.message };
}

async function inspectSource(
  source: string,
  view: View,
  choices: { readonly foreign: ForeignChoices; readonly choice: SourceChoice },
  signal: AbortSignal,
): Promise<InspectResult> {
  const opening = { ...choices, signal, storage: 'read', skipFailed: true } as const;
  try {
    return await inspectOpened(source, await openSource(source, opening), view, signal);
  } catch (error) {
    const kind = incompleteKind(error);
    if (kind === undefined) throw error;
    return await inspectOpened(
      source,
      await openForInspection(source, opening),
      view,
      signal,
      kind,
    );
  }
}

/** Inspects a source, and closes it. */
async function inspectOpened(
  source: string,
  opened: OpenedSource | OpenedParts,
  view: View,
  signal: AbortSignal,
  kind?: string,
): Promise<InspectResult> {
  try {
    const isParts = opened.kind === 'parts';
    if (!isParts && opened.kind !== 'pipeline') {
      return { source, ...(await modelResult(opened, view, signal, kind)) };
    }
    const components = new Map<string, ModelResult>();
    const failed = new Map<string, Error>();
    for (const { name, ...model } of opened.components) {
      try {
        const ofPart = isParts ? partKind(name) : undefined;
        components.set(name, await modelResult(model, view, signal, ofPart));
      } catch (error) {
        if (signal.aborted || !isOfFile(error)) throw error;
        failed.set(name, error);
      }
    }
    for (const [name, error] of opened.failed) failed.set(name, error);
    const sum = (of: 'byteLength' | 'parameters'): number =>
      [...components.values()].reduce((total, model) => total + model[of], 0);
    const totals = { byteLength: sum('byteLength'), parameters: sum('parameters') };
    return {
      source,
      format: isParts ? 'safetensors' : 'diffusers',
      kind: isParts ? (kind ?? '') : 'pipeline',
      ...totals,
      missing: isParts ? [] : opened.missing,
      failed: Object.fromEntries(Array.from(failed, ([name, error]) => [name, failure(error)])),
      components: Object.fromEntries(components),
    };
  } finally {
    if (opened.kind !== 'parts') closeSource(opened);
  }
}

function shapeText(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}

function tensorLines(
  { tensors = [], files }: ModelResult,
  style: Style,
  width: number | null,
): string[] {
  const hasFiles = files.length > 1;
  const columns: Column[] = [
    { title: 'tensor', gives: true },
    { title: 'dtype' },
    { title: 'shape' },
    { title: 'size', align: 'right' },
    ...(hasFiles ? [{ title: 'file' }] : []),
  ];
  const numbers = new Map(files.map(({ name }, i) => [name, String(i + 1)]));
  const rows = tensors.map(({ name, dtype, shape, byteLength, file }) => {
    const row = [visible(name, SHOWN_NAME_LENGTH), dtype, shapeText(shape), bytesText(byteLength)];
    if (hasFiles) row.push(numbers.get(file) ?? '');
    return row;
  });
  return tableLines(columns, rows, width, style.dim);
}

function treeLines(tree: readonly TreeResult[], style: Style, width: number | null): string[] {
  const columns: Column[] = [
    { title: 'tensor', gives: true },
    { title: 'dtype' },
    { title: 'shape' },
    { title: 'size', align: 'right' },
    { title: 'share' },
  ];
  const total = tree.reduce((sum, node) => sum + node.byteLength, 0);
  const rows: string[][] = [];
  const walk = (nodes: readonly TreeResult[], indent: string): void => {
    for (const [i, node] of nodes.entries()) {
      const isLast = i === nodes.length - 1;
      const { name, dtype = '', shape, children = [], times, tensors, byteLength } = node;
      const prefix = `${indent}${isLast ? '└─ ' : '├─ '}`;
      const count = times === 1 ? '' : `${times} × `;
      const what = shape === undefined ? plural(tensors, 'tensor') : `${count}${shapeText(shape)}`;
      rows.push([
        prefix + visible(name, SHOWN_NAME_LENGTH),
        dtype,
        what,
        bytesText(byteLength),
        bar(byteLength / total, SHARE_BAR_WIDTH),
      ]);
      walk(children, `${indent}${isLast ? '   ' : '│  '}`);
    }
  };
  walk(tree, '');
  return tableLines(columns, rows, width, style.dim);
}

function dtypesText(dtypes: ModelResult['dtypes']): string {
  return Object.entries(dtypes)
    .sort(([, a], [, b]) => b.byteLength - a.byteLength)
    .map(([name, { tensors, byteLength }]) => `${name} ${tensors} (${bytesText(byteLength)})`)
    .join(', ');
}

function metadataLines(
  metadata: Readonly<Record<string, string>>,
  style: Style,
  width: number | null,
): string[] {
  const facts = Object.entries(metadata).map(([key, value]) => {
    return [INDENT + visible(key, SHOWN_NAME_LENGTH), visible(value, SHOWN_VALUE_LENGTH)] as const;
  });
  if (facts.length === 0) return [];
  // Cut lines before colouring: colours take no columns.
  const lines = factLines(facts, (text) => text);
  return ['', style.bold('metadata'), ...cutLines(lines, width)];
}

/** The files by number; with a filter only files of shown tensors. */
function numberedFiles(
  { files, tensors = [], tensorCount }: ModelResult,
  style: Style,
  width: number | null,
): readonly string[] {
  if (files.length < 2) return [];
  const columns: Column[] = [
    { title: 'file', align: 'right' },
    { title: 'name', gives: true },
    { title: 'tensors', align: 'right' },
    { title: 'parameters', align: 'right' },
    { title: 'size', align: 'right' },
  ];
  const shown = new Set(tensors.map(({ file }) => file));
  const isWhole = tensors.length === tensorCount;
  const rows = files.flatMap(({ name, tensors: count, parameters, byteLength }, i) => {
    if (!isWhole && !shown.has(name)) return [];
    const numbers = [groupedText(count), groupedText(parameters), bytesText(byteLength)];
    return [[String(i + 1), visible(name, SHOWN_NAME_LENGTH), ...numbers]];
  });
  return rows.length === 0 ? [] : ['', ...tableLines(columns, rows, width, style.dim)];
}

function logicalFacts({ tensors, parameters, quantized }: LogicalCounts): [string, string][] {
  const kinds = quantized.map((kind, i) => {
    const all = i === 0 ? ` of ${plural(tensors, 'weight')}` : '';
    return `${groupedText(kind.weights)}${all} ${kindText(kind)}`;
  });
  return [
    ['quantized', kinds.length === 0 ? `0 of ${plural(tensors, 'weight')}` : kinds.join(', ')],
    ['dequantized', `${countText(parameters)} parameters`],
  ];
}

function modelLines(
  title: string,
  model: ModelResult,
  style: Style,
  width: number | null,
): string[] {
  const { format, kind, files, byteLength, tensorCount, parameters, totalParameters } = model;
  const { quantization, logical, dtypes, metadata, warnings, unsupported, tree } = model;
  const facts: (readonly [string, string])[] = [
    ...(kind === 'model' ? [] : [['kind', kind] as const]),
    ['format', `${format}, ${plural(files.length, 'file')}, ${bytesText(byteLength)}`],
    ['tensors', groupedText(tensorCount)],
    ['parameters', countText(parameters)],
  ];
  if (totalParameters !== null && totalParameters !== parameters) {
    facts.push(['by metadata', countText(totalParameters)]);
  }
  if (quantization !== null) facts.push(['quantization', visible(quantization)]);
  if (logical !== null) facts.push(...logicalFacts(logical));
  if (tensorCount > 0) facts.push(['dtypes', dtypesText(dtypes)]);
  const rows =
    tree === undefined ? tensorLines(model, style, width) : treeLines(tree, style, width);
  return [
    style.bold(visible(title, SHOWN_NAME_LENGTH)),
    ...factLines(facts, style.dim),
    ...warnings.map((text) => style.warning(`warning: ${visible(text, SHOWN_NAME_LENGTH)}`)),
    ...(metadata === null ? [] : metadataLines(metadata, style, width)),
    // A tree doesn't name files, and a large model's list of files would push it down.
    ...(tree === undefined ? numberedFiles(model, style, width) : []),
    // The first row holds the titles.
    ...(rows.length === 1 ? [] : ['', ...rows]),
    ...unsupportedLines(unsupported, style, width),
  ];
}

/** Most shown reasons for tensors that safetensors cannot hold. */
const SHOWN_UNSUPPORTED = 20;

function unsupportedLines(
  unsupported: readonly UnsupportedTensor[],
  style: Style,
  width: number | null,
): readonly string[] {
  if (unsupported.length === 0) return [];
  const facts = unsupported.slice(0, SHOWN_UNSUPPORTED).map(({ name, reason }) => {
    return [
      INDENT + visible(name, SHOWN_NAME_LENGTH),
      visible(reason, SHOWN_VALUE_LENGTH),
    ] as const;
  });
  const title = `${plural(unsupported.length, 'tensor')} that safetensors cannot hold`;
  const more = unsupported.length - facts.length;
  return [
    '',
    style.warning(title),
    ...cutLines(
      factLines(facts, (text) => text),
      width,
    ),
    ...(more === 0 ? [] : [`${INDENT}and ${more} more`]),
  ];
}

function modelResults(result: InspectResult): readonly ModelResult[] {
  return 'components' in result ? Object.values(result.components) : [result];
}

function hasTensors({ tensors, tree, unsupported }: ModelResult): boolean {
  return (tensors ?? tree ?? []).length + unsupported.length > 0;
}

function inspectLines(
  result: InspectResult,
  style: Style,
  width: number | null,
): readonly string[] {
  if (!('components' in result)) return modelLines(result.source, result, style, width);
  const { source, format, kind, byteLength, parameters, missing, failed, components } = result;
  const entries = Object.entries(components);
  const isPipeline = format === 'diffusers';
  const count = plural(entries.length, isPipeline ? 'model' : 'file');
  const facts = [
    ...(isPipeline ? [] : [['kind', kind] as const]),
    ['format', `${format}, ${count}, ${bytesText(byteLength)}`] as const,
    ['parameters', countText(parameters)] as const,
  ];
  return [
    style.bold(visible(source, SHOWN_NAME_LENGTH)),
    ...factLines(facts, style.dim),
    ...missing.map((name) => {
      const folder = visible(name, SHOWN_NAME_LENGTH);
      return style.warning(
        `warning: model_index.json names the folder ${folder}, which is missing`,
      );
    }),
    ...entries.flatMap(([name, model]) => ['', ...modelLines(name, model, style, width)]),
    ...Object.entries(failed).flatMap(([name, { code, message }]) => [
      '',
      style.bold(visible(name, SHOWN_NAME_LENGTH)),
      `${style.error(code)}: ${visible(message, SHOWN_MESSAGE_LENGTH)}`,
    ]),
  ];
}

export const inspectCommand: Command = {
  summary: 'shows totals, dtypes, metadata and tensors',
  usage: 'inspect SOURCE [--tree] [--filter GLOB] [--sort offset|name|size] [--root KEYS]',
  description:
    'Shows totals, parameters, dtypes, files, metadata and tensors of a file or checkpoint, and reads only ' +
    'headers. Also lists torch and NumPy files, the models of a diffusers pipeline, parts of distributed ' +
    'checkpoints, and deltas. Exit code 1 if no name ' +
    'matches --filter, or a model of a pipeline cannot be read.',
  options: {
    tree: { type: 'boolean', help: 'names as a tree with bars; equal layers are folded' },
    ...FILTER,
    sort: {
      type: 'string',
      value: 'ORDER',
      choices: ORDERS,
      help: 'offset (the default), name or size',
    },
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { tree, sort = 'offset' } = options;
    const view: View = {
      isTree: tree === true,
      filter: namesTest(optionTexts(options, 'filter')),
      order: requireChoice('sort', sort, ORDERS),
    };
    const choices = { foreign: foreignChoices(options), choice: repositoryChoice(options) };
    const result = await inspectSource(source, view, choices, context.signal);
    const isNone = view.filter !== undefined && !modelResults(result).some(hasTensors);
    printResult(context, options, result, (printed, style, width) => [
      ...inspectLines(printed, style, width),
      ...(isNone ? ['', style.warning(nothingChosen(options))] : []),
    ]);
    const isPart = 'failed' in result && Object.keys(result.failed).length > 0;
    return isNone || isPart ? 'no' : 'done';
  },
};
