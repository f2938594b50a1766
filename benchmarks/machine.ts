import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { formatByteSize } from './byte-size.js';
import type { Equipment } from './equipment.js';
import { ROOT_FOLDER } from './places.js';

function versions(packages: Readonly<Record<string, string>>): string {
  return Object.entries(packages)
    .map((pair) => pair.join(' '))
    .join(', ');
}

/** What the figures depend on: the date, the machine, versions, and how much was read how often. */
export function describeMachine(
  { python, npmPackages }: Equipment,
  byteLength: number,
  rounds: number,
): Record<string, string> {
  const [cpu] = cpus();
  const own: { version: string } = JSON.parse(
    readFileSync(join(ROOT_FOLDER, 'package.json'), 'utf8'),
  );
  return {
    date: new Date().toISOString().slice(0, 10),
    processor: `${cpu?.model.trim() || 'unknown'}, ${cpus().length} cores`,
    memory: formatByteSize(totalmem()),
    kernel: `${process.platform} ${release()} ${process.arch}`,
    node: `${process.versions.node}, safetensors-mmap ${own.version}, ${versions(npmPackages)}`,
    python: typeof python === 'string' ? python : `${python.version}, ${versions(python.packages)}`,
    model: `${formatByteSize(byteLength)}, BF16, 147 tensors`,
    rounds: `medians of ${rounds}, every one in a process of its own`,
  };
}
