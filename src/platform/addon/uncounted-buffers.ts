/**
 * Decides whether V8 counts the buffers over a mapping. It treats counted buffers as memory to reclaim: 894
 * buffers of 134 MB, with two million live objects, then take 9 to 11 s and 53 to 69 full collections. Uncounted
 * they take 1.4 to 7 ms and no collection (docs/internals/performance.md).
 */

import { constants } from 'node:buffer';
import process from 'node:process';
import type { AddonExports } from './binding.js';
import { systemErrorCode } from './errno.js';

/** Whether V8 counts the buffers over a mapping as its own memory, with the reason. */
export type BufferCounting =
  | {
      /** Buffers cause no garbage collections. */
      readonly counted: false;
    }
  | {
      /** V8 may collect garbage because of them. */
      readonly counted: true;
      /** The reason, as in "because …". */
      readonly reason: string;
    };

/** The environment variable that makes V8 count buffers, with any non-empty value. */
const COUNTED_VARIABLE = 'SAFETENSORS_MMAP_COUNTED_BUFFERS';

/**
 * The versions on which uncounted buffers were tested: `process.versions.modules`, and the V8 of that Node. Add a
 * version of Node after the tests of such buffers passed on it, with the sanitizer.
 */
const TRIED: ReadonlyMap<string, string> = new Map([
  ['115', '11.3'],
  ['127', '12.4'],
  ['137', '13.6'],
  ['147', '14.6'],
]);

/** Settings of a build that change what V8 expects of us. */
const SETTINGS = ['node_shared', 'v8_enable_sandbox', 'v8_enable_pointer_compression', 'asan'];

/** The addon's answers when it refuses to make such buffers. */
const REJECTION_MESSAGES: Readonly<Record<string, string>> = {
  ENOSYS:
    "not counting them needs Linux on x64, GNU's C library and a runtime that exports certain functions of V8",
  EPROTO: 'the functions of V8 behave differently here',
  ENOMEM: 'there were too few addresses for a test',
};

/** Returns why this runtime must count buffers; undefined if it need not. */
function reasonToCount(): string | undefined {
  const { release, versions } = process;
  const { modules, v8 } = versions;
  const others = ['bun', 'deno', 'electron'].filter((name) => versions[name] !== undefined);
  if (release.name !== 'node' || others.length > 0) return 'this runtime is not Node';
  const triedV8 = TRIED.get(modules);
  if (triedV8 === undefined || !v8.startsWith(`${triedV8}.`)) {
    return `it was not tried with Node ${versions.node} and V8 ${v8}`;
  }
  const variables = process.config.variables as Readonly<Record<string, unknown>>;
  const setting = SETTINGS.find((name) => Number(variables[name]) !== 0);
  if (setting !== undefined) {
    return `this Node was built with ${setting} = ${String(variables[setting])}`;
  }
  if (process.env[COUNTED_VARIABLE]) return `the environment sets ${COUNTED_VARIABLE}`;
  return undefined;
}

/** Lets the addon make uncounted buffers, where that works. */
export function uncountBuffers(exports: AddonExports): BufferCounting {
  const reason = reasonToCount();
  if (reason !== undefined) return { counted: true, reason };
  const result = exports.uncountBuffers(constants.MAX_LENGTH);
  if (result === 0) return { counted: false };
  const code = systemErrorCode(result as number);
  return {
    counted: true,
    reason: REJECTION_MESSAGES[code] ?? `a test of them failed with ${code}`,
  };
}
