/** `diff`: the differences of two files or checkpoints. */

import { namesTest } from '../sources/glob.js';
import { type OpenedSource, openSource } from '../sources/open-source.js';
import { type Command, optionValues, printResult, requireChoice, UsageError } from './command.js';
import { compareOpened, type DiffResult, inOrder, layersOf, ORDERS } from './diff-result.js';
import { FILTER, nothingChosen } from './filter-option.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { diffLines } from './format-diff.js';
import { RAW } from './raw.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import { requireCommonBase, sinceBase } from './since-base.js';

export const diffCommand: Command = {
  summary: 'Compare two files or checkpoints',
  usage: 'diff A B [--values [--raw] | --quick] [--filter GLOB] [--tree | --base C]',
  description:
    'List tensors that only one checkpoint has, or that differ in dtype, shape or bytes. How tensors are split into ' +
    'files does not matter. Diffusers pipelines are compared model by model. With --base, also show which of them ' +
    'changed a tensor of their common base. Exit code 1 if there is a difference.',
  example: 'diff old.safetensors new.safetensors --values',
  options: {
    values: {
      type: 'boolean',
      help: 'compare values: number of differences, greatest and relative error, cosine similarity',
    },
    quick: {
      type: 'boolean',
      help: 'compare only names, dtypes and shapes, without reading tensors',
    },
    ...FILTER,
    sort: {
      type: 'string',
      value: 'ORDER',
      choices: ORDERS,
      help: 'offset (the default), name, or relative: the greatest relative error first, with --values',
    },
    tree: {
      type: 'boolean',
      help: 'count the differences of each layer, instead of listing tensors',
    },
    base: {
      type: 'string',
      value: 'SOURCE',
      help: 'the checkpoint that both come from; with --values, show how far each is from it, and the cosine similarity of the two changes',
    },
    ...RAW,
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [2, 2],
  async run(context, [a = '', b = ''], options) {
    const { signal } = context;
    const isQuick = options['quick'] === true;
    const hasValues = options['values'] === true;
    const isRaw = options['raw'] === true;
    if (isQuick && hasValues) {
      throw new UsageError('--quick cannot be combined with --values, which reads the tensors');
    }
    const order = requireChoice('sort', options['sort'] ?? 'offset', ORDERS);
    if (order === 'relative' && !hasValues) {
      throw new UsageError('--sort relative needs --values, which measures the error');
    }
    const base = typeof options['base'] === 'string' ? options['base'] : undefined;
    const isTree = options['tree'] === true;
    if (isTree && base !== undefined) {
      throw new UsageError('--tree cannot be combined with --base, which lists tensors');
    }
    const names = namesTest(optionValues(options, 'filter'));
    const foreign = foreignChoices(options);
    const opening = { signal, foreign, choice: repositoryChoice(options) };
    const opened: OpenedSource[] = [];
    try {
      for (const source of base === undefined ? [a, b] : [a, b, base]) {
        opened.push(await openSource(source, opening));
      }
      const [first, second, third] = opened as [OpenedSource, OpenedSource, OpenedSource?];
      const comparison = { isQuick, hasValues, isRaw, names };
      if (base !== undefined && third !== undefined) {
        await requireCommonBase(base, [third, first, second], comparison, signal);
      }
      const compared = await compareOpened([first, second], comparison, context);
      const found =
        base === undefined || third === undefined
          ? compared
          : await sinceBase(compared, base, [third, first, second], comparison, context);
      const same = found.added.length + found.removed.length + found.changed.length === 0;
      const changed = inOrder(found.changed, order);
      const layers = isTree ? { layers: layersOf(found) } : {};
      const full: DiffResult = { a, b, same, ...found, changed, ...layers };
      const isNone = names !== undefined && same && full.unchanged === 0;
      printResult(context, options, full, (result, style, width) =>
        isNone ? [style.warning(nothingChosen(options))] : diffLines(result, isQuick, style, width),
      );
      return same && !isNone ? 'done' : 'no';
    } finally {
      for (const one of opened) one.close();
    }
  },
};
