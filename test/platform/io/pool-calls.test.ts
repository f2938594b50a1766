import process from 'node:process';
import { expect, it } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

it.skipIf(process.platform !== 'linux')(
  'closes what a worker was closing when it was ended',
  async () => {
    const options = { env: { UV_THREADPOOL_SIZE: '1' } };
    expect(await measureInChild('platform/io/children/ended-close.mjs', [], options)).toEqual({
      left: 0,
    });
  },
);
