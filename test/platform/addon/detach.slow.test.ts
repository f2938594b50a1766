import { expect, test } from 'vitest';
import { writeTemporary } from '../../support/make-file.js';
import { rounds } from '../../support/message-children.js';
import { runChild } from '../../support/run-child.js';

test.each(['addon', 'file'])(
  'a worker can be terminated while it detaches, by the %s',
  async (how) => {
    const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [20_000] }]);
    const count = `${rounds(10, 4)}`;
    const result = await runChild('platform/addon/children/terminated-detach.mjs', [
      how,
      path,
      count,
    ]);
    expect(result).toEqual({ code: 0, signal: null, stdout: `${count}\n`, stderr: '' });
  },
);
