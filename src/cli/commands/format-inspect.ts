/** The text of `inspect`. */

import {
  formatBytes,
  formatCount,
  formatInteger,
  plural,
  unknownCompleteness,
} from '../../inspect/format.js';
import { treeOf } from '../../inspect/tree.js';
import { bar } from '../output/bar.js';
import type { Style } from '../output/style.js';
import { type Column, infoLines, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, SHOWN_VALUE_LENGTH, visible } from '../output/visible.js';
import { cutLines } from '../output/width.js';
import { formatKind, type LogicalCounts } from '../sources/logical.js';
import {
  type AdapterResult,
  type DistributionResult,
  type InspectResult,
  type ModelResult,
  type TreeResult,
  treeResult,
  type UnsupportedTensor,
} from './inspect-result.js';

const SHARE_BAR_WIDTH = 10;

/** Most characters of a message, which may have a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** Width of the line between a fact's name and its value, for values that are cut. */
const INDENT = '  ';

/** Models with more tensors are shown as a tree, unless the list is requested. */
const MAX_LISTED_TENSORS = 200;

function formatShape(shape: readonly number[]): string {
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
    const row = [
      visible(name, SHOWN_NAME_LENGTH),
      dtype,
      formatShape(shape),
      formatBytes(byteLength),
    ];
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
      const what =
        shape === undefined ? plural(tensors, 'tensor') : `${count}${formatShape(shape)}`;
      rows.push([
        prefix + visible(name, SHOWN_NAME_LENGTH),
        dtype,
        what,
        formatBytes(byteLength),
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
    .map(([name, { tensors, byteLength }]) => `${name} ${tensors} (${formatBytes(byteLength)})`)
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
  const lines = infoLines(facts, (text) => text);
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
    const numbers = [formatInteger(count), formatInteger(parameters), formatBytes(byteLength)];
    return [[String(i + 1), visible(name, SHOWN_NAME_LENGTH), ...numbers]];
  });
  return rows.length === 0 ? [] : ['', ...tableLines(columns, rows, width, style.dim)];
}

function logicalInfo({ tensors, parameters, quantized }: LogicalCounts): [string, string][] {
  const kinds = quantized.map((kind, i) => {
    const all = i === 0 ? ` of ${plural(tensors, 'weight')}` : '';
    return `${formatInteger(kind.weights)}${all} ${formatKind(kind)}`;
  });
  return [
    ['quantized', kinds.length === 0 ? `0 of ${plural(tensors, 'weight')}` : kinds.join(', ')],
    ['dequantized', `${formatCount(parameters)} parameters`],
  ];
}

/** One number, or the first and the last of several. */
function rangeText(values: readonly number[]): string {
  const texts = values.map((value) => String(Number(value.toPrecision(4))));
  const [first = '', last = first] = [texts[0], texts.at(-1)];
  return first === last ? first : `${first} to ${last}`;
}

/** Most target modules in one line. */
const SHOWN_TARGETS = 20;

function adapterInfo(adapter: AdapterResult): [string, string][] {
  const { kinds, modules, ranks, alphas, scales, withoutScale, targetModules, baseModel } = adapter;
  const alpha = alphas.length === 0 ? 'no alpha' : `alpha ${rangeText(alphas)}`;
  const scale = scales.length === 0 ? '' : `${rangeText(scales)} (${alpha})`;
  const unknown =
    withoutScale === 0
      ? ''
      : `unknown for ${plural(withoutScale, 'module')}: no adapter_config.json, or alpha in a remote file`;
  const targets = targetModules.slice(0, SHOWN_TARGETS).map((name) => visible(name));
  const more = targetModules.length - targets.length;
  return [
    ['adapter', `${kinds.join(', ')}, ${plural(modules, 'module')}`],
    ...(ranks.length === 0 ? [] : [['rank', rangeText(ranks)] as [string, string]]),
    ...(ranks.length === 0
      ? []
      : [['scale', [scale, unknown].filter(Boolean).join(', ')] as [string, string]]),
    ['targets', [...targets, ...(more > 0 ? [`${more} more`] : [])].join(', ')],
    ...(baseModel === null
      ? []
      : [['base model', visible(baseModel, SHOWN_NAME_LENGTH)] as [string, string]]),
  ];
}

/** The tree of a model: the requested one, or one in place of a list that is too long. */
function shownTree(
  { tree, tensors = [] }: ModelResult,
  isList: boolean,
): readonly TreeResult[] | undefined {
  const isLong = !isList && tensors.length > MAX_LISTED_TENSORS;
  return tree ?? (isLong ? treeOf(tensors).map(treeResult) : undefined);
}

