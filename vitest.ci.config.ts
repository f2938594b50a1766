/** Every test once: those that use the public names alone on the bundle, the others on the sources. */
import { defineConfig } from 'vitest/config';
import bundle from './vitest.bundle.config.js';
import base from './vitest.config.js';

const { exclude = [], maxWorkers = 2 } = base.test ?? {};
const { include = [] } = bundle.test ?? {};

/** These measure processor time, which other work on the same processor makes longer: they run last, one at a time. */
const MEASURED: readonly string[] = [
  'test/foreign/hostile-costs.test.ts',
  'test/foreign/pickle/machine.test.ts',
  'test/header/hostile-headers.test.ts',
  'test/quantized/large-layout.test.ts',
];

export default defineConfig({
  test: {
    maxWorkers,
    projects: [
      { ...bundle, test: { ...bundle.test, name: 'bundle' } },
      {
        ...base,
        test: { ...base.test, name: 'sources', exclude: [...exclude, ...include, ...MEASURED] },
      },
      {
        ...base,
        test: {
          ...base.test,
          name: 'measured',
          include: [...MEASURED],
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
