import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from '../../cli/call.js';
import { download, safeOpen, type VerificationReport, verify } from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { HubServer, TOKEN } from '../../support/hub-server.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import {
  copyOfRepository,
  DAMAGED_COPIES,
  damage,
  type Operation,
  REPOSITORY_FILES,
} from './damaged-copies.js';

const CHANGED = 'SAFETENSORS_CHECKSUM_MISMATCH';
const NOTHING = 'SAFETENSORS_VERIFICATION_FAILED';
const FIRST = 'model-00001-of-00002.safetensors';
const SECOND = 'model-00002-of-00002.safetensors';
const NAMED = 'sub/deep/x y \u00e9.txt';
/** Of the files of the repository, those that a copy needs. */
const NEEDED = ['config.json', FIRST, SECOND, 'model.safetensors.index.json'];

let hub: HubServer;

beforeAll(async () => {
  const single = {
    'model.safetensors': fileBytes([{ name: 'w', dtype: 'U8', shape: [4] }]),
    'config.json': '{"new": true}',
  };
  const older = { ...single, 'config.json': '{}' };
  hub = await HubServer.start({
    'org/ver': { files: REPOSITORY_FILES },
    'org/other': { files: { 'weights.safetensors': single['model.safetensors'] } },
    'org/moved': { files: single, revisions: { older } },
    'org/private': { files: single, access: 'private' },
    'datasets/org/set': { files: { 'data/a.csv': 'a,b\n' } },
  });
});
afterAll(() => hub.close());
beforeEach(() => {
  useHub(hub.url);
  hub.requests.length = 0;
  hub.entriesPerPage = 1000;
});
afterEach(() => {
  vi.unstubAllEnvs();
});

async function against(
  source: string,
  address = 'hf://org/ver',
): Promise<VerificationReport & Required<Pick<VerificationReport, 'hub'>>> {
  const { hub: comparison, ...report } = await verify(source, { against: address });
  if (comparison === undefined) throw new Error('expected a comparison');
  return { ...report, hub: comparison };
}

/** The problems of a report, as file and code. */
function problemsOf({ problems }: VerificationReport): string[][] {
  return problems.map(({ file, code }) => [file, code]);
}

/** The verdicts of the specification's table: problems, and a part of the hint. */
const VERDICTS: Readonly<Record<string, readonly [problems: string[][], hint?: RegExp]>> = {
  untouched: [[]],
  'weights-last-byte': [[[SECOND, CHANGED]]],
  'readme-crlf': [[['README.md', CHANGED]], /LF in place of CRLF \(git autocrlf\)/],
  'config-bom': [[['config.json', CHANGED]], /byte order mark/],
  'weights-truncated': [[[FIRST, CHANGED]]],
  'weights-empty': [[[FIRST, CHANGED]]],
  'config-missing': [[['config.json', 'ENOENT']]],
  'extra-file': [[]],
  'git-folder': [[]],
  'hf-cache-folder': [[]],
  'nfd-name': [[]],
  'dangling-link': [[['config.json', 'ENOENT']], /dangling link to nowhere/],
  exchanged: [
    [
      [FIRST, CHANGED],
      [SECOND, CHANGED],
    ],
    /exchanged with/,
  ],
  'empty-folder': [[['', NOTHING], ...NEEDED.map((name) => [name, 'ENOENT'])]],
  'empty-file-filled': [[['empty.txt', CHANGED]]],
  'trailing-newline-lost': [[['config.json', CHANGED]]],
};

describe.each(DAMAGED_COPIES)('of the table: $name', ({ name, ops, python }) => {
  it('has the verdict of the specification, and lists the files that Python lists', async () => {
    const folder = copyOfRepository();
    damage(folder, ops);
    const report = await against(folder);
    const [problems, hint] = VERDICTS[name] ?? [];
    expect(problemsOf(report)).toEqual(problems);
    expect(report).toMatchObject({ ok: problems?.length === 0, checks: ['hub'], files: [] });
    for (const { message } of hint === undefined ? [] : report.problems)
      expect(message).toMatch(hint as RegExp);
    const { checked, changed, missing, extra, renamed } = report.hub;
    const isRenamed = name === 'nfd-name';
    expect(checked).toBe(isRenamed ? 9 : python.checked);
    expect(changed.map(({ file }) => file)).toEqual(python.mismatches.map(({ path }) => path));
    for (const [i, { algorithm, expected, found }] of changed.entries()) {
      const { actual, ...theirs } = python.mismatches[i] as (typeof python.mismatches)[number];
      expect({ algorithm, expected }).toMatchObject({
        algorithm: theirs.algorithm,
        expected: theirs.expected,
      });
      expect([actual, null]).toContain(found);
    }
    expect(missing.map(({ file }) => file).sort()).toEqual(isRenamed ? [] : python.missing);
    const ofTools = /^\.(?:git|locks|cache\/huggingface)\//;
    const theirs = python.extra.filter((path) => !ofTools.test(path));
    expect(extra).toEqual(isRenamed ? [] : theirs);
    expect(renamed).toEqual(isRenamed ? [{ file: NAMED, found: NAMED.normalize('NFD') }] : []);
  });
});

