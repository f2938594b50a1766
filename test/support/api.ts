/** The public names as tests import them: the one file to change when a name moves or changes. */
export * from '../../src/convert.js';
export * from '../../src/hub.js';
export * from '../../src/index.js';
export * from '../../src/inspect.js';
export * from '../../src/quantized.js';
export * from '../../src/remote.js';
