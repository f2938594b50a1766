/** `inspect`: the kind, totals, metadata and tensors of a file or checkpoint. */

import { namesTest } from '../sources/glob.js';
import { type Command, optionValues, printResult, requireChoice, UsageError } from './command.js';
import { FILTER, nothingChosen } from './filter-option.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { inspectLines } from './format-inspect.js';
import { inspectSource, isAnyTensor, ORDERS, type View } from './inspect-result.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

export const inspectCommand: Command = {
  summary: 'Show totals, dtypes, metadata and tensors',
  usage: 'inspect SOURCE [--all | --tree] [--filter GLOB] [--sort offset|name|size] [--root KEYS]',
  description:
    'Show totals, parameters, dtypes, files, metadata and tensors of a file or checkpoint. Reads only headers. More ' +
    'than 200 tensors are shown as a tree, unless --all or --sort requests the list. Also lists PyTorch and ' +
    'NumPy files, the models of a Diffusers pipeline, parts of distributed checkpoints, and deltas. Exit code 1 if ' +
    'no name matches --filter, or a model of a pipeline cannot be read.',
  example: 'inspect hf://org/name --tree',
  options: {
    all: { type: 'boolean', help: 'all tensors as a list, also more than 200' },
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
    const { all, tree, sort = 'offset' } = options;
    if (all === true && tree === true) {
      throw new UsageError('--all lists tensors, and cannot be combined with --tree');
    }
    const isList = all === true || options['sort'] !== undefined;
    const view: View = {
      isTree: tree === true,
      filter: namesTest(optionValues(options, 'filter')),
      order: requireChoice('sort', sort, ORDERS),
    };
    const choices = { foreign: foreignChoices(options), choice: repositoryChoice(options) };
    const result = await inspectSource(source, view, choices, context.signal);
    const isNone = view.filter !== undefined && !isAnyTensor(result);
    printResult(context, options, result, (printed, style, width) => [
      ...inspectLines(printed, isList, style, width),
      ...(isNone ? ['', style.warning(nothingChosen(options))] : []),
    ]);
    const isPart = 'failed' in result && Object.keys(result.failed).length > 0;
    return isNone || isPart ? 'no' : 'done';
  },
};
