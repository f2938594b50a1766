/**
 * Copies of a tree with all faults in it, each enabled by its switch. Tests write into their tree: each lane has one.
 */
import { execFileSync, execSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withSwitches } from './mutants.mjs';
import { withPrelude } from './switches.mjs';

/** What a built tree has besides the files of the repository. */
const BUILT = ['node_modules', 'build', 'lib', 'prebuilds'];

export function copyAll(source, target) {
  cpSync(source, target, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
}

/** Copies the files of a repository as they are in its work tree, with what has been built. */
export function copyTree(source, target) {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const listed = execFileSync('git', args, { cwd: source, encoding: 'utf8', maxBuffer: 2 ** 26 });
  const paths = [...listed.split('\0').filter((path) => path !== ''), ...BUILT];
  for (const path of paths) {
    // Deleted files are still listed until the next commit.
    if (!existsSync(join(source, path))) continue;
    mkdirSync(dirname(join(target, path)), { recursive: true });
    copyAll(join(source, path), join(target, path));
  }
}

/** Puts the faults into the sources of a tree, and builds what tests use of it. */
export function insertFaults(tree, mutants, build) {
  for (const path of new Set(mutants.map((mutant) => mutant.path))) {
    const text = readFileSync(join(tree, path), 'utf8');
    const own = mutants.filter((mutant) => mutant.path === path);
    writeFileSync(join(tree, path), withPrelude(withSwitches(text, own, true)));
  }
  execSync(build, { cwd: tree, stdio: ['ignore', 'inherit', 'inherit'] });
}