/** Files in safetensors have no number of ranks: the last one may be missing. */
function distributionInfo({
  ranks,
  pieces,
  isComplete,
  objects,
}: DistributionResult): (readonly [string, string])[] {
  const found = `${plural(ranks, 'rank')}, ${plural(pieces, 'piece')}`;
  const unknown = `; ${unknownCompleteness(ranks)}`;
  return [
    ['distributed', isComplete === null ? found + unknown : found],
    ...(objects.length === 0
      ? []
      : [['objects', visible(objects.join(', '), SHOWN_VALUE_LENGTH)] as const]),
  ];
}

function modelLines(
  title: string,
  model: ModelResult,
  isList: boolean,
  style: Style,
  width: number | null,
): string[] {
  const { format, kind, files, byteLength, tensorCount, parameters, totalParameters } = model;
  const { quantization, logical, dtypes, metadata, warnings, unsupported, tensors = [] } = model;
  const tree = shownTree(model, isList);
  const facts: (readonly [string, string])[] = [
    ...(kind === 'model' ? [] : [['kind', kind] as const]),
    ['format', `${format}, ${plural(files.length, 'file')}, ${formatBytes(byteLength)}`],
    ['tensors', formatInteger(tensorCount)],
    ['parameters', formatCount(parameters)],
  ];
  if (totalParameters !== null && totalParameters !== parameters) {
    facts.push(['by metadata', formatCount(totalParameters)]);
  }
  if (quantization !== null) facts.push(['quantization', visible(quantization)]);
  if (logical !== null) facts.push(...logicalInfo(logical));
  if (model.adapter !== null) facts.push(...adapterInfo(model.adapter));
  if (model.distribution !== undefined) facts.push(...distributionInfo(model.distribution));
  if (tensorCount > 0) facts.push(['dtypes', dtypesText(dtypes)]);
  const rows =
    tree === undefined ? tensorLines(model, style, width) : treeLines(tree, style, width);
  return [
    style.bold(visible(title, SHOWN_NAME_LENGTH)),
    ...infoLines(facts, style.dim),
    ...warnings.map((text) => style.warning(`warning: ${visible(text, SHOWN_NAME_LENGTH)}`)),
    ...(metadata === null ? [] : metadataLines(metadata, style, width)),
    // A tree doesn't name files, and a large model's list of files would push it down.
    ...(tree === undefined ? numberedFiles(model, style, width) : []),
    // The first row holds the titles.
    ...(rows.length === 1 ? [] : ['', ...rows]),
    ...(tree === undefined || model.tree !== undefined
      ? []
      : [style.dim(`--all lists the ${formatInteger(tensors.length)} tensors one by one`)]),
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
      infoLines(facts, (text) => text),
      width,
    ),
    ...(more === 0 ? [] : [`${INDENT}and ${more} more`]),
  ];
}

/**
 * The lines of a result.
 *
 * @param isList whether to list all tensors, however many there are
 */
export function inspectLines(
  result: InspectResult,
  isList: boolean,
  style: Style,
  width: number | null,
): readonly string[] {
  if (!('components' in result)) return modelLines(result.source, result, isList, style, width);
  const { source, format, kind, byteLength, parameters, missing, failed, components } = result;
  const entries = Object.entries(components);
  const isPipeline = format === 'diffusers';
  const count = plural(entries.length, isPipeline ? 'model' : 'file');
  const facts = [
    ...(isPipeline ? [] : [['kind', kind] as const]),
    ['format', `${format}, ${count}, ${formatBytes(byteLength)}`] as const,
    ['parameters', formatCount(parameters)] as const,
  ];
  return [
    style.bold(visible(source, SHOWN_NAME_LENGTH)),
    ...infoLines(facts, style.dim),
    ...missing.map((name) => {
      const folder = visible(name, SHOWN_NAME_LENGTH);
      return style.warning(
        `warning: model_index.json names the folder ${folder}, which is missing`,
      );
    }),
    ...entries.flatMap(([name, model]) => ['', ...modelLines(name, model, isList, style, width)]),
    ...Object.entries(failed).flatMap(([name, { code, message }]) => [
      '',
      style.bold(visible(name, SHOWN_NAME_LENGTH)),
      `${style.error(code)}: ${visible(message, SHOWN_MESSAGE_LENGTH)}`,
    ]),
  ];
}
