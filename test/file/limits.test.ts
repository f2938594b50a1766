import { ftruncateSync, openSync, writeSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { temporaryPath, writeTemporary } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';

const CHILD = 'file/children/open-under-limits.mjs';

describe.each(['turns', 'no turns'])('a loop with %s of the event loop', (turns) => {
  test.each(['drop', 'drop-untouched', 'close'])(
    'ends 3 000 files under a limit of 1 024 descriptors by: %s',
    async (ending) => {
      const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [4] }]);
      const { opened } = await measureInChild<{ opened: number }>(
        CHILD,
        [path, '3000', ending, turns],
        { limits: '-n 1024' },
      );
      expect(opened).toBe(3000);
    },
  );

  test('detaches 100 files of 1 GiB under a limit of 30 GB of addresses', async () => {
    const path = temporaryPath('sparse.safetensors');
    const json = `{"t":{"dtype":"U8","shape":[${2 ** 30}],"data_offsets":[0,${2 ** 30}]}}`;
    const fd = openSync(path, 'w');
    writeSync(fd, `${String.fromCharCode(json.length)}\0\0\0\0\0\0\0${json}`);
    ftruncateSync(fd, 8 + json.length + 2 ** 30);
    const { opened } = await measureInChild<{ opened: number }>(
      CHILD,
      [path, '100', 'detach', turns],
      { limits: `-v ${30_000_000}` },
    );
    expect(opened).toBe(100);
  });
});
