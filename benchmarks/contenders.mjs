/**
 * All contenders as data, by the names that trials use: `name | heading of the row | program method | options`. The
 * program is a script of `children/` (`.mjs`, `.py`), `cli` for the command line, `limits` of `native/`, or one of the
 * system. It gets the method, then the file. Options are
 * - `file`, the format of the weights that it gets, by default safetensors; `ours`, what runs this package;
 * - `needs`, packages that may be missing; `exit`, the code with which it ends when all went well;
 * - of formats, what needs no measuring: whether a stranger's file cannot run code in the reader (`safe`), and whether
 *   a tensor is found without reading the others (`layout`). Pickle is unsafe by design: Python's own reader calls what
 *   the file names, those in JavaScript do not.
 */
const TABLE = `
  mapping | limit: plain mapping, C | limits mapping
  direct | limit: O_DIRECT, 4 x 4 MiB at once, C | limits direct
  ours | safetensors-mmap | read.mjs mapped | ours
  same | safetensors-mmap, the same as safetensors | read.mjs mapped | ours
  prefetched | safetensors-mmap, prefetch() | read.mjs prefetched | ours
  streamed | safetensors-mmap, stream() | read.mjs streamed | ours
  reused | safetensors-mmap, stream({ reuse: true }) | read.mjs reused | ours
  streamedShards | safetensors-mmap, stream() | read.mjs shardsStreamed | ours
  reusedShards | safetensors-mmap, stream({ reuse: true }) | read.mjs shardsReused | ours
  loaded | safetensors-mmap, readTensors() | read.mjs loaded | ours
  readFile | fs.readFile | read.mjs readFile
  mmapIo | @riaskov/mmap-io | read.mjs mmapIo | needs=@riaskov/mmap-io
  torchLoad | torch.load | read.py torch | file=torch needs=torch
  torchMapped | torch.load(mmap=True) | read.py torch-mapped | file=torch needs=torch
  pickle | pickle, protocol 5 | read.py pickle | file=pickle needs=numpy
  numpy | Python safe_open, numpy | read.py safe_open-numpy | needs=safetensors,numpy,ml_dtypes
  torch | Python safe_open, torch | read.py safe_open-torch | needs=safetensors,torch
  torchShards | Python safe_open, torch | read.py safe_open-torch-shards | needs=safetensors,torch
  python | Python mmap, json, numpy; no checks | read.py mmap-numpy | needs=numpy
  torchCheckpoint | open("model.pt") | read.mjs torch | ours file=torch
  pickleparser | pickleparser | read.mjs torchByPickleparser | file=torch needs=pickleparser
  jpickle | jpickle | read.mjs torchByJpickle | file=torch needs=jpickle

  nodeStart | Node, opens nothing | start.mjs nothing
  import | safetensors-mmap, its import alone | start.mjs import | ours
  ourStart | safetensors-mmap | start.mjs safetensors | ours
  ourTorchStart | open("model.pt") | start.mjs torch | ours file=torch
  numpyStart | Python safe_open, numpy | read.py safe_open-numpy | needs=safetensors,numpy,ml_dtypes
  torchStart | Python safe_open, torch | read.py safe_open-torch | needs=safetensors,torch
  mappedStart | torch.load(mmap=True) | read.py torch-mapped | file=torch needs=torch
  pickleStart | pickle, protocol 5 | read.py pickle | file=pickle needs=numpy

  open | open | headers.mjs open | ours
  keys | open + keys() | headers.mjs keys | ours
  json | JSON.parse + checks | headers.mjs json
  sortedJson | JSON.parse + checks, names sorted | headers.mjs json-keys
  pythonOpen | Python open | headers.py open | needs=safetensors,numpy,ml_dtypes
  pythonKeys | Python open + keys() | headers.py keys | needs=safetensors,numpy,ml_dtypes
  openIndex | safeOpen | headers.mjs checkpoint | ours
  openEveryHeader | safeOpen, every header: offsetKeys() | headers.mjs checkpoint-every-header | ours
  pythonIndexKeys | Python safe_open of all shards, offset_keys() | headers.py checkpoint-keys | needs=safetensors,numpy,ml_dtypes

  getBuilt | getTensor, a name built for the call | names.mjs built | ours
  getKept | getTensor, the same string again | names.mjs kept | ours
  mapBuilt | Map of tensors, a name built for the call | names.mjs map-built

  convert | convert | convert.mjs convert | ours file=torch
  convertUnverified | convert, verify: false | convert.mjs convert-unverified | ours file=torch
  copy | cp | convert.mjs cp | file=torch
  reshard | reshard, durable: false | convert.mjs reshard | ours
  copyFolder | cp -r | convert.mjs cp-folder
  convertMapped | torch.load(mmap=True) and save_file | convert_checkpoint.py mapped | file=torch needs=safetensors,torch
  convertPy | the steps of convert.py, Python | convert_checkpoint.py verified | file=torch needs=safetensors,torch

  save | saveFile, durable: false | save.mjs memory | ours
  saveDurable | saveFile | save.mjs memory-durable | ours
  saveOpen | open file: saveFile, durable: false | save.mjs file | ours
  saveOpenDurable | open file: saveFile | save.mjs file-durable | ours
  numpySave | save_file, Python with numpy | save.py memory | needs=safetensors,numpy,ml_dtypes
  numpySaveDurable | save_file, Python with numpy, fsync | save.py memory-durable | needs=safetensors,numpy,ml_dtypes
  torchSave | load_file and save_file, Python with torch | save.py torch | needs=safetensors,torch

  manySerialize | serialize | many.mjs serialize | ours
  manySave | saveFile, durable: false | many.mjs save | ours
  manySaveCheckpoint | saveCheckpoint, durable: false | many.mjs save-checkpoint | ours
  manyDequantize | dequantize | many.mjs dequantize | ours
  manyKeys | keys(), after safeOpenAsync | many.mjs keys | ours
  manyTensors | await tensors(), after safeOpenAsync | many.mjs tensors | ours
  manyVerify | verify | many.mjs verify | ours
  manySerializePython | Python save, numpy | many.py serialize | needs=safetensors,numpy,ml_dtypes
  manySavePython | Python save_file, numpy | many.py save | needs=safetensors,numpy,ml_dtypes

  casts | safetensors-mmap | casts.mjs - | ours
  castsTorch | torch | casts.py - | needs=safetensors,torch
  dequantize | safetensors-mmap | dequantize.mjs - | ours
  dequantizeTorch | torch | dequantize.py - | needs=safetensors,torch
  ggufDecode | dequantize | gguf.mjs decode | ours
  ggufDecodePython | gguf-py | gguf_blocks.py decode | needs=gguf
  ggufConvert | convert, durable: false | gguf.mjs convert | ours

  mergeAdapter | an adapter: safetensors-mmap | merge.mjs adapter | ours
  mergePeft | an adapter: PEFT | merge.py adapter | needs=torch,transformers,peft
  mergeLinear | two models: safetensors-mmap | merge.mjs linear | ours
  mergeLinearSteps | two models: mergekit's steps, NumPy | merge.py linear | needs=safetensors,numpy,ml_dtypes
  mergeTies | TIES of two models: safetensors-mmap | merge.mjs ties | ours
  mergeTiesSteps | TIES of two models: mergekit's steps, NumPy | merge.py ties | needs=safetensors,numpy,ml_dtypes
  mergeDare | DARE and TIES of two models: safetensors-mmap | merge.mjs dare_ties | ours

  take | takeFloat32 | rows.mjs take | ours
  takeAsync | takeFloat32Async, 16 at once | rows.mjs takeAsync | ours
  rowsLoop | a loop over the mapped values, JavaScript | rows.mjs loop | ours
  rowsRead | a read a row, fs.readSync | rows.mjs read
  rowsReadAsync | a read a row, fs.promises | rows.mjs readAsync
  rowServer | takeAsync behind node:http, 64 connections | row-server.mjs take | ours
  rowServerRead | fs.read behind node:http, 64 connections | row-server.mjs read

  received | safetensors-mmap | network.mjs own | ours
  receivedByFetch | safetensors-mmap, given a fetch | network.mjs fetch | ours
  curl | curl, and openssl | network.mjs curl

  inspect | safetensors-mmap inspect | cli inspect | ours
  inspectJson | safetensors-mmap inspect --json | cli inspect --json | ours
  version | safetensors-mmap --version | cli --version | ours
  header | safetensors-mmap header | cli header | ours
  verifyCommand | safetensors-mmap verify | cli verify | ours
  statsCommand | safetensors-mmap stats | cli stats | ours
  threeLines | header: three lines of Python | print_header.py -
  hash | safetensors-mmap hash | cli hash | ours
  sha256sum | sha256sum | sha256sum
  openssl | openssl dgst -sha256 | openssl dgst -sha256
  hashlib | Python hashlib | hash.py -
  verifyDigests | verify: digests of tensors | digests.mjs verify | ours
  saveNoDigests | saveFile, without digests | digests.mjs save | ours
  saveDigests | saveFile, digests: true | digests.mjs save-digests | ours
  streamNoDigests | serializeStream, without digests | digests.mjs stream | ours
  streamDigests | serializeStream, digests: true | digests.mjs stream-digests | ours
  verifyTorch | verify: checksums of a PyTorch checkpoint | digests.mjs verify | ours file=torch
  scanTorch | scanPickle: the same checksums | digests.mjs scan | ours file=torch
  testzip | zipfile.testzip, Python | testzip.py - | file=torch

  diff | safetensors-mmap diff --values --json | cli diff --values --json | ours exit=1
  torchDiff | diff --values: the same in Python with torch | compare_tensors.py - | needs=safetensors,torch

  formatSafetensors | safetensors: safetensors-mmap | read.mjs mapped | ours safe=✓ layout=✓
  formatTorch | pickle (PyTorch): safetensors-mmap | read.mjs torch | ours file=torch safe=✗ layout=✗
  formatPickleparser | pickle (PyTorch): pickleparser | read.mjs torchByPickleparser | file=torch needs=pickleparser safe=✗ layout=✗
  formatJpickle | pickle (PyTorch): jpickle | read.mjs torchByJpickle | file=torch needs=jpickle safe=✗ layout=✗
  formatNumpy | pickled NumPy (pdparams): pickleparser | read.mjs numpyByPickleparser | file=numpy-pickle needs=pickleparser safe=✗ layout=✗
  formatNpz | npz: safetensors-mmap | read.mjs npz | ours file=npz safe=✓ layout=✓
  formatHdf5 | HDF5: h5wasm | read.mjs hdf5 | file=hdf5 needs=h5wasm safe=✓ layout=~
  formatMessagePack | MessagePack (Flax): @msgpack/msgpack | read.mjs messagePack | file=msgpack needs=@msgpack/msgpack safe=✓ layout=✗
  formatArrow | Arrow IPC: apache-arrow | read.mjs arrow | file=arrow needs=apache-arrow safe=✓ layout=✓
  formatOnnx | Protobuf (ONNX): onnx-proto | read.mjs onnx | file=onnx needs=onnx-proto safe=✓ layout=✗`;

function parse(line) {
  const [key, name, command, options = ''] = line.split(' | ');
  const [, program, method = ''] = /^(\S+)(?: (.*))?$/.exec(command);
  const given = Object.fromEntries(options.split(' ').map((option) => option.split('=')));
  const { file = 'safetensors', needs, exit = 0, safe, layout } = given;
  const wanted = { format: file, needs: needs?.split(',') ?? [], exitCode: Number(exit) };
  return [key, { name, program, method, ours: 'ours' in given, safe, layout, ...wanted }];
}

const LINES = TABLE.split('\n').map((line) => line.trim());

/** All by their names. */
export const CONTENDERS = Object.fromEntries(LINES.filter((line) => line !== '').map(parse));

/** Some of them, in this order. */
export const pick = (names) => names.split(' ').map((name) => CONTENDERS[name]);
