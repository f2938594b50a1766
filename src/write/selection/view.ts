/** `select`: some tensors of a checkpoint, under other names, as other dtypes. */

import { argumentTypeError, type OptionNames, requireOptions } from '../../errors/arguments.js';
import type { SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import {
  type Computation,
  VIEW_OF,
  type Viewable,
  type ViewTensor,
} from '../../file/source/view.js';
import { DTYPES } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { QuantizedSource } from '../../quantized/source.js';
import { fillUnits } from '../../tensor/fill-units.js';
import type { Cast } from '../../tensor/float32/cast.js';
import { cast } from '../../tensor/float32/kernels.js';
import type { SliceIndices } from '../../tensor/slice.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import { runSync } from '../../work/work.js';
import { readSelection, type SelectionOptions } from './options.js';
import { type Selected, Selection, selectionSource } from './select.js';

/** Elements that are cast at once. */
const WINDOW_LENGTH = 2 ** 18;

/** What `select` takes: all tensors unchanged by default. */
export type SelectOptions = Pick<SelectionOptions, 'names' | 'rename' | 'dtype'>;

const SELECT_OPTIONS: OptionNames<SelectOptions> = { names: true, rename: true, dtype: true };

/** Members of the library's own handles. */
interface OwnSource<View> extends Viewable<View>, CastBase {
  readonly path: string | undefined;
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly problems: readonly SafetensorsError[];
  /** Lists all tensors, from headers that are known. */
  entriesNow(): TensorEntry[];
}

/**
 * Shows some tensors of a checkpoint, under other names, as other dtypes: a view, which is a checkpoint of the kind
 * that was given. Stored tensors keep their memory, under their new names too; cast ones are computed when they are
 * used, only what a call returns, and the view retains none. Whatever takes a checkpoint takes a view, and views
 * compose. It reads through the checkpoint, which stays the caller's to close.
 *
 * Opens all shards of a local checkpoint. A remote one must have fetched its headers: `await checkpoint.tensors()`.
 *
 * @param checkpoint any checkpoint: local, remote or a view
 * @param options which tensors, by their names or aliases or a function of name and info; new names by a function, Map,
 *   pairs or object; a dtype to which all tensors of F32, F64, F16 and BF16 are cast, except those of quantized
 *   weights, or a function of name and info that returns the dtype of one tensor, undefined to leave it. Values that
 *   are too large become infinite, as with torch
 * @throws TensorNotFoundError for unknown names; SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` for a dtype that cannot
 *   be cast; SelectionError for several problems; RangeError when no tensor is left; TypeError for a remote checkpoint
 *   whose headers are not fetched; errors of the caller's functions
 *
 * @example
 * ```ts
 * const view = select(safeOpen('my-model'), { names: (name) => name !== 'norm.weight', dtype: 'F32' });
 * console.log(view.keys(), view.info('embed.weight').dtype); // → [ 'embed.weight' ] F32
 * await saveFile('embed.safetensors', view);
 * ```
 */
export function select<Opened extends QuantizedSource>(
  checkpoint: Opened,
  options: SelectOptions = {},
): Opened {
  if (typeof checkpoint !== 'object' || checkpoint === null || !(VIEW_OF in checkpoint)) {
    throw argumentTypeError('checkpoint', 'an open checkpoint', checkpoint);
  }
  requireOptions(options, SELECT_OPTIONS);
  const base = checkpoint as unknown as OwnSource<Opened>;
  const entries = base.entriesNow();
  const { path, metadata } = base;
  const names = new Set(entries.map(({ name }) => name));
  const selection = new Selection(readSelection(options), selectionSource(names, metadata, path));
  const tensors = entries.map((info) => ({ name: info.name, info }));
  const selected = runSync(selection.of(tensors));
  const metadataOf = runSync(selection.metadataOf(selected));
  const problems = base.problems.filter(
    ({ tensor = '' }) => selection.names?.has(tensor) !== false,
  );
  return base[VIEW_OF]({
    tensors: selected.map((one) => viewTensor(base, one)),
    metadata: metadataOf(metadata),
    adaptMetadata: metadataOf,
    problems,
    quantMethod: null,
  });
}

function viewTensor(
  base: CastBase,
  { tensor, name, dtype, cast }: Selected<{ readonly name: string; readonly info: TensorEntry }>,
): ViewTensor {
  const { quantization, ...stored } = tensor.info;
  const entry = { ...stored, name, dtype, byteLength: tensorByteLength({ ...stored, dtype }) };
  return {
    entry: Object.freeze(quantization === undefined ? entry : { ...entry, quantization }),
    sources: [tensor.name],
    computation: cast === null ? null : castComputation(base, tensor.name, name, cast),
  };
}

/** Where a view fetches what it casts. */
interface CastBase {
  getTensor(name: string, options?: TransferOptions): Tensor | Promise<Tensor>;
  getSlice(name: string, ...args: readonly unknown[]): Tensor | Promise<Tensor>;
}

/** Returns the computation of `name` from the tensor `source` of the base. */
function castComputation(
  base: CastBase,
  source: string,
  name: string,
  { from, to }: Cast,
): Computation {
  const compute = (tensor: Tensor): Tensor => {
    const range = TensorOf.sourceOf(tensor);
    const offset = TensorOf.offsetOf(tensor);
    const [width, sourceWidth] = [DTYPES[to].bits / 8, DTYPES[from].bits / 8];
    const elements = { byteLength: width, atOnce: WINDOW_LENGTH };
    const made = range.computed(name, tensor.elementCount * width, (target, position) =>
      fillUnits(target, position, elements, (first, count, output) => {
        const bytes = new Uint8Array(count * sourceWidth);
        range.copyTo(bytes, offset + first * sourceWidth);
        range.verify();
        cast(from, to, bytes, output);
      }),
    );
    return TensorOf.of(name, to, tensor.shape, made);
  };
  return {
    compute: (sources) => compute(sources.get(source) as Tensor),
    fetch: async (index: SliceIndices, options) => {
      const fetched =
        index.length === 0
          ? await base.getTensor(source, options)
          : await base.getSlice(source, ...index, options);
      return await TensorOf.copyYielding(compute(fetched), options.signal);
    },
  };
}
