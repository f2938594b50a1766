/** Environment variables that are switches, read as the Hub's Python library reads them. */

import process from 'node:process';

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

const YES = /^(?:1|ON|YES|TRUE)$/i;

/** Whether the value of a variable switches it on. */
export function isOn(value: string | undefined): boolean {
  return YES.test(value ?? '');
}

/** The name of the variable that forbids requests to the Hub; undefined where they are allowed. */
export function offlineVariable(environment: Environment = process.env): string | undefined {
  return ['HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE'].find((name) => isOn(environment[name]));
}
