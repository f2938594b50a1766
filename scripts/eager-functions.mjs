// The functions that the first `safeOpen` of a process calls, and a plugin that has V8 compile them when
// the bundle is imported.
//
// V8 compiles a function at its first call, but one that begins behind a bracket together with the code
// around it. So the first open takes 0.8 ms less, and the import 0.6 ms more: programs import when they
// start, and open files when somebody waits. `test/package/bundle.test.ts` compares the list with what is
// called.

const FIRST_OPEN = new Set([
  ...['safeOpen', 'requireOptions', 'isIterable', 'isAbortSignal', 'openFile', 'runSync', 'step'],
  ...['checkStorageOptions', 'requireBoolean', 'locate', 'pathText', 'objectionTo'],
  ...['requireLittleEndianHost', 'openHere', 'openRegularFile', 'openWithoutWaiting', 'openPath'],
  ...['retryWithoutDropped', 'statOpened', 'requireRegularFile', 'readFileHeader', 'readerOf'],
  ...['readFully', 'readOnce', 'readHeaderLength', 'headerLimit', 'contextOf', 'parseStart'],
  ...['readHeader', 'readUsualHeader', 'mostTensors', 'endOfMetadata', 'layoutOf', 'openStorage'],
  ...['loadAddon', 'addonPath', 'namedFile', 'shippedFile', 'use', 'bind', 'uncountBuffers'],
  ...['reasonToCount', 'map', 'closeFile', 'headerLimitsOf'],
]);

/** A function at the top of a module, and its name. */
const FUNCTION = /^function\*? ([\w$]+)\(.*?^\}$/gms;

/** Puts the functions into brackets. */
export const eagerFunctions = {
  name: 'eager-functions',
  renderChunk(text) {
    const code = text.replaceAll(FUNCTION, (declaration, name) =>
      FIRST_OPEN.has(name) ? `const ${name} = (${declaration});` : declaration,
    );
    return { code, map: null };
  },
};
