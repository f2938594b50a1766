/** Results of `scanPickle` over many files, by kind. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { scanPickle } from '../../src/foreign/scan/scan-file.js';

/** Verdicts of honest files by kind. */
const VERDICTS: Readonly<Record<string, readonly string[]>> = {
  torch: ['safe'],
  legacy: ['safe'],
  // Protocols below 3 and 4 name types of Python for bytes and frozen sets.
  pickle: ['safe', 'needs-code'],
  'needs-code': ['needs-code'],
  npy: ['no-pickle'],
  npz: ['no-pickle'],
  safetensors: ['no-pickle'],
  gguf: ['no-pickle'],
  text: ['no-pickle'],
};

/** How many files of a kind there are, and which have a wrong verdict. */
export class Row {
  files = 0;
  readonly wrong: string[] = [];
}

export function rowOf(rows: Map<string, Row>, kind: string): Row {
  const row = rows.get(kind) ?? new Row();
  rows.set(kind, row);
  return row;
}

/** Scans the files of a folder, whose names begin with their kinds. */
export function judgeHonest(path: string, rows: Map<string, Row>): void {
  for (const name of readdirSync(path)) {
    const [kind = ''] = name.split('--');
    const row = rowOf(rows, kind);
    row.files++;
    for (const verify of [false, true]) {
      const { verdict, findings, problems } = scanPickle(join(path, name), { verify });
      if (VERDICTS[kind]?.includes(verdict) === true) continue;
      row.wrong.push(`${name}: ${verdict} ${JSON.stringify([findings, problems])}`);
      break;
    }
  }
}

/** The exceptions of all kinds. */
export function wrong(rows: ReadonlyMap<string, Row>): string[] {
  return Array.from(rows.values(), (row) => row.wrong).flat();
}
