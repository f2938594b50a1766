/** Shells that are installed take the scripts, and complete by them. */
import { spawnSync } from 'node:child_process';
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

it.runIf(has('fish')).each(['fish'])('%s can read its script', async (shell) => {
  const input = await printed(['completion', shell]);
  expect(spawnSync(shell, ['-n'], { input, encoding: 'utf8' }).stderr).toBe('');
});
