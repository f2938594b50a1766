/** Opens the files of header-cases.json. */
import { writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { bytesOf, type HeaderCase } from '../header/header-cases.js';
import { openBoth } from '../support/both-ways.js';
import { temporaryPath } from '../support/make-file.js';

/** The case with a header of 100 MB. */
export const LONGEST = 'framing/header-exactly-100000000-bytes';

/** Opens the file of each case, synchronously and asynchronously, and expects the recorded outcome. */
export async function expectOutcomes(cases: readonly HeaderCase[]): Promise<void> {
  const path = temporaryPath('case.safetensors');
  let accepted = 0;
  for (const headerCase of cases) {
    writeFileSync(path, bytesOf(headerCase));
    const outcome = await openBoth(path).then(
      (file) => {
        file.close();
        return 'accepted';
      },
      (error) => error.code as string,
    );
    if (outcome === 'accepted') accepted++;
    else expect(outcome).toBe(`SAFETENSORS_${headerCase.code}`);
  }
  expect(accepted).toBe(cases.filter(({ accept }) => accept).length);
}
