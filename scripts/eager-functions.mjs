// The functions that the first `safeOpen` or `openTorchCheckpoint` of a process calls, and a plugin that has V8
// compile them when the bundle is imported.
//
// V8 compiles a function at its first call, but one that begins behind a bracket together with the code
// around it. So the first open takes 0.8 ms less, and the import 0.6 ms more; of a checkpoint the open takes
// 2 ms less, the import 1 ms more. Programs import when they start, and open files when somebody waits.
// `test/package/bundle.test.ts` compares the lists with what is called.

const FIRST_SAFE_OPEN = new Set([
  ...['safeOpen', 'requireOptions', 'isIterable', 'isAbortSignal', 'openFile', 'runSync', 'step'],
  ...['checkStorageOptions', 'requireBoolean', 'locate', 'pathText', 'objectionTo'],
  ...['requireLittleEndianHost', 'openHere', 'openRegularFile', 'openWithoutWaiting', 'openPath'],
  ...['retryWithoutDropped', 'statOpened', 'requireRegularFile', 'readFileHeader', 'readerOf'],
  ...['readFully', 'readOnce', 'readHeaderLength', 'headerLimit', 'parseStart'],
  ...['readHeader', 'readUsualHeader', 'mostTensors', 'endOfMetadata', 'layoutOf', 'openStorage'],
  ...['loadAddon', 'addonPath', 'namedFile', 'literalFile', 'use', 'bind', 'uncountBuffers'],
  ...['webpackFile', 'fileBeside', 'fileOfPackage', 'ownAddress', 'reasonToCount', 'map'],
  ...['closeFile', 'closeQuietly', 'headerLimitsOf', 'readHere', 'statsOf'],
]);

/** Of several functions of one name, the bundle adds a number to those behind the first. */
const FIRST_TORCH_OPEN = new Set([
  ...[
    'kindOf',
    'openForeign',
    'startOf',
    'fileReader',
    'requireLimits',
    'allPickleLimits',
    'makeTable',
  ],
  ...['readEntry$1', 'requireCrc32', 'readLiteral', 'shortText', 'costOfCopy', 'readProtocol'],
  ...['readPickle', 'allowedGlobal', 'isTensor', 'storageDtype', 'plainValue', 'orderedDict'],
  ...[
    'textOf$1',
    'isCount',
    'plainValueOf',
    'fillMap',
    'isPlain',
    'isBytesOfTensors',
    'keysOf',
    'keyText',
    'tensorsIn',
  ],
  ...['childrenOf', 'isObject', 'chooseRoot', 'outermost', 'stateDictAt', 'valueAt', 'named'],
  ...['checkLayout', 'plainLayout', 'isContiguous', 'tensorData', 'changeOf', 'checkTensors'],
  ...['spendTensors', 'checkTensor', 'integersOf', 'integerOf', 'heldByteLength', 'placesOnce'],
  ...['foreignTensor$1', 'decodeName', 'problemOf', 'isFolderName', 'foldCase'],
  ...['parseExtraFields', 'uint16', 'viewOf', 'uint64', 'readDirectory', 'readEntry', 'mayBe'],
  ...['wideNumbers', 'isEqual', 'findDirectory', 'lastSignature', 'endFields', 'findWide'],
  ...['compare', 'readLocalHeader', 'hasDescriptor', 'sizesOf', 'readDescriptor', 'isSame'],
  ...['walkArchive', 'findDuplicates', 'windowReader', 'readArchive', 'readZipCheckpoint'],
  ...['folderOf$1', 'openTorchCheckpoint', 'openOne', 'rootOf', 'heldBytes'],
  ...['placeOf$1', 'throwProblems', 'costOfLiteral', 'placeAt', 'namelessIn', 'isContainer'],
  ...['openTorchTensors', 'rootIn', 'isDictAttribute', 'readEach', 'isStorage', 'layoutOf'],
]);

const FIRST_OPEN_OF = new Map([
  ['index', FIRST_SAFE_OPEN],
  ['convert', FIRST_TORCH_OPEN],
]);

/** A function at the top of a module, and its name. */
const FUNCTION = /^function\*? ([\w$]+)\(.*?^\}$/gms;

/** Puts the functions into brackets. */
export const eagerFunctions = {
  name: 'eager-functions',
  renderChunk(text, chunk) {
    const called = FIRST_OPEN_OF.get(chunk.name);
    if (called === undefined) return null;
    const code = text.replaceAll(FUNCTION, (declaration, name) =>
      called.has(name) ? `const ${name} = (${declaration});` : declaration,
    );
    return { code, map: null };
  },
};