describe('the other rows of the table', () => {
  it('a wrong length is no hash; a Git LFS pointer is recognised', async () => {
    const folder = copyOfRepository();
    const oid = createHash('sha256')
      .update(REPOSITORY_FILES[FIRST] as Uint8Array)
      .digest('hex');
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize 480\n`;
    writeFileSync(join(folder, FIRST), pointer);
    const { hub: found, problems } = await against(folder);
    expect(found.changed).toMatchObject([{ file: FIRST, found: null, expectedByteLength: 480 }]);
    expect(problems[0]?.message).toContain('`git lfs pull`');
    writeFileSync(join(folder, FIRST), pointer.replace(oid, '0'.repeat(64)));
    expect((await against(folder)).problems[0]?.message).toContain('pointer to another file');
  });

  it('a missing shard is a problem, another missing file a warning', async () => {
    const folder = copyOfRepository();
    for (const name of [SECOND, 'README.md', 'sub/tokenizer.json']) rmSync(join(folder, name));
    const report = await against(folder);
    expect(problemsOf(report)).toEqual([[SECOND, 'ENOENT']]);
    expect(report.hub.missing.filter(({ required }) => !required)).toEqual([
      { file: 'README.md', required: false, hint: null },
      { file: 'sub/tokenizer.json', required: false, hint: null },
    ]);
  });

  it('all weights of a pipeline are needed, also those of a missing folder; other folders are not', async () => {
    const weights = fileBytes([{ name: 'w', dtype: 'U8', shape: [4] }]);
    const pipeline = { unet: ['diffusers', 'UNet'], vae: ['diffusers', 'VAE'] };
    const files = {
      'model_index.json': JSON.stringify({ _class_name: 'Pipeline', ...pipeline }),
      'unet/config.json': '{}',
      'unet/diffusion_pytorch_model.safetensors': weights,
      'vae/config.json': '{}',
      'vae/diffusion_pytorch_model.safetensors': weights,
      'onnx/model.safetensors': weights,
    };
    hub.put('org/pipeline', { files });
    const folder = temporaryPath('pipeline');
    for (const name of ['model_index.json', 'unet/config.json'] as const) {
      writeBelow(folder, name, files[name]);
    }
    expect(problemsOf(await against(folder, 'hf://org/pipeline'))).toEqual(
      Object.keys(files)
        .filter((name) => /^(?:unet.*safetensors|vae)/.test(name))
        .map((name) => [name, 'ENOENT']),
    );
  });

  it('a name in another case is missing, with the near name; a folder at its place, too', async () => {
    const folder = copyOfRepository();
    renameSync(join(folder, 'config.json'), join(folder, 'Config.json'));
    rmSync(join(folder, 'README.md'));
    mkdirSync(join(folder, 'README.md'));
    const { hub: found, problems } = await against(folder);
    expect(problems).toMatchObject([{ file: 'config.json', code: 'ENOENT' }]);
    expect(problems[0]?.message).toContain('Config.json');
    expect(found.missing[0]).toEqual({
      ...{ file: 'README.md', required: false, hint: 'a folder is at its place' },
    });
    expect(found.extra).toEqual(['Config.json']);
  });

  it('a link to a right file elsewhere is right, so is one to a folder', async () => {
    const folder = copyOfRepository();
    const elsewhere = copyOfRepository('elsewhere');
    rmSync(join(folder, FIRST));
    symlinkSync(join(elsewhere, FIRST), join(folder, FIRST));
    rmSync(join(folder, 'sub'), { recursive: true });
    symlinkSync(join(elsewhere, 'sub'), join(folder, 'sub'));
    const { ok, hub: found } = await against(folder);
    expect([ok, found.checked, found.extra]).toEqual([true, 9, []]);
  });

  it('files of git, hf and this package are not extra, except below other folders', async () => {
    const folder = copyOfRepository();
    const digits = '0'.repeat(16);
    for (const name of [
      ...['.git/config', '.locks/a/b.lock', '.cache/huggingface/trees/main.json'],
      ...['.safetensors-mmap-repository.json', `.safetensors-mmap-${digits}-${digits}.incomplete`],
      ...['sub/.git/config', '.cache/other', '.safetensors-mmap-notes.txt'],
    ]) {
      writeBelow(folder, name, '{}');
    }
    const { ok, hub: found } = await against(folder);
    expect(ok).toBe(true);
    expect(found.extra).toEqual(['.cache/other', '.safetensors-mmap-notes.txt', 'sub/.git/config']);
  });

  it('a wrong repository fails: nothing was compared', async () => {
    const report = await against(copyOfRepository(), 'hf://org/other');
    expect(problemsOf(report)[0]).toEqual(['', NOTHING]);
    expect(report.hub.checked).toBe(0);
  });

  it.skipIf(process.getuid?.() === 0)('an unreadable file is named, and ends nothing', async () => {
    const folder = copyOfRepository();
    chmodSync(join(folder, 'config.json'), 0);
    damage(folder, [['flip', SECOND, -1]]);
    expect(problemsOf(await against(folder))).toEqual([
      ['config.json', 'EACCES'],
      [SECOND, CHANGED],
    ]);
  });

  it.skipIf(process.getuid?.() === 0)(
    'an unreadable folder is named, if files are in it',
    async () => {
      const folder = copyOfRepository();
      mkdirSync(join(folder, 'lost+found'), 0);
      expect((await against(folder)).ok).toBe(true);
      chmodSync(join(folder, 'sub'), 0);
      const report = await against(folder);
      chmodSync(join(folder, 'sub'), 0o700);
      expect(new Set(report.problems.map(({ code }) => code))).toEqual(new Set(['EACCES']));
      expect(report.problems.every(({ file }) => file.startsWith('sub/'))).toBe(true);
    },
  );

  it('an unknown revision, repository or folder is an error', async () => {
    const folder = copyOfRepository();
    for (const [address, code] of [
      ['hf://org/ver@nothing', 'SAFETENSORS_REVISION_NOT_FOUND'],
      ['hf://org/nothing', 'SAFETENSORS_REPOSITORY_NOT_FOUND'],
      ['hf://org/ver/nothing', 'SAFETENSORS_REMOTE_NOT_FOUND'],
    ]) {
      await expect(against(folder, address)).rejects.toMatchObject({ code });
    }
    await expect(against(join(folder, 'nothing'))).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(against('org/not-cached')).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('hf download --local-dir of an older commit is compared with that, and main is elsewhere', async () => {
    const folder = temporaryPath('local-dir');
    const older = hub.commit('org/moved', 'older');
    const weights = fileBytes([{ name: 'w', dtype: 'U8', shape: [4] }]);
    for (const [name, bytes] of [
      ['config.json', '{}'],
      ['model.safetensors', weights],
    ] as const) {
      writeBelow(folder, name, bytes);
      writeBelow(folder, `.cache/huggingface/download/${name}.metadata`, `${older}\netag\n1.5\n`);
    }
    const report = await against(folder, 'hf://org/moved');
    expect(report).toMatchObject({ ok: true, hub: { commit: older, checked: 2, extra: [] } });
    expect(report.hub.newerCommit).toBe(hub.commit('org/moved'));
    const one = await against(join(folder, 'config.json'), 'hf://org/moved');
    expect(one).toMatchObject({ ok: true, hub: { commit: older, checked: 1 } });
    // Files that did not change later have older records, or newer ones of another clock.
    const others = { 'a.json': `${'0'.repeat(40)}\netag\n1\n`, 'z.json': 'damaged' };
    for (const [name, text] of Object.entries(others)) {
      writeBelow(folder, `.cache/huggingface/download/${name}.metadata`, text);
    }
    expect((await against(folder, 'hf://org/moved')).hub.commit).toBe(older);
    const main = await against(folder, 'hf://org/moved@main');
    expect(problemsOf(main)).toEqual([['config.json', CHANGED]]);
    expect(main.hub.newerCommit).toBe(null);
    expect(await against(folder, `hf://org/moved@${older}`)).toMatchObject({ ok: true });
    const { stdout } = await call(['verify', folder, '--against', 'hf://org/moved']);
    expect(stdout).toContain(`main is at ${hub.commit('org/moved')}\n`);
    await expect(against(folder, 'origin')).rejects.toMatchObject({
      ...{ code: 'ERR_OUT_OF_RANGE', argument: 'against' },
      message: expect.stringContaining('without its repository'),
    });
  });
});

