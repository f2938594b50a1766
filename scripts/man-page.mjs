// Writes lib/safetensors-mmap.1, the manual of the command line, from what `--help` prints. Runs after tsc.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { COMMANDS } = await import(join(root, 'build/cli/command-table.js'));
const { COMMON_OPTIONS } = await import(join(root, 'build/cli/arguments.js'));
const { version, description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** A line of text: hyphens that can be copied, and no line that would be a request. */
const line = (text) =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(
      /[^ -~]/gu,
      (char) => `\\[u${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`,
    )
    .replace(/^(?=[.'])/, '\\&')
    // Code stands between backticks.
    .replaceAll(/`([^`]*)`/g, '\\fB$1\\fR');

function optionLines(options) {
  return Object.entries(options).flatMap(([name, { short, value, help }]) => {
    const flags = [...(short === undefined ? [] : [`-${short}`]), `--${name}`];
    const shown = flags.map((flag) => `\\fB${line(flag)}\\fR`).join(', ');
    return ['.TP', value === undefined ? shown : `${shown} \\fI${line(value)}\\fR`, line(help)];
  });
}

const text = [
  `.TH SAFETENSORS-MMAP 1 "" "safetensors-mmap ${version}" "User Commands"`,
  '.SH NAME',
  `safetensors\\-mmap \\- ${line(description)}`,
  '.SH SYNOPSIS',
  '\\fBsafetensors\\-mmap\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]',
  '.SH COMMANDS',
  ...Object.values(COMMANDS).flatMap(({ usage, description: purpose, options }) => [
    `.SS "${line(usage).replaceAll('"', '\\(dq')}"`,
    line(purpose),
    ...optionLines(options),
  ]),
  '.SH OPTIONS OF EVERY COMMAND',
  ...optionLines(COMMON_OPTIONS),
  '.SH EXIT STATUS',
  '0 done, 1 the answer is no or the file is bad, 2 wrong usage.',
  '.SH ENVIRONMENT',
  line(
    'HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean for huggingface_hub. NO_COLOR turns colours off.',
  ),
  '',
].join('\n');
writeFileSync(join(root, 'lib/safetensors-mmap.1'), text);
