/** The fuzzer as a program; `scripts/fuzz.mjs` bundles and watches it. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { readOptions, refuse } from '../support/options.mjs';
import { Coverage } from './coverage.js';
import type { RunOptions, RunResult } from './engine.js';
import type { Target } from './target.js';

const USAGE = `npm run fuzz -- TARGET… | all [--seconds N] [--inputs N] [--seed S]
  --seconds N   for each target; 60 unless told
  --inputs N    for each target, besides those that are replayed; the seconds end it, too
  --seed S      repeats a run
  --input FILE  checks this one alone
  --not-run     names the functions of the target's code that no input reached
  --list        the targets
What is found is kept in .fuzz, until somebody removes it. Exit code 1: something was found; 2: wrong options.`;

const { values: options, positionals } = readOptions('fuzz', USAGE, {
  seconds: { type: 'string', number: 'any', default: '60' },
  inputs: { type: 'string', number: 'whole' },
  seed: { type: 'string', number: 'whole', default: String(Math.floor(Math.random() * 2 ** 31)) },
  input: { type: 'string' },
  'not-run': { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
});

/** Counts before the library is imported, so that it knows all functions. */
const root = pathToFileURL(join(process.env['SAFETENSORS_FUZZ_LIBRARY'] ?? '', '/')).href;
const coverage = new Coverage(root);

function line(text: string): void {
  process.stdout.write(`${text}\n`);
}

function percent(part: number, whole: number): string {
  return whole === 0 ? '–' : `${((100 * part) / whole).toFixed(1)} %`;
}

/** The frames of the target and of the library, without those of the fuzzer. */
function withoutHarness(stack: string): string {
  const own =
    /^ +at .*(?:fuzz\/(?:budget|engine|main|minimise|oracle)\.ts|<anonymous>|node:internal)/;
  return stack
    .split('\n')
    .filter((text) => !own.test(text))
    .join('\n');
}

function report(target: Target, result: RunResult, seconds: number): void {
  const { functions, functionsRun, characters, charactersRun, modules, notRun } = coverage.summary(
    target.sources,
  );
  const asked = result.asked > 0 ? `, ${result.asked} questions to Python` : '';
  line(
    `${target.name}: ${result.inputs} inputs${asked} in ${seconds.toFixed(1)} s, ${result.corpus} kept; ` +
      `${functionsRun} of ${functions} functions (${percent(charactersRun, characters)} of the code) of ${modules} modules; ` +
      `${result.finds.length} finds`,
  );
  const outcomes = [...result.outcomes].sort(([, a], [, b]) => b - a);
  line(`  ${outcomes.map(([what, times]) => `${what} ${times}`).join(', ')}`);
  if (options['not-run']) for (const about of notRun) line(`  not run: ${about}`);
  for (const { about, error, path } of result.finds) {
    line(`  FOUND (${about}): ${withoutHarness(error.stack ?? String(error))}`);
    if (path !== '') line(`  kept, made small: npm run fuzz -- ${target.name} --input ${path}`);
  }
}

async function main(): Promise<void> {
  const { TARGETS } = await import('./targets.js');
  const { Run } = await import('./engine.js');
  const { Oracle } = await import('./oracle.js');
  if (options.list) {
    for (const { name, about } of TARGETS) line(`${name.padEnd(12)} ${about}`);
    return;
  }
  const isAll = positionals.includes('all');
  const chosen = TARGETS.filter(({ name }) => isAll || positionals.includes(name));
  const unknown = positionals.filter(
    (name) => name !== 'all' && !chosen.some((t) => t.name === name),
  );
  if (unknown.length > 0) refuse('fuzz', `no target ${unknown.join()}; --list lists them`);
  if (chosen.length === 0) refuse('fuzz', `TARGET is missing\n${USAGE}`);
  const { input: path, seed, seconds, inputs = Number.POSITIVE_INFINITY } = options;
  if (path !== undefined && !existsSync(path)) refuse('fuzz', `there is no file ${path}`);
  const runOptions: RunOptions = { seed, seconds, inputs, isAlone: path !== undefined };
  line(`fuzz: --seed ${runOptions.seed}`);
  const folder = process.env['SAFETENSORS_FUZZ_FOLDER'] ?? '';
  const oracle = new Oracle(folder);
  if (oracle.missing !== undefined) line(`without Python: ${oracle.missing}`);
  try {
    for (const target of chosen) {
      const place = join(folder, target.name);
      mkdirSync(place);
      const seeds = path === undefined ? target.seeds() : [readFileSync(path)];
      const began = performance.now();
      const run = new Run({ ...target, seeds: () => seeds }, oracle, coverage, place);
      const result = await run.go(runOptions);
      report(target, result, (performance.now() - began) / 1000);
      if (result.finds.length > 0) process.exitCode = 1;
    }
  } finally {
    await oracle.close();
  }
}

await main();
