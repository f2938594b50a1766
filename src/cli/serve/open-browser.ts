/** Starts the browser of this machine. */

import { spawn } from 'node:child_process';
import process from 'node:process';

/** The program that opens an address, by platform. */
const OPENERS: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  darwin: ['open'],
  // `start` takes its first quoted argument for a title.
  win32: ['cmd', '/c', 'start', '""'],
};

/**
 * Opens an address in the browser. It has only characters that no shell changes. Resolves to the reason when no browser
 * could be started, to null otherwise; what the browser does is not awaited.
 */
export function openBrowser(address: string): Promise<string | null> {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  return new Promise((resolve) => {
    const child = spawn(program, [...args, address], {
      detached: true,
      stdio: 'ignore',
      windowsVerbatimArguments: true,
    });
    child.once('error', (error) => resolve(error.message));
    child.once('spawn', () => resolve(null));
    // `xdg-open` fails after its start, where there is no browser.
    child.unref();
  });
}
