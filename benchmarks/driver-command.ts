import { join } from 'node:path';
import type { Driver } from './drivers.js';
import type { Equipment, Input, Selection } from './equipment.js';
import { NODE_CHILDREN, PYTHON_CHILDREN } from './places.js';
import type { Command } from './run-child.js';

/** Stands for the path of the addon where the children have to use the loop in JavaScript. */
const NO_ADDON = '-';

/** What a driver is run for. */
export interface Task {
  readonly selection: Selection;
  /** Whether it keeps everything in memory until its standard input ends. */
  readonly hold: boolean;
}

/** A driver that can run: its command and the files that it reads. */
export interface Runnable {
  readonly command: Command;
  readonly files: readonly string[];
}

function missingPackages(driver: Driver, { python, npmPackages }: Equipment): string | undefined {
  const there =
    driver.program === 'node' ? npmPackages : typeof python === 'string' ? {} : python.packages;
  const missing = driver.packages.filter((name) => !(name in there));
  if (missing.length === 0) return undefined;
  const where = driver.program === 'node' ? 'not installed, or did not build' : 'Python has no';
  return `${where}: ${missing.join(', ')}`;
}

function commandOf(
  driver: Driver,
  equipment: Equipment,
  input: Input,
  { selection, hold }: Task,
): Command | string {
  const { loop, python } = equipment;
  const compiled = typeof loop === 'string' ? undefined : loop;
  const ending = hold ? 'hold' : '-';
  const { index, begin, byteLength } = selection;
  const { script, method } = driver;
  switch (driver.program) {
    case 'native': {
      if (compiled === undefined) return 'needs a C compiler';
      const args = [method, input.path, String(begin), String(byteLength)];
      return { file: compiled.rawLimit, args: hold ? [...args, ending] : args };
    }
    case 'node': {
      const addon = compiled?.addon ?? NO_ADDON;
      const args = [join(NODE_CHILDREN, script), input.path, addon, String(index), ending, method];
      return { file: process.execPath, args };
    }
    case 'python': {
      if (typeof python === 'string') return python;
      if (compiled === undefined) return 'needs a C compiler';
      const program = join(PYTHON_CHILDREN, script);
      const args = [program, method, input.path, compiled.library, String(index), ending];
      return { file: python.file, args };
    }
  }
}

/** How to run the driver, or a text that says why it cannot run here. */
export function prepareDriver(driver: Driver, equipment: Equipment, task: Task): Runnable | string {
  if (driver.program === 'python' && typeof equipment.python === 'string') return equipment.python;
  const missing = missingPackages(driver, equipment);
  if (missing !== undefined) return missing;
  const input = equipment.inputs[driver.input];
  if (typeof input === 'string') return input;
  const command = commandOf(driver, equipment, input, task);
  return typeof command === 'string' ? command : { command, files: input.files };
}
