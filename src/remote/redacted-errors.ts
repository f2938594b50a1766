/**
 * Removes secrets from errors; no other module does. A server can repeat a token anywhere: as the name of a tensor or
 * a shard, a dtype, an ETag, in a redirect.
 */

import { SafetensorsError } from '../errors/errors.js';
import type { Credentials } from './credentials.js';

/** Most causes of causes to clean: a chain can be circular. */
const MAX_CAUSE_DEPTH = 10;

/** Properties of our errors and the system's that may repeat a server's text. */
const REDACTED_TEXTS = ['path', 'dest', 'tensor', 'url'] as const;

type Texts = { -readonly [Key in (typeof REDACTED_TEXTS)[number]]?: unknown };

/** The properties of an error that are changed here. */
interface Changeable extends Texts {
  message: string;
  stack?: string | undefined;
  readonly cause?: unknown;
  readonly errors?: unknown;
  readonly syscall?: unknown;
}

/**
 * The error without secrets: the same object, to keep class and stack. Errors from the caller, such as the reason of
 * an abort, stay unchanged.
 */
export function redactError(error: unknown, credentials: Credentials): unknown {
  redact(error, credentials, 0);
  return error;
}

function redact(error: unknown, credentials: Credentials, depth: number): void {
  const given = Object(error) as Changeable;
  const { message } = given;
  if (depth === MAX_CAUSE_DEPTH || typeof message !== 'string') return;
  const isOfSystem = typeof given.syscall === 'string';
  if (depth === 0 && !(error instanceof SafetensorsError) && !isOfSystem) return;
  const shown = credentials.redact(message);
  if (shown !== message) {
    const { stack } = given;
    given.message = shown;
    // The stack begins with the message; the URLs of scripts after it must stay.
    if (typeof stack === 'string') given.stack = stack.replace(message, () => shown);
  }
  for (const name of REDACTED_TEXTS) {
    const text = given[name];
    if (typeof text === 'string') given[name] = credentials.redact(text);
  }
  redact(given.cause, credentials, depth + 1);
  if (!Array.isArray(given.errors)) return;
  for (const each of given.errors) redact(each, credentials, depth + 1);
}