describe('in the Hub cache', () => {
  async function snapshot(): Promise<string> {
    const { path } = await download('hf://org/ver', 'cache', { files: '*' });
    hub.requests.length = 0;
    return path;
  }

  it('a snapshot, its id and a file of it are compared with its commit', async () => {
    const folder = await snapshot();
    for (const source of [folder, 'org/ver']) {
      const { ok, hub: found } = await against(source, 'origin');
      expect([ok, found.checked, found.newerCommit]).toEqual([true, 9, null]);
    }
    const one = await against(join(folder, NAMED), 'origin');
    expect(one).toMatchObject({ ok: true, hub: { checked: 1 } });
    const below = await against(join(folder, 'sub'), 'hf://org/ver');
    expect(below).toMatchObject({ ok: true, hub: { checked: 2 } });
    expect(hub.requests.every(({ path }) => path.startsWith('/api/'))).toBe(true);
  });

  it('a damaged blob and a removed link are found', async () => {
    const folder = await snapshot();
    const blob = join(folder, readlinkSync(join(folder, 'config.json')));
    writeFileSync(blob, readFileSync(blob, 'utf8').toUpperCase());
    rmSync(join(folder, FIRST));
    expect(problemsOf(await against('org/ver', 'origin'))).toEqual([
      ['config.json', CHANGED],
      [FIRST, 'ENOENT'],
    ]);
  });
});

