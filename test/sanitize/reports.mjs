/** The sanitizers' reports, and which of them concern the addon. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A frame without names: `#3 0x7f82  (/path/of/module+0x1f)`. */
const FRAME = /^\s+#\d+ .*\((\/.*)\+0x[\da-f]+\)/;

/** The sanitizer and the C++ library, through which all code allocates. */
const ALLOCATORS = /\/lib(?:asan|stdc\+\+)\.so[^/]*$/;

/** Not a fault: an allocation was refused, and the caller was told. */
const HARMLESS = /^==\d+==WARNING: AddressSanitizer failed to allocate .*$/gm;

/** The module whose code asked for the memory of a leak; undefined when no frame tells. */
function allocatingModule(leak) {
  const modules = leak.split('\n').flatMap((line) => FRAME.exec(line)?.[1] ?? []);
  return modules.find((module) => !ALLOCATORS.test(module));
}

/**
 * The reports in a log that are about `addon`, the path of its file. A leak is, when the addon asked for the memory:
 * what Node and shells ask for and never free is theirs. Suppressions of LeakSanitizer's own cannot say that, since
 * they fit any frame: below every call of the addon are frames of Node. Every other report counts, of any program.
 */
export function findings(log, addon) {
  const text = log.replaceAll(HARMLESS, '').trim();
  if (text === '') return [];
  if (!text.includes('ERROR: LeakSanitizer: detected memory leaks')) return [text];
  const leaks = text.split(/\n\s*\n/).filter((part) => /^(?:Direct|Indirect) leak of /.test(part));
  return leaks.filter((leak) => [addon, undefined].includes(allocatingModule(leak)));
}

/** Puts functions and lines of `addon` in place of offsets. */
function nameFrames(report, addon) {
  return report.replaceAll(/\((\/.*)\+(0x[\da-f]+)\)/g, (frame, module, offset) => {
    if (module !== addon) return frame;
    const { stdout } = spawnSync('addr2line', ['-Cfpse', module, offset], { encoding: 'utf8' });
    return stdout?.trim() || frame;
  });
}

/** All findings in the logs of a folder, of whatever process, each with the name of its log. */
export function collectFindings(folder, addon) {
  return readdirSync(folder).flatMap((name) =>
    findings(readFileSync(join(folder, name), 'utf8'), addon).map(
      (report) => `${name}: ${nameFrames(report, addon)}`,
    ),
  );
}
