/** Replaces answers of the system to calls of `node:fs`, in this process. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { constants } from 'node:os';
import { onTestFinished } from 'vitest';

export type Call = (...args: never[]) => unknown;

const functions = fs as unknown as Record<string, Call>;

/** Until the end of the test, calls `instead` in the place of a function of `node:fs`; that gets the function, too. */
export function intercept(name: string, instead: (own: Call, args: never[]) => unknown): void {
  const own = functions[name] as Call;
  const call: Call = (...args) => instead(own, args);
  // The function's own properties tell promisify what to do.
  functions[name] = Object.defineProperties(call, Object.getOwnPropertyDescriptors(own));
  syncBuiltinESMExports();
  onTestFinished(() => {
    functions[name] = own;
    syncBuiltinESMExports();
  });
}

/** An error as that of Node for a call of the system. */
export function systemError(code: keyof typeof constants.errno): Error {
  return Object.assign(new Error(`${code}: as if`), {
    code,
    errno: -constants.errno[code],
    syscall: 'call',
  });
}
