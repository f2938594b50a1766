/** The options of commands that take a folder, or a repository on the Hub or in its cache. */

import type { SourceChoice } from '../../index.js';
import type { CommandOptions, OptionValues } from './command.js';

export const REPOSITORY: CommandOptions = {
  variant: {
    type: 'string',
    value: 'NAME',
    help: 'the files of a variant, such as fp16, of a folder or repository',
  },
  revision: {
    type: 'string',
    value: 'NAME',
    help: 'a branch, tag or commit of a repository; also as hf://org/name@NAME',
  },
};

/** The values of these options, which the library checks. */
export function repositoryChoice({ variant, revision }: OptionValues): SourceChoice {
  return {
    ...(typeof variant === 'string' ? { variant } : {}),
    ...(typeof revision === 'string' ? { revision } : {}),
  };
}