describe('what download recorded', () => {
  it('is the origin, at its commit, also once main has moved', async () => {
    const folder = temporaryPath('downloaded');
    const older = hub.commit('org/moved', 'older');
    await download('hf://org/moved@older', folder);
    const report = await against(folder, 'origin');
    expect(report).toMatchObject({ ok: true, hub: { commit: older, checked: 2, extra: [] } });
    expect(report.hub.source).toBe(`hf://org/moved@${older}`);
    expect(report.hub.newerCommit).toBe(hub.commit('org/moved'));
    expect(await against(join(folder, 'model.safetensors'), 'origin')).toMatchObject({ ok: true });
  });

  it('also has folders and data sets without weights', async () => {
    const folder = temporaryPath('data-set');
    await download('hf://datasets/org/set', folder, { files: '*' });
    expect(await against(folder, 'origin')).toMatchObject({ ok: true, hub: { checked: 1 } });
    const part = temporaryPath('part');
    await download('hf://org/ver/sub', part, { files: '*' });
    const report = await against(part, 'origin');
    expect(report).toMatchObject({ ok: true, hub: { checked: 2, extra: [] } });
    expect(await against(join(part, 'deep'), 'origin')).toMatchObject({ hub: { checked: 1 } });
  });

  it('of several repositories in one folder is no origin', async () => {
    const folder = temporaryPath('several');
    await download('hf://org/other', folder, { files: '*' });
    await download('hf://org/ver', folder, { files: '*' });
    await expect(against(folder, 'origin')).rejects.toThrow(
      /several repositories.*hf:\/\/org\/other/,
    );
    const one = await against(join(folder, 'weights.safetensors'), 'origin');
    expect(one).toMatchObject({ ok: true, hub: { checked: 1 } });
    expect(await against(folder)).toMatchObject({ ok: true, hub: { checked: 9 } });
  });

  it('is missing: the error names the option, on the command line the flag', async () => {
    const folder = copyOfRepository();
    await expect(against(folder, 'origin')).rejects.toThrow("pass `against: 'hf://org/name'`");
    const { code, stderr } = await call(['verify', folder, '--against', 'origin']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('pass --against hf://org/name')]);
    // A record that leads elsewhere.
    const commits = { 'models--org--ver/../..': '0'.repeat(40), 'no--repository': '0'.repeat(40) };
    writeBelow(folder, '.safetensors-mmap-repository.json', JSON.stringify({ commits, files: {} }));
    await expect(against(folder, 'origin')).rejects.toMatchObject({ argument: 'against' });
  });
});

