/** The option that limits a command to some tensors, and the message when no tensor is left. */

import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { type CommandOptions, type OptionValues, optionValues } from './command.js';

export const FILTER: CommandOptions = {
  filter: {
    type: 'string',
    multiple: true,
    value: 'GLOB',
    help: "only tensors with matching names, such as '*.mlp.*'; repeatable",
  },
};

/** The options that choose tensors, as on the command line: `--filter a* --exclude *.bias`. */
function choiceText(options: OptionValues): string {
  return ['filter', 'exclude']
    .flatMap((name) => optionValues(options, name).map((glob) => `--${name} ${glob}`))
    .map((text) => visible(text, SHOWN_NAME_LENGTH))
    .join(' ');
}

/** The message when `--filter` and `--exclude` leave no tensor. */
export function nothingChosen(options: OptionValues): string {
  const hasExclude = optionValues(options, 'exclude').length > 0;
  return hasExclude
    ? `${choiceText(options)} leaves no tensor`
    : `no name matches ${choiceText(options)}`;
}
