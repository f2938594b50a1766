/** Every test once: those that use the public names alone on the bundle, the others on the sources. */
import { defineConfig } from 'vitest/config';
import bundle from './vitest.bundle.config.js';
import base from './vitest.config.js';

const { exclude = [], maxWorkers = 2 } = base.test ?? {};
const { include = [] } = bundle.test ?? {};

export default defineConfig({
  test: {
    maxWorkers,
    projects: [
      { ...bundle, test: { ...bundle.test, name: 'bundle' } },
      { ...base, test: { ...base.test, name: 'sources', exclude: [...exclude, ...include] } },
    ],
  },
});