describe('requests', () => {
  it('are about lists, follow pages of the same server, and fetch no weights', async () => {
    hub.entriesPerPage = 2;
    const { ok, hub: found } = await against(copyOfRepository());
    expect([ok, found.checked, found.extra]).toEqual([true, 9, []]);
    const paths = hub.requests.map(({ path }) => path);
    expect(paths.filter((path) => path.includes('cursor=')).length).toBeGreaterThan(3);
    expect(paths.every((path) => path.startsWith('/api/models/org/ver/'))).toBe(true);
  });

  it('never lead to another server, whose pages are missing: that is an error', async () => {
    const asked: string[] = [];
    const watch: typeof fetch = async (input, init) => {
      const url = new URL(String(input));
      asked.push(url.origin);
      const response = await fetch(input, init);
      if (!url.pathname.includes('/tree/')) return response;
      const next = `<https://elsewhere.test/next>; rel="next"`;
      return new Response(response.body, { headers: { Link: next } });
    };
    const options = { against: 'hf://org/private', fetch: watch, token: TOKEN };
    const error = await verify(copyOfRepository(), options).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE' });
    expect(String(error)).not.toContain(TOKEN);
    expect(new Set(asked)).toEqual(new Set([new URL(hub.url).origin]));
  });

  it('carry the token', async () => {
    const folder = temporaryPath('private');
    vi.stubEnv('HF_TOKEN', TOKEN);
    await download('hf://org/private', folder);
    expect(await against(folder, 'origin')).toMatchObject({ ok: true });
    vi.stubEnv('HF_TOKEN', undefined);
    await expect(against(folder, 'origin')).rejects.toMatchObject({
      code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
    });
  });

  it('may be aborted, and report progress', async () => {
    const folder = copyOfRepository();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(verify(folder, { against: 'hf://org/ver', signal })).rejects.toThrow('enough');
    const seen: number[] = [];
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void => {
      seen.push(bytes, totalBytes);
    };
    await verify(folder, { against: 'hf://org/ver', onProgress });
    const length = Object.values(REPOSITORY_FILES).reduce((sum, { length }) => sum + length, 0);
    expect(seen.slice(-2)).toEqual([length, length]);
  });
});

