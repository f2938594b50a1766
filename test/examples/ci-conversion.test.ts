/** The conversion of a repository: the steps of the workflow, run in a clone as the runner runs them. */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { safeOpen } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { textOf } from '../support/source-tree.js';
import { Example } from './example.js';

const SCRIPT = fileURLToPath(new URL('torch_repository.py', import.meta.url));
const WORKFLOW = 'examples/ci-conversion/workflow.yml';
const python = findPython('torch', 'numpy', 'safetensors', 'yaml');

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, { readonly steps: readonly Step[]; permissions: object }>>;
}

function readWorkflow(): Workflow {
  const source =
    'import json, sys, yaml; print(json.dumps({str(k): v for k, v in yaml.safe_load(sys.stdin).items()}))';
  const { stdout } = spawnSync(String(python.executable), ['-c', source], {
    input: textOf(WORKFLOW),
    encoding: 'utf8',
  });
  return JSON.parse(stdout) as Workflow;
}

/** A clone on a runner, and the repository that it pushes to. */
class Repository {
  readonly example = new Example('ci-conversion');
  readonly clone = this.example.path('clone');
  readonly page = this.example.path('page.md');
  readonly #env = {
    PATH: process.env['PATH'],
    HOME: this.example.folder,
    GITHUB_STEP_SUMMARY: this.page,
    GIT_CONFIG_NOSYSTEM: '1',
  };

  constructor() {
    const { example, clone } = this;
    this.run(
      'git init --quiet --bare --initial-branch=main ../origin.git',
      example.path('node_modules'),
    );
    this.run('git clone --quiet origin.git clone', example.folder);
    const tool = example.path('clone/.github/convert');
    mkdirSync(tool, { recursive: true });
    cpSync(example.path('convert.js'), `${tool}/convert.js`);
    // As `npm ci` leaves it.
    symlinkSync(example.path('node_modules'), `${tool}/node_modules`);
    writeFileSync(`${tool}/.gitignore`, 'node_modules\n');
    runPython(python, [SCRIPT, clone]);
    this.commit();
  }

  commit(): void {
    const author = '-c user.name=tests -c user.email=tests@example.org';
    this.run(
      `git checkout -q -B main; git add . && git ${author} commit -qm change && git push -q origin main`,
    );
  }

  run(script: string, cwd = this.clone): { code: number | null; stdout: string; stderr: string } {
    const args = ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script];
    const options = { cwd, env: this.#env, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync('bash', args, options);
    return { code: status, stdout, stderr };
  }

  /** Runs the steps of the workflow but for those that need the network; returns what the last of them printed. */
  work(): { code: number | null; stdout: string; stderr: string } {
    const steps = readWorkflow().jobs['convert']?.steps ?? [];
    const scripts = steps.flatMap(({ run }) => (run === undefined ? [] : [run]));
    expect(scripts[0]).toMatch(/^npm ci --prefix \.github\/convert /);
    let result = { code: 0 as number | null, stdout: '', stderr: '' };
    for (const script of scripts.slice(1)) {
      const { code, stdout, stderr } = this.run(script);
      result = { code, stdout: result.stdout + stdout, stderr: result.stderr + stderr };
      if (code !== 0) break;
    }
    return result;
  }

  /** Names of the files that have been pushed. */
  get pushed(): string[] {
    const { stdout } = this.run('git ls-tree -r --name-only origin/main');
    return stdout.trim().split('\n');
  }
}

