// Every durable operation while the power goes: after each change that it makes, in every state that the disk may
// then have, a reader finds the old file or the new one, and when the operation has ended, the new one.
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { diskOf, parseRecord, stateAfter, statesAfterLoss } from './disk.mjs';
import { buildHub, startHub } from './hub.mjs';
import { buildLibrary } from './interposer.mjs';
import { inLanes, temporaryFolder } from './lanes.mjs';
import { REPOSITORIES } from './material.mjs';
import { makeRandom } from './random.mjs';
import { readerOf } from './readers.mjs';
import { differences, putBack, stateOf } from './states.mjs';

const CHILD = fileURLToPath(new URL('children/run-once.mjs', import.meta.url));

/** Most problems that are printed of one operation. */
const SHOWN = 3;

/** Runs the operation once; returns the states before and after it, and the changes in between. */
async function record(operation, library, folder) {
  const root = join(folder, 'root');
  const file = join(folder, 'record');
  mkdirSync(root);
  writeFileSync(file, '');
  await operation.make(root);
  const before = stateOf(root);
  const numberOf = (path) => `${lstatSync(join(root, path)).ino}`;
  const disk = diskOf(before, numberOf);
  disk.contents.set(numberOf(''), null);
  const child = spawn(process.execPath, [CHILD, operation.name, root], {
    env: { ...process.env, LD_PRELOAD: library, RECORD_ROOT: root, RECORD_FILE: file },
    stdio: 'inherit',
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${operation.name} ended with ${code}`);
  const after = stateOf(root);
  return { root, disk, before, after, changes: parseRecord(readFileSync(file), root) };
}

async function loseIn(operation, library) {
  const folder = temporaryFolder();
  try {
    const { root, disk, before, after, changes } = await record(operation, library, folder);
    const random = makeRandom(operation);
    // The record must explain the whole folder, or states are missing.
    const whole = stateAfter(disk, changes);
    const texts = new Map();
    const read = readerOf(operation);
    const textOf = (state) => {
      const key = keyOf(state);
      if (!texts.has(key)) {
        putBack(root, state);
        texts.set(key, read(root));
      }
      return texts.get(key);
    };
    const [old, done] = [textOf(before), textOf(after)];
    const problems = differences(whole, after).map(
      (text) => `the record does not explain that ${text}`,
    );
    let tries = 0;
    for (let count = 0; count <= changes.length; count++) {
      for (const { state, how } of statesAfterLoss(disk, changes.slice(0, count), random)) {
        tries++;
        const found = textOf(state);
        const isRight = count === changes.length ? found === done : found === old || found === done;
        if (isRight) continue;
        const last = changes[count - 1];
        const what = found.length > 200 ? 'another content' : found;
        const at = count === changes.length ? 'at the end' : `after ${last?.kind} ${last?.path}`;
        problems.push(`${at} (change ${count} of ${changes.length}), kept: ${how}: found ${what}`);
      }
    }
    return { operation, changes: changes.length, tries, states: texts.size, problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Most states share the buffers of files that did not change. */
const digests = new WeakMap();

function digestOf(content) {
  let digest = digests.get(content);
  if (digest === undefined) {
    digest = hash('sha256', content);
    digests.set(content, digest);
  }
  return digest;
}

function keyOf(state) {
  const entries = [...state].map(([path, content]) =>
    Buffer.isBuffer(content) ? [path, 'bytes', digestOf(content)] : [path, content],
  );
  return JSON.stringify(entries);
}

/** Loses the power in every durable operation; returns the numbers of states and problems. */
export async function losePower(operations) {
  const library = buildLibrary('recorder');
  await buildHub();
  // Prepares folders; the operations have their own.
  const hub = await startHub(REPOSITORIES);
  const durable = operations.filter(({ isDurable }) => isDurable);
  const rows = await inLanes(durable, (operation) => loseIn(operation, library));
  await hub.close();
  console.log('| operation | changes | states tried | different ones |\n|---|---:|---:|---:|');
  for (const { operation, changes, tries, states } of rows) {
    console.log(`| ${operation.name} | ${changes} | ${tries} | ${states} |`);
  }
  for (const { operation, problems } of rows) {
    if (problems.length > 0) console.log(`\n${operation.name}: ${problems.length} problems`);
    for (const problem of problems.slice(0, SHOWN)) console.log(`  ${problem}`);
  }
  const tries = rows.reduce((sum, row) => sum + row.tries, 0);
  const problems = rows.reduce((sum, row) => sum + row.problems.length, 0);
  console.log(`\npower lost ${tries} times in ${rows.length} operations: ${problems} problems`);
  return { tries, problems };
}
