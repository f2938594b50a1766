/**
 * Random checkpoints with digests of random files, and random damage: every report lists what was compared, exactly.
 */

import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { expect, it } from 'vitest';
import { call } from '../cli/call.js';
import { storedArchive } from '../foreign/stored-archive.js';
import {
  openPipeline,
  openRemote,
  safeOpen,
  type VerificationReport,
  verify,
} from '../support/api.js';
import { writeBelow } from '../support/make-checkpoint.js';
import { type Entry, fileBytes, temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const CASES = 24;

const SUMS = 'safetensors-mmap.sha256';

/** Ways to declare digests; `null` declares none. */
const DIGESTS = ['sums', 'modelspec', 'sshs', 'both', 'malformed', 'short', null, null] as const;

interface RandomFile {
  readonly bytes: Buffer;
  readonly tensors: number;
  readonly digests: (typeof DIGESTS)[number];
  /** Names of tensors of which a byte was changed. */
  readonly damaged: readonly string[];
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const endOf = (entries: readonly Entry[]): number =>
  entries.reduce((sum, { bytes }) => sum + (bytes as Uint8Array).length, 0);

/** `prefix` makes names unique. */
function randomFile(random: Random, prefix: string): RandomFile {
  const entries = Array.from({ length: random.from(1, 5) }, (_, i): Entry => {
    const length = random.chance(0.1) ? 0 : random.from(1, 90);
    const bytes = random.bytes(length);
    return { name: `${prefix}${i}`, dtype: 'U8', shape: [length], bytes };
  });
  const data = Buffer.concat(entries.map(({ bytes }) => bytes as Uint8Array));
  const sums = entries.map(({ bytes }) => sha256(bytes as Uint8Array)).join('');
  const digests = random.pick(DIGESTS);
  const all = { 'modelspec.hash_sha256': `0x${sha256(data)}` };
  const metadata = {
    sums: { [SUMS]: sums },
    modelspec: all,
    sshs: { sshs_model_hash: sha256(data) },
    both: { [SUMS]: sums, ...all },
    malformed: { [SUMS]: sums.slice(random.from(1, 64)) },
    // Too short for a SHA-256: trainers hash other bytes.
    short: { sshs_model_hash: 'c0ffee42' },
  };
  const options = digests === null ? {} : { metadata: metadata[digests] };
  const bytes = Buffer.from(fileBytes(entries, options));
  const damaged = new Set<string>();
  const flips = random.chance(0.5) && data.length > 0 ? random.from(1, 3) : 0;
  for (let flip = 0; flip < flips; flip++) {
    const at = random.below(data.length);
    const position = bytes.length - data.length + at;
    const entry = entries.find((_, i) => at < endOf(entries.slice(0, i + 1)));
    // Three increments never restore a byte.
    bytes[position] = ((bytes[position] as number) + 1) & 255;
    damaged.add(entry?.name as string);
  }
  return { bytes, tensors: entries.length, digests, damaged: [...damaged] };
}

/** The problems that must be reported, and no others. */
function problemsOf(name: string, { digests, damaged }: RandomFile): string[] {
  const ofTensors = damaged.map((tensor) => `${name} ${tensor} SAFETENSORS_CHECKSUM_MISMATCH`);
  const ofFile = damaged.length > 0 ? [`${name} null SAFETENSORS_VERIFICATION_FAILED`] : [];
  if (digests === 'sums') return ofTensors;
  if (digests === 'both') return [...ofTensors, ...ofFile];
  if (digests === 'malformed') return [`${name} null SAFETENSORS_CHECKSUM_MISMATCH`];
  return digests === 'modelspec' || digests === 'sshs' ? ofFile : [];
}

function expectedFile(file: string, { digests, tensors }: RandomFile): object {
  const isCompared = digests !== null && digests !== 'malformed' && digests !== 'short';
  const reason = digests === 'malformed' ? 'invalid-digests' : 'no-digests';
  return {
    ...{ file, tensors, comparedTensors: isCompared ? tensors : 0, notCompared: [] },
    ...{ checks: isCompared ? ['digests'] : [], reason: isCompared ? null : reason },
  };
}

type Files = ReadonlyMap<string, RandomFile>;

/** Expects a report of exactly these files. */
function expectReport(report: VerificationReport, files: Files, structure: readonly string[]) {
  const problems = [...files].flatMap(([name, file]) => problemsOf(name, file));
  const found = report.problems.map(({ file, tensor, code }) => `${file} ${tensor} ${code}`);
  expect(found.toSorted()).toEqual(problems.toSorted());
  expect(report.ok).toBe(problems.length === 0);
  expect(report.files).toEqual(Array.from(files, ([name, file]) => expectedFile(name, file)));
  const isCompared = report.files.some(({ checks }) => checks.length > 0);
  expect(report.checks).toEqual(isCompared ? [...structure, 'digests'] : structure);
}

function expectText(text: string, report: VerificationReport): void {
  const lines = text.trimEnd().split('\n');
  const summary = lines.pop();
  const { files } = report;
  const count = files.filter(({ checks }) => checks.length > 0).length;
  const of = `${files.length} ${files.length === 1 ? 'file' : 'files'}`;
  const reasons = new Set(files.map(({ reason }) => reason));
  if (count > 0) expect(summary).toMatch(new RegExp(`, digests \\(${count} of ${of}\\)$`));
  else expect(summary?.replace(/; data .*/, '')).not.toContain('digests');
  const isCommon = count === 0 && reasons.size === 1;
  expect(summary?.includes('; data not verified: ')).toBe(isCommon);
  if (isCommon && reasons.has('no-digests')) {
    expect(summary).toMatch(/; data not verified: no digests \(add them with `hash --write`\)$/);
  }
  const listed = lines.filter((line) => line.includes(': data not verified: '));
  const unverified = isCommon ? [] : files.filter(({ reason }) => reason !== null);
  expect(listed.map((line) => line.replace(/: data not.*/, ''))).toEqual(
    unverified.map(({ file }) => file),
  );
}

/** The report of the command, which must have the exit code of its problems. */
async function commandReport(source: string): Promise<VerificationReport> {
  const { code, stdout } = await call(['verify', source, '--json']);
  const { source: _, ...report } = JSON.parse(stdout);
  expect(code).toBe(report.ok ? 0 : 1);
  return report;
}

/** A folder with one file, or with an index and its shards. */
function writeModel(random: Random, folder: string, prefix: string): [string, Files] {
  const count = random.from(0, 4);
  const names =
    count === 0
      ? ['model.safetensors']
      : Array.from({ length: count }, (_, i) => `model-0000${i + 1}-of-0000${count}.safetensors`);
  const files = new Map(names.map((name, i) => [name, randomFile(random, `${prefix}${i}.`)]));
  for (const [name, { bytes }] of files) writeBelow(folder, name, bytes);
  if (count === 0) return [folder, files];
  const map = [...files].flatMap(([name, { tensors }], i) =>
    Array.from({ length: tensors }, (_, n) => [`${prefix}${i}.${n}`, name]),
  );
  const index = JSON.stringify({ weight_map: Object.fromEntries(map) });
  return [writeBelow(folder, 'model.safetensors.index.json', index), files];
}

it('a file or folder', async () => {
  for (let number = 0; number < CASES; number++) {
    const [path, files] = writeModel(
      new Random(SEED, number),
      temporaryPath(`model-${number}`),
      't',
    );
    const structure = path.endsWith('.json') ? ['headers', 'index'] : ['headers'];
    const report = await verify(path);
    expectReport(report, files, structure);
    expect(await commandReport(path)).toEqual(report);
    expectText((await call(['verify', path])).stdout, report);
    using checkpoint = safeOpen(path);
    expect(await checkpoint.verify()).toEqual(report);
    expect(await verify(checkpoint)).toEqual(report);
    const { checks } = await verify(path, { headersOnly: true });
    expect(checks).toEqual(structure);
  }
});

it('a pipeline, in a folder and in one file', async () => {
  for (let number = 0; number < CASES / 3; number++) {
    const random = new Random(SEED, CASES + number);
    const folder = temporaryPath(`pipeline-${number}`);
    const files = new Map<string, RandomFile>();
    const archived: Record<string, Uint8Array | string> = {
      'model_index.json': JSON.stringify({ unet: ['diffusers', 'A'], vae: ['diffusers', 'B'] }),
    };
    writeBelow(folder, 'model_index.json', archived['model_index.json'] as string);
    for (const model of ['unet', 'vae']) {
      const name = `${model}/diffusion_pytorch_model.safetensors`;
      const file = randomFile(random, 't');
      files.set(name, file);
      writeBelow(folder, name, file.bytes);
      archived[`${model}/config.json`] = '{}';
      archived[name] = file.bytes;
    }
    const report = await verify(folder);
    expectReport(report, files, ['headers']);
    expect(await commandReport(folder)).toEqual(report);
    using pipeline = await openPipeline(folder);
    expect(await pipeline.verify()).toEqual(report);
    const path = `${folder}.dduf`;
    writeFileSync(path, storedArchive(archived));
    // The damage is older than the archive, whose checksums cover every byte of it.
    const whole = await verify(path);
    expect(whole.problems).toEqual(report.problems);
    expect(whole.files).toEqual(
      report.files.map(({ file, tensors, checks }) => {
        const compared = { tensors, comparedTensors: tensors, reason: null, notCompared: [] };
        return { file, ...compared, checks: [...checks, 'checksums'] };
      }),
    );
    expect(await commandReport(path)).toEqual(whole);
    using dduf = await openPipeline(path);
    expect(await dduf.verify()).toEqual(whole);
  }
});

it('a remote source: no byte of a tensor is claimed to be verified', async () => {
  for (let number = 0; number < CASES / 6; number++) {
    const { bytes, tensors } = randomFile(new Random(SEED, 2 * CASES + number), 't');
    using remote = await openRemote(new Blob([bytes]));
    const { ok, checks, files } = await verify(remote);
    expect([ok, checks]).toEqual([true, ['headers']]);
    expect(files).toMatchObject([{ tensors, comparedTensors: 0, checks: [], reason: 'not-read' }]);
  }
});

it('a hash of a part of the file covers the tensors within it', async () => {
  const entries: readonly Entry[] = [
    { name: 'before', dtype: 'U8', shape: [2 ** 20] },
    { name: 'within', dtype: 'U8', shape: [1000] },
    { name: 'after', dtype: 'U8', shape: [2 ** 17] },
  ];
  const written = temporaryPath('legacy.safetensors');
  const save = (hash: string): void =>
    writeFileSync(written, fileBytes(entries, { metadata: { sshs_legacy_hash: hash } }));
  save('00000000');
  const wrong = await verify(written);
  const [, found = ''] = / found ([\da-f]{8})$/.exec(wrong.problems[0]?.message ?? '') ?? [];
  save(found);
  const report = await verify(written);
  expect(report).toMatchObject({
    ...{ ok: true, checks: ['headers', 'digests'] },
    files: [
      {
        ...{ tensors: 3, comparedTensors: 1, reason: 'partial-digests' },
        notCompared: ['before', 'after'],
      },
    ],
  });
  expect(await commandReport(written)).toEqual(report);
  expect((await call(['verify', written])).stdout).toContain(
    '2 of 3 tensors not verified: the digests cover a part of the file: before, after\n',
  );
});