describe.skipIf(isSkipped(python))(titleWith(python, 'the conversion of a repository'), () => {
  it('pins actions, and may write by one job alone', () => {
    const { permissions, jobs } = readWorkflow();
    expect(permissions).toEqual({});
    expect(Object.values(jobs).map((job) => job.permissions)).toEqual([{ contents: 'write' }]);
    const actions = textOf(WORKFLOW).match(/uses: .*/g) ?? [];
    expect(actions).toHaveLength(2);
    const pinned = /^uses: actions\/[\w-]+@[0-9a-f]{40} # v[\d.]+$/;
    expect(actions.filter((text) => !pinned.test(text))).toEqual([]);
    const own = textOf('.github/workflows/ci.yml');
    expect(actions.filter((text) => !own.includes(text))).toEqual([]);
  });

  it('commits what torch reads as the same, once', () => {
    const repository = new Repository();
    const { code, stdout } = repository.work();
    expect(code).toBe(0);
    expect(stdout).toContain('pytorch_model.bin.index.json: model.safetensors (0.0 MB)\n');
    const unet = 'unet/diffusion_pytorch_model';
    expect(stdout).toContain(`${unet}.bin: diffusion_pytorch_model.safetensors (0.0 MB, 1 tied)\n`);
    const pushed = repository.pushed.filter((name) => name.endsWith('.safetensors'));
    expect(pushed).toEqual(['model.safetensors', `${unet}.safetensors`]);
    expect(readFileSync(repository.page, 'utf8')).toContain(
      `| ${unet}.bin | diffusion_pytorch_model`,
    );
    expect(runPython(python, [SCRIPT, repository.clone, 'check'])).toBe(
      'a.weight b.weight of a.weight b.weight\nembed.weight mid.t of embed.weight head.weight mid.t\n',
    );
    const checkpoint = safeOpen(`${repository.clone}/unet`);
    expect(checkpoint.has('head.weight')).toBe(true);
    checkpoint.close();

    const again = repository.work();
    expect(again.code).toBe(0);
    expect(again.stdout.match(/is converted already/g)).toHaveLength(2);
    expect(again.stdout).toContain('Nothing to commit');
  });

  it('converts again what has changed, or is damaged', () => {
    const repository = new Repository();
    expect(repository.work().code).toBe(0);
    const { clone } = repository;
    cpSync(
      `${clone}/unet/diffusion_pytorch_model.bin`,
      `${clone}/pytorch_model-00002-of-00002.bin`,
    );
    writeFileSync(`${clone}/unet/diffusion_pytorch_model.safetensors`, 'damaged');
    const { code, stdout } = repository.work();
    expect(stdout).toMatch(/^pytorch_model\.bin\.index\.json: failed: /m);
    expect(stdout).toMatch(/^unet\/.*: diffusion_pytorch_model\.safetensors \(/m);
    expect(code).toBe(1);
  });

  it('knows shards again, by their index', () => {
    const repository = new Repository();
    const command = 'node .github/convert/convert.js . --max-shard-size 1KB';
    const names = [1, 2].map((i) => `model-0000${i}-of-00002.safetensors`).join(', ');
    expect(repository.run(command).stdout).toContain(`index.json: ${names} (0.0 MB)\n`);
    expect(repository.run(command).stdout.match(/is converted already/g)).toHaveLength(2);
  });

  it('refuses a pickle that asks for code, before anything is written', () => {
    const repository = new Repository();
    runPython(python, [SCRIPT, repository.clone, 'hostile']);
    const { code, stderr } = repository.work();
    expect(code).toBe(1);
    expect(stderr).toBe('model.bin is suspicious: names posix.system\n');
    expect(existsSync(`${repository.clone}/model.safetensors`)).toBe(false);
    expect(existsSync(`${repository.clone}/was-run`)).toBe(false);
  });

  it('rejects hostile pickles of any form, name and place', () => {
    const seed = process.env['SAFETENSORS_SEED'] ?? '20261128';
    const repository = new Repository();
    for (let number = 0; number < 24; number++) {
      const kind = runPython(python, [
        SCRIPT,
        repository.clone,
        'random',
        seed,
        `${number}`,
      ]).trim();
      const [path = ''] = /\S+$/.exec(kind) ?? [];
      const { code, stdout, stderr } = repository.run('node .github/convert/convert.js .');
      expect([code, stdout], `${kind}, SAFETENSORS_SEED=${seed}`).toEqual([1, '']);
      expect(stderr, kind).toMatch(/^[^\n]+ is suspicious: [^\n]+\n$/);
      expect(stderr.split(' is ')[0], kind).toBe(path);
      expect(existsSync(`${repository.clone}/unet/diffusion_pytorch_model.safetensors`)).toBe(
        false,
      );
      rmSync(`${repository.clone}/${path}`);
    }
    expect(existsSync(`${repository.clone}/was-run`)).toBe(false);
  });

  it('accepts files without pickles, safe pickles, and what was examined', () => {
    const repository = new Repository();
    runPython(python, [SCRIPT, repository.clone, 'harmless']);
    runPython(python, [SCRIPT, repository.clone, 'hostile']);
    const command = 'node .github/convert/convert.js .';
    expect(repository.run(command).stderr).toBe('model.bin is suspicious: names posix.system\n');
    renameSync(`${repository.clone}/model.bin`, `${repository.clone}/training_args.bin`);
    const { code, stderr } = repository.run(`${command} --accept training_args.bin`);
    expect([code, stderr]).toEqual([0, '']);
  });
});