describe('lists of other servers', () => {
  /** The JSON of a page, and its header `Link`. */
  type Page = readonly [json: unknown, link?: string];

  /** Answers the request for all files with `pages`, all others as the server does. */
  function listing(...pages: readonly Page[]): typeof fetch {
    return async (input, init) => {
      const { searchParams } = new URL(String(input));
      const page = searchParams.get('page') ?? (searchParams.has('recursive') ? '0' : null);
      const [json, link] = pages[Number(page)] ?? [];
      if (page === null) return await fetch(input, init);
      return new Response(JSON.stringify(json), {
        headers: link === undefined ? {} : { Link: link },
      });
    };
  }

  const CONFIG = { type: 'file', path: 'config.json', ...gitEntry('config.json') };

  function gitEntry(path: string): { readonly oid: string; readonly size: number } {
    const bytes = REPOSITORY_FILES[path] as Uint8Array;
    const hash = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes);
    return { oid: hash.digest('hex'), size: bytes.length };
  }

  async function listed(...pages: readonly Page[]): Promise<VerificationReport> {
    return await verify(copyOfRepository(), { against: 'hf://org/ver', fetch: listing(...pages) });
  }

  it.each([
    '<?page=1>; rel="next"',
    '<?page=1>; title="more, and more"; rel="next"',
    '<?page=0>; rel="prev first", <?page=1>; REL = "last next"',
    '<http://user:password@127.0.0.1:PORT/x?page=1>;rel=next',
  ])('%s leads to the next page', async (link) => {
    const { port } = new URL(hub.url);
    const readme = { type: 'file', path: 'README.md', ...gitEntry('README.md') };
    const report = await listed([[CONFIG], link.replace('PORT', port)], [[readme]]);
    expect(report).toMatchObject({ ok: true, hub: { checked: 2 } });
  });

  it.each(['<?page=1>; rel="nextish"', '<?page=1>; rel="prev"; title="next"'])(
    '%s does not',
    async (link) => {
      expect(await listed([[CONFIG], link], [[]])).toMatchObject({ hub: { checked: 1 } });
    },
  );

  it.each([[{ error: 'busy' }], [null], ['files']])(
    'that are no lists, %j, are an error, on any page',
    async (json) => {
      const bad = { code: 'SAFETENSORS_BAD_RESPONSE' };
      await expect(listed([json])).rejects.toMatchObject(bad);
      const second = listed([[CONFIG], '<?page=1>; rel="next"'], [json]);
      await expect(second).rejects.toMatchObject(bad);
    },
  );

  it('of more entries than the pages of the Hub can have are an error', async () => {
    const many = Array.from({ length: 60_000 }, (_, i) => ({ path: `${i}` }));
    const error = listed([many, '<?page=1>; rel="next"'], [many]);
    await expect(error).rejects.toThrow(/at most 100000 entries/);
  });

  it('name no files outside of the copy', async () => {
    const names = ['../x', '/etc/passwd', 'link/../../x', '', 'a\0b', `a/${'b'.repeat(3000)}`];
    const entries = names.map((path) => ({ ...CONFIG, path }));
    const folder = copyOfRepository();
    symlinkSync('/etc', join(folder, 'link'));
    const report = await verify(folder, {
      against: 'hf://org/ver',
      fetch: listing([[CONFIG, ...entries]]),
    });
    expect(report.hub).toMatchObject({ checked: 1, changed: [] });
    const missing = new Map(report.hub?.missing.map(({ file, hint }) => [file, hint]));
    expect(new Set(missing.keys())).toEqual(new Set(names));
    expect(missing.get('link/../../x')).toBe('its name has a ".." part');
  });

  it('without lengths and hashes are no differences', async () => {
    const [config, readme] = ['config.json', 'README.md'].map((path) => ({ type: 'file', path }));
    const { oid } = CONFIG;
    expect((await listed([[config, readme]])).hub).toMatchObject({
      ...{ checked: 2, changed: [], unhashed: ['config.json', 'README.md'] },
    });
    expect(await listed([[{ ...config, oid }]])).toMatchObject({ ok: true, hub: { unhashed: [] } });
    const changed = await listed([
      [
        { ...config, oid: '0'.repeat(40) },
        { ...readme, size: 1 },
      ],
    ]);
    expect(problemsOf(changed)).toEqual([
      ['config.json', CHANGED],
      ['README.md', CHANGED],
    ]);
  });
});

describe('options', () => {
  it.each([{ headersOnly: true }, { variant: 'fp16' }, { root: [] }])(
    '%j have no use with against',
    async (options) => {
      const found = verify(copyOfRepository(), { against: 'hf://org/ver', ...options });
      await expect(found).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    },
  );

  it('of requests need against, which needs an address of the Hub and a path', async () => {
    const folder = copyOfRepository();
    const wrong = { code: 'ERR_OUT_OF_RANGE' };
    await expect(verify(folder, { token: TOKEN })).rejects.toMatchObject(wrong);
    await expect(against(folder, 'org/ver')).rejects.toThrow(/^against must be the address/);
    await expect(against(folder, 'https://example.test/x?key=1')).rejects.toThrow(/^against[^?]*$/);
    await expect(verify(folder, { against: 1 as never })).rejects.toThrow(/^against must be hf:/);
    const file = safeOpen(join(folder, FIRST));
    await expect(verify(file, { against: 'origin' })).rejects.toMatchObject(wrong);
    file.close();
    const remote = await call(['verify', 'hf://org/ver', '--against', 'origin']);
    expect([remote.code, remote.stderr]).toEqual([2, expect.stringContaining('local files')]);
  });
});

