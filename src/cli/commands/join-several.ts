/** `join` of several sources: all their tensors in one file, or in one folder. */

import { DUPLICATE_RULES } from '../../write/convert/duplicate-rules.js';
import { chosenAt } from '../sources/chosen-source.js';
import {
  type CommandContext,
  type CommandOptions,
  type OptionValues,
  requireChoice,
  UsageError,
} from './command.js';
import { repositoryChoice } from './repository-options.js';
import { write } from './written.js';

/** The option for names that several sources have. */
export const DUPLICATES: CommandOptions = {
  duplicates: {
    type: 'string',
    value: 'RULE',
    choices: DUPLICATE_RULES,
    help: 'of a name in several sources: refuse (the default), or take the first or the last',
  },
};

/** Options of one source, which the writer has and this has not. */
const OF_ONE = ['dtype', 'dequantize', 'copy-other-files'];

/** Joins local sources of any format; throws a UsageError for options of one source. */
export async function joinSeveral(
  context: CommandContext,
  sources: readonly string[],
  target: string,
  options: OptionValues,
): Promise<void> {
  const given = OF_ONE.find((name) => options[name] !== undefined);
  if (given !== undefined)
    throw new UsageError(`--${given} is for one source: convert each before`);
  const duplicates = requireChoice(
    'duplicates',
    options['duplicates'] ?? 'refuse',
    DUPLICATE_RULES,
  );
  const { joinSources } = await import('../../write/convert/join.js');
  const choice = repositoryChoice(options);
  const chosen = await Promise.all(
    sources.map((source) => chosenAt(source, choice, context.signal)),
  );
  const paths = chosen.map(({ path }) => path);
  // A file has the name that was given.
  const naming = target.endsWith('.safetensors') ? {} : chosen[0]?.naming;
  const labels = { source: sources.join(' '), target, label: 'writing' };
  await write(context, options, labels, ({ dtype: _, dequantize: __, ...selected }) =>
    joinSources(paths, target, { duplicates, ...naming, ...selected }),
  );
}
