/** Shells that are installed take the scripts, and complete by them. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it } from 'vitest';
import { COMMANDS } from '../../../src/cli/command-table.js';
import { printed } from '../call.js';

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;

/** What bash completes, where the last of the words is not finished. */
async function completedBy(...words: string[]): Promise<string[]> {
  const script = await printed(['completion', 'bash']);
  const call = `COMP_WORDS=(safetensors-mmap ${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length}
_safetensors_mmap
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', `${script}\n${call}`], {
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, '']);
  return stdout.split('\n').filter((line) => line !== '');
}

it.runIf(has('bash'))('bash completes commands, and options of the command', async () => {
  expect(await completedBy('')).toEqual([...Object.keys(COMMANDS), '--help', '--version']);
  expect(await completedBy('ins')).toEqual(['inspect']);
  expect(await completedBy('inspect', '--tr')).toEqual(['--tree']);
  expect(await completedBy('page', '--')).toEqual(
    ['force', 'json', 'no-color', 'verbose', 'help'].map((name) => `--${name}`),
  );
  // Files are completed by readline.
  expect(await completedBy('inspect', 'mod')).toEqual([]);
});

it.runIf(has('bash'))('bash completes actions and the values of options', async () => {
  expect(await completedBy('completion', '')).toEqual(expect.arrayContaining(['bash', 'zsh']));
  expect(await completedBy('metadata', 'se')).toEqual(['set']);
  expect(await completedBy('metadata', 'set', 'x')).toEqual([]);
  expect(await completedBy('inspect', 'x', '--sort', '')).toEqual(['offset', 'name', 'size']);
  expect(await completedBy('convert', 'x', '--dtype', 'F8_E5')).toEqual(['F8_E5M2']);
  expect(await completedBy('inspect', 'x', '--filter', '')).toEqual([]);
});

/** Words that are typed, the last of them not finished, and the words after Tab. */
const TYPED: readonly [typed: string, completed: string][] = [
  ['ins', 'inspect'],
  ['inspect --tr', 'inspect --tree'],
  ['inspect mod', 'inspect model.safetensors'],
  ['inspect model.safetensors --sort si', 'inspect model.safetensors --sort size'],
  ['convert model.safetensors --dtype F8_E5', 'convert model.safetensors --dtype F8_E5M2'],
  ['metadata se', 'metadata set'],
  ['metadata set mod', 'metadata set model.safetensors'],
  ['completion z', 'completion zsh'],
];

/** A folder with a model and the script for a shell. */
async function folderFor(shell: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-completion-'));
  writeFileSync(join(folder, 'model.safetensors'), '');
  writeFileSync(join(folder, 'script'), await printed(['completion', shell]));
  return folder;
}

/** Types a line into an interactive zsh, then Tab and Enter; the function prints the words that it was called with. */
const ZSH = [
  'zmodload zsh/zpty',
  'zpty shell zsh -f -i',
  "zpty -w shell 'PS1=; stty -echo; autoload -Uz compinit; compinit -u -D; source ./script'",
  "zpty -w shell 'safetensors-mmap() { print -r -- \"<$*>\" }; print LOAD''ED'",
  "zpty -r shell out '*LOADED*'",
  'for line in $@; do',
  '  zpty -w -n shell "safetensors-mmap $line"$\'\\t\\n\'',
  "  zpty -r shell out $'*<*>\\r\\n*'",
  '  print -r -- $out',
  'done',
  'zpty -d shell',
].join('\n');

it.runIf(has('zsh'))(
  'zsh completes commands, actions, options, their values and files',
  async () => {
    const folder = await folderFor('zsh');
    const lines = TYPED.map(([typed]) => typed);
    try {
      const { stdout } = spawnSync('zsh', ['-f', '-c', ZSH, 'zsh', ...lines], {
        ...{ cwd: folder, encoding: 'utf8', timeout: 60_000 },
        env: { ...process.env, TERM: 'dumb' },
      });
      const called = Array.from(stdout.matchAll(/<(.*)>/g), ([, words]) => words);
      expect(called).toEqual(TYPED.map(([, completed]) => completed));
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

it.runIf(has('fish'))('fish completes the same', async () => {
  const folder = await folderFor('fish');
  try {
    for (const [typed, completed] of TYPED) {
      const call = `source script; complete -C 'safetensors-mmap ${typed}'`;
      const { stdout } = spawnSync('fish', ['--no-config', '-c', call], {
        ...{ cwd: folder, encoding: 'utf8' },
        env: { ...process.env, HOME: folder },
      });
      const words = stdout.split('\n').map((line) => line.split('\t')[0]);
      expect(words).toContain(completed.split(' ').at(-1));
      expect(words.filter((word) => word !== '').length).toBe(1);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it.each(['zsh', 'fish'])('%s has every command and every option', async (shell) => {
  const script = await printed(['completion', shell]);
  for (const [name, { options }] of Object.entries(COMMANDS)) {
    expect(script).toContain(name);
    for (const option of Object.keys(options)) expect(script).toContain(option);
  }
});

it.runIf(has('zsh')).each(['zsh'])('%s can read its script', async (shell) => {
  const input = await printed(['completion', shell]);
  expect(spawnSync(shell, ['-n'], { input, encoding: 'utf8' }).stderr).toBe('');
});

it.runIf(has('fish'))('fish can read its script', async () => {
  const folder = await folderFor('fish');
  try {
    const { stderr } = spawnSync('fish', ['-n', 'script'], { cwd: folder, encoding: 'utf8' });
    expect(stderr).toBe('');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