describe('on the command line', () => {
  it('text and JSON list all that differs; warnings do not fail', async () => {
    const folder = copyOfRepository();
    damage(folder, [
      ['remove', 'README.md'],
      ['write', 'notes.txt', 'eA=='],
      ['rename', NAMED, NAMED.normalize('NFD')],
    ]);
    const args = ['verify', folder, '--against', 'hf://org/ver'];
    const { code, stdout } = await call(args);
    expect(code).toBe(0);
    const commit = hub.commit('org/ver');
    expect(stdout.split('\n')).toEqual([
      'README.md: missing',
      'notes.txt: extra, not in the repository',
      `${NAMED}: the local name has another Unicode normalization`,
      `no problems; checked: 8 files against hf://org/ver@${commit}, 1 missing, 1 extra`,
      '',
    ]);
    damage(folder, [['flip', FIRST, -1]]);
    const json = await call([...args, '--json']);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      ...{ ok: false, checks: ['hub'], problems: [{ file: FIRST, code: CHANGED }] },
      hub: {
        ...{ checked: 8, changed: [{ file: FIRST }], missing: [{ file: 'README.md' }] },
        extra: ['notes.txt'],
        renamed: [{ file: NAMED }],
      },
    });
  });
});

describe('random damages', () => {
  /** A repeatable sequence of numbers below a limit. */
  function numbers(seed: number): (limit: number) => number {
    let state = seed;
    return (limit) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * limit);
    };
  }

  const PATHS = Object.keys(REPOSITORY_FILES);

  /** One to four operations, each on another file. */
  function randomOperations(random: (limit: number) => number): Operation[] {
    const left = [...PATHS];
    const take = (): string => left.splice(random(left.length), 1)[0] as string;
    const lengthOf = (path: string): number => REPOSITORY_FILES[path]?.length ?? 0;
    const one = (): Operation[] => {
      const path = take();
      const length = lengthOf(path);
      const kind = random(9);
      if (kind === 0 && length > 0) return [['flip', path, random(length)]];
      if (kind === 1 && length > 0) return [['truncate', path, random(length)]];
      if (kind === 2) return [['remove', path]];
      if (kind === 3) return [['write', path, Buffer.from(`${random(1000)}`).toString('base64')]];
      if (kind === 4)
        return [
          ['remove', path],
          ['folder', path],
        ];
      if (kind === 5)
        return [
          ['remove', path],
          ['link', path, 'nowhere'],
        ];
      if (kind === 6) return [['rename', path, `${path}.old`]];
      if (kind === 7) return [['write', `more-${random(1000)}/x${random(9)}`, 'eA==']];
      const other = take();
      return [
        ['rename', path, 'exchanged.tmp'],
        ['rename', other, path],
        ['rename', 'exchanged.tmp', other],
      ];
    };
    return Array.from({ length: 1 + random(4) }, one).flat();
  }

  /** Paths of all files below a folder, links to files among them. */
  function filesBelow(folder: string): string[] {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
      (path) => statSync(join(folder, path), { throwIfNoEntry: false })?.isFile() === true,
    );
  }

  it('have the differences that comparing all bytes finds', async () => {
    const counts = { changed: 0, missing: 0, required: 0, extra: 0, right: 0 };
    for (let seed = 1; seed <= 200; seed++) {
      const folder = copyOfRepository();
      const operations = randomOperations(numbers(seed));
      damage(folder, operations);
      const here = new Set(filesBelow(folder));
      const there = PATHS.filter((path) => here.has(path));
      const changed = there.filter(
        (path) => !readFileSync(join(folder, path)).equals(REPOSITORY_FILES[path] as Uint8Array),
      );
      const missing = PATHS.filter((path) => !here.has(path));
      const required = missing.filter((path) => NEEDED.includes(path));
      const extra = [...here].filter((path) => !PATHS.includes(path)).sort();
      const report = await against(folder);
      const label = JSON.stringify(operations);
      expect(report.hub.checked, label).toBe(there.length);
      expect(
        report.hub.changed.map(({ file }) => file),
        label,
      ).toEqual(changed);
      expect(
        report.hub.missing.map(({ file }) => file),
        label,
      ).toEqual(missing);
      expect(report.hub.extra, label).toEqual(extra);
      expect(
        report.problems.map(({ file }) => file),
        label,
      ).toEqual(PATHS.filter((path) => changed.includes(path) || required.includes(path)));
      counts.changed += changed.length;
      counts.missing += missing.length;
      counts.required += required.length;
      counts.extra += extra.length;
      if (changed.length + missing.length + extra.length === 0) counts.right++;
      rmSync(folder, { recursive: true });
    }
    console.log(`200 random damages: ${JSON.stringify(counts)}`);
    for (const count of [counts.changed, counts.missing, counts.required, counts.extra]) {
      expect(count).toBeGreaterThan(50);
    }
  });
});
