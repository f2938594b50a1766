// Reads binding.gyp, which is JSON: what to compile for a platform, and with which flags.

import { execSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Whether a condition is true, such as `OS!='linux' and OS!='win'`. */
function holds(condition, values) {
  return condition.split(' and ').every((comparison) => {
    const [, name, operator, value] = /^(\w+)(==|!=)'(\w+)'$/.exec(comparison) ?? [];
    if (!(name in values)) throw new Error(`binding.gyp: cannot read the condition ${condition}`);
    return (values[name] === value) === (operator === '==');
  });
}

/** Adds lists of `more` to those of `settings`. */
function merge(settings, more) {
  for (const [key, value] of Object.entries(more)) {
    settings[key] = Array.isArray(value) ? [...(settings[key] ?? []), ...value] : value;
  }
}

/** Settings with those of the conditions that hold. */
function resolve({ conditions = [], ...settings }, values) {
  for (const [condition, then, otherwise = {}] of conditions) {
    merge(settings, resolve(holds(condition, values) ? then : otherwise, values));
  }
  return settings;
}

/** Puts the output of commands, `<!(command)`, where they stand. */
function expand(text, root) {
  return text.replace(/<!\((.*)\)/, (_, command) =>
    execSync(command, { cwd: root, encoding: 'utf8' }).trim(),
  );
}

/**
 * The addon's target, then the targets that it depends on, for gyp's words for an operating system and a processor.
 * Settings of Visual C++ and Xcode are left out.
 */
export function readBinding(root, os, arch) {
  const values = { OS: os, target_arch: arch };
  const { targets } = resolve(JSON.parse(readFileSync(join(root, 'binding.gyp'), 'utf8')), values);
  const readTarget = (target) => {
    const settings = resolve(target, values);
    return {
      sources: settings.sources,
      flags: [
        ...(settings.cflags ?? []),
        ...(settings.cflags_cc ?? []),
        ...(settings.defines ?? []).map((define) => `-D${expand(define, root)}`),
        ...(settings.include_dirs ?? []).map((folder) => `-I${expand(folder, root)}`),
      ],
      linkerFlags: settings.ldflags ?? [],
      dependencies: settings.dependencies ?? [],
    };
  };
  const all = new Map(targets.map((target) => [target.target_name, readTarget(target)]));
  const addon = all.get('safetensors-mmap');
  return [addon, ...addon.dependencies.map((name) => all.get(name))];
}
