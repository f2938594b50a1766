// Opens the first file of a process: a checkpoint by its path, else a safetensors file. Prints as JSON which
// functions at the top of the bundle were called though V8 had not compiled them at import, and which it had
// compiled though they were not called.
import { readFileSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [, , checkpoint] = process.argv;
const name = checkpoint === undefined ? 'index' : 'convert';
const bundle = new URL(`../../../lib/${name}.js`, import.meta.url);
const { safeOpen, serialize, openTorchCheckpoint } = await import(bundle.href);
const path = checkpoint ?? join(tmpdir(), 'first.safetensors');
if (checkpoint === undefined) {
  const tensors = { t: { dtype: 'F32', shape: [2], data: new Float32Array(2) } };
  writeFileSync(path, serialize(tensors, { metadata: { format: 'pt' } }));
}
const open = openTorchCheckpoint ?? safeOpen;

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
const file = open(path);
const { result } = await session.post('Profiler.takePreciseCoverage');
file.close();

const text = readFileSync(fileURLToPath(bundle), 'utf8');
const eager = new Set(Array.from(text.matchAll(/^const \S+ = \((?=function)/gm), endOf));
const late = new Set(Array.from(text.matchAll(/^(?=function)/gm), endOf));
function endOf(match) {
  return match.index + match[0].length;
}

const { functions } = result.find(({ url }) => url === bundle.href);
const called = functions.filter(({ ranges: [whole] }) => whole.count > 0);
const places = new Set(called.map(({ ranges: [whole] }) => whole.startOffset));
const nameAt = (place) => /^function\*? ([\w$]+)/.exec(text.slice(place))[1];
const uncompiled = [...late].filter((place) => places.has(place)).map(nameAt);
const uncalled = [...eager].filter((place) => !places.has(place)).map(nameAt);
console.log(JSON.stringify({ eager: eager.size, uncompiled, uncalled }));
