/**
 * `node scripts/map.mjs [FOLDER]`: prints the files below a folder, by default `src`, each with the first sentence of
 * its head comment.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import process from 'node:process';

/** Code, but not declarations next to JavaScript, nor tests, which are named like what they test. */
const CODE = /(?<!\.d|\.test)\.(?:[cm]?[jt]s|py|sh|cc|c|h)$/;

/** The first comment of a file without its marks; undefined where the file does not begin with one. */
function headComment(text) {
  const code = text.replace(/^#!.*\n/, '').trimStart();
  const [, block] = /^\/\*\*?\s(.*?)\*\//s.exec(code) ?? /^"""(.*?)"""/s.exec(code) ?? [];
  if (block !== undefined) return block.replace(/^\s*\*(?: |$)/gm, '');
  const [lines = ''] = /^(?:(?:\/\/|#)(?: .*)?\n)+/.exec(code) ?? [];
  return lines === '' ? undefined : lines.replace(/^(?:\/\/|#) ?/gm, '');
}

/** The first sentence of a file's head comment. */
function firstSentence(path) {
  const text = headComment(readFileSync(path, 'utf8'))?.replace(/\s+/g, ' ').trim();
  return text === undefined ? undefined : /^.*?\.(?= |$)|^.*$/.exec(text)?.[0];
}

const [folder = 'src'] = process.argv.slice(2);
if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
  console.error(`map: no such folder: ${folder}`);
  process.exit(2);
}
const args = ['ls-files', '--cached', '--others', '--exclude-standard', folder];
const tracked = execFileSync('git', args, { encoding: 'utf8' });
const paths = tracked.split('\n').filter((path) => CODE.test(path) && !path.includes('fixtures/'));
let last;
for (const path of paths) {
  if (dirname(path) !== last) console.log(`\n${dirname(path)}`);
  last = dirname(path);
  console.log(`  ${basename(path).padEnd(28)} ${firstSentence(path) ?? ''}`.trimEnd());
}
