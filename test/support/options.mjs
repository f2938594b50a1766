/** The options of the harnesses: `--help`, and a one-line error with exit code 2. */
import process from 'node:process';
import { parseArgs } from 'node:util';

/** Prints an error of the command line, and ends the process. */
export function refuse(program, text) {
  console.error(`${program}: ${text}`);
  process.exit(2);
}

function numberOf(program, name, { number, least = 0 }, text) {
  const value = Number(text);
  const isNumber = text.trim() !== '' && value >= least && value < Number.POSITIVE_INFINITY;
  if (isNumber && (number !== 'whole' || Number.isSafeInteger(value))) return value;
  const expected = `a ${number === 'whole' ? 'whole ' : ''}number of ${least} or more`;
  return refuse(program, `--${name} must be ${expected}, but is "${text}"`);
}

/**
 * Reads the command line by the options of `parseArgs`. Options with a `number`, `whole` or `any`, become one, of
 * `least` or more. `--help` prints the usage.
 */
export function readOptions(program, usage, options) {
  const help = { type: 'boolean', short: 'h' };
  let read;
  try {
    read = parseArgs({ allowPositionals: true, options: { ...options, help } });
  } catch (error) {
    refuse(program, `${error.message.split(/[.\n]/, 1)[0]}; --help lists the options`);
  }
  const { values, positionals } = read;
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  for (const [name, option] of Object.entries(options)) {
    const text = values[name];
    if (option.number !== undefined && text !== undefined) {
      values[name] = numberOf(program, name, option, text);
    }
  }
  return { values, positionals };
}
